"use strict";
// Reads the typed text token by token, and shows what the model expects.

const WASM = "ort-wasm-simd-threaded.wasm", GLUE = "ort-wasm-simd-threaded.mjs";
const TOP = 10;
// Number of tokens whose words are shown: more would slow the browser down.
const SHOWN = 1000;
// Surprisal, in bits, with the darkest colour; and maximum bytes of kept states.
const DARKEST = 16, KEPT_BYTES = 64e6;
// Labels of words in the vocabulary and of unknown words.
const UNKNOWN = ["", ", as an unknown word"];
const $ = id => document.getElementById(id);

let vocabulary, facts, session;
// Tokens read so far, each with the predictions after it.
let entries = [];
// The text to read next, and the promise that resolves when it has been read.
let wanted = null, reading = null;
// The promise of the step that runs now, if any.
let adding = null;
// The place in `entries` of the chosen word, or `null` for the next token.
let chosen = null;
let writing = false;
// Milliseconds of the last steps.
let times = [];

// === Files ===

/** Returns the bytes of a file in this folder. For a page that is opened from
 * disk, browsers fetch nothing, so a script contains the files. */
async function bytesOf(name) {
  if (location.protocol === "file:") {
    const packed = atob((await packedFiles())[name]);
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
    const stream = new Blob([bytes]).stream();
    return new Uint8Array(await new Response(
      stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  }
  const response = await fetch(name);
  if (!response.ok)
    throw new Error(`${name} cannot be read: status ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

let packed = null;
function packedFiles() {
  packed ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "packed_files.js";
    script.onload = () => resolve(PACKED_FILES);
    script.onerror = () => reject(new Error("packed_files.js is missing"));
    document.head.append(script);
  });
  return packed;
}

async function load() {
  ort.env.wasm.numThreads = 1;
  if (location.protocol === "file:") {
    const glue = new Blob([await bytesOf(GLUE)], {type: "text/javascript"});
    ort.env.wasm.wasmPaths = {mjs: URL.createObjectURL(glue)};
    ort.env.wasm.wasmBinary = await bytesOf(WASM);
  } else {
    ort.env.wasm.wasmPaths = new URL("./", location.href).href;
  }
  const [model, text] = await Promise.all(
    ["model.onnx", "model.json"].map(bytesOf));
  facts = JSON.parse(new TextDecoder().decode(text));
  vocabulary = new Vocabulary(facts.vocabulary);
  document.title = $("name").textContent = facts.name;
  session = await ort.InferenceSession.create(model);
}

// === Reading ===

const ARRAYS = {float32: Float32Array, int32: Int32Array};

function initialState() {
  return Object.fromEntries(Object.entries(facts.states).map(
    ([name, {type, shape, initial}]) => {
      const size = shape.reduce((a, b) => a * b, 1);
      const values = new ARRAYS[type](initial ?? size);
      return [name, new ort.Tensor(type, values, shape)];
    }));
}

/** Reads one token after an entry, or from the initial state. */
async function step(id, token, before) {
  const begun = performance.now();
  const ids = new ort.Tensor("int32", [id], [1, 1]);
  const answer = await session.run(
    {token_ids: ids, ...(before ? before.state : initialState())});
  times = [...times.slice(-19), performance.now() - begun];
  const state = {};
  for (const name in facts.states) state[name] = answer[`next_${name}`];
  return {
    id, token, state,
    bits: before ? -before.logs[id] / Math.LN2 : null,
    logs: answer.log_probabilities.data,
    weights: answer.attention?.data,
  };
}

/** Returns pairs of id and token for a text with one sentence per line. */
function tokensOf(text) {
  const end = [vocabulary.endId, vocabulary.end_of_sentence];
  const pairs = [end];
  for (const [index, line] of text.split("\n").entries()) {
    if (index && pairs.at(-1)[0] !== vocabulary.endId) pairs.push(end);
    for (const token of vocabulary.tokenize(line))
      pairs.push([vocabulary.ids.get(token) ?? vocabulary.unknownId, token]);
  }
  return pairs;
}

/** Reads the changed part of a text, until it changes again. */
async function read(text) {
  await adding;
  const pairs = tokensOf(text);
  let same = 0;
  while (same < Math.min(pairs.length, entries.length)
    && entries[same].id === pairs[same][0]) {
    entries[same].token = pairs[same][1];
    same++;
  }
  entries.length = same;
  while (entries.length && !entries.at(-1).state) entries.pop();
  let shown = performance.now(), pause = 100;
  while (entries.length < pairs.length && wanted === null) {
    await add(...pairs[entries.length]);
    const now = performance.now();
    if (now - shown > pause) {
      show();
      // Showing a long text takes long, so it is shown less often.
      pause = Math.max(100, 4 * (performance.now() - now));
      // Lets the browser draw and handle keys.
      await new Promise(resolve => setTimeout(resolve));
      shown = performance.now();
    }
  }
}

async function add(id, token) {
  adding = step(id, token, entries.at(-1));
  const entry = await adding;
  entries.push(entry);
  let bytes = entry.logs.byteLength;
  for (const name in entry.state) bytes += entry.state[name].data.byteLength;
  // Frees an old entry's state. After a change there, words are read again.
  const old = entries[entries.length - 1 - Math.ceil(KEPT_BYTES / bytes)];
  if (old) old.state = old.logs = null;
}

/** Reads a text when the current reading has stopped. */
function ask() {
  wanted = $("text").value;
  chosen = null;
  reading ??= (async () => {
    try {
      while (wanted !== null) {
        const text = wanted;
        wanted = null;
        await read(text);
      }
      show();
    } catch (error) {
      fail(error);
    }
    reading = null;
  })();
  return reading;
}

// === Continuing ===

function draw(logs) {
  const greedy = $("sampler").value === "greedy";
  const temperature = Math.max(0.05, Number($("temperature").value) || 1);
  const first = entries.at(-1).id === vocabulary.endId;
  const allowed = id => id !== vocabulary.unknownId
    && !(first && id === vocabulary.endId);
  let most = -Infinity, best = 0;
  logs.forEach((value, id) => {
    if (value > most && allowed(id)) [most, best] = [value, id];
  });
  if (greedy) return best;
  const shares = Float64Array.from(logs, (value, id) =>
    allowed(id) ? Math.exp((value - most) / temperature) : 0);
  let left = Math.random() * shares.reduce((a, b) => a + b, 0);
  const drawn = shares.findIndex(share => (left -= share) < 0);
  // After rounding, the sum may be larger than the shares.
  return drawn < 0 ? best : drawn;
}

/** Writes a token after the text; the end of a sentence is a new line. */
function write(id) {
  const area = $("text");
  let text = id === vocabulary.endId ? "\n" : vocabulary.detokenize([id]);
  const before = area.value.at(-1);
  if (!before || vocabulary.white_space.includes(before))
    text = text.replace(/^ /, "");
  area.value += text;
  area.scrollTop = area.scrollHeight;
}

async function carryOn() {
  writing = true;
  $("continue").disabled = true;
  $("stop").disabled = false;
  await ask();
  const most = Number($("length").value) || 1;
  try {
    for (let count = 0; count < most && writing && !reading; count++) {
      const id = draw(entries.at(-1).logs);
      if (id < 0 || (id === vocabulary.endId && count)) break;
      write(id);
      await add(id, vocabulary.tokens[id]);
      show();
      await new Promise(resolve => setTimeout(resolve));
    }
  } catch (error) {
    fail(error);
  }
  stop();
}

function stop() {
  writing = false;
  $("continue").disabled = false;
  $("stop").disabled = true;
}

// === Showing ===
//
// Words are inserted as text, never as HTML.

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

/** Returns whether the token at a place begins a word. */
const beginsWord = place => entries[place - 1].id === vocabulary.endId
  || vocabulary.begins(entries[place].id);

/** Returns the last words that were read: the places of their tokens, their
 * text and their bits. */
function wordsOf() {
  const words = [];
  let first = Math.max(1, entries.length - SHOWN);
  while (first > 1 && !beginsWord(first)) first--;
  for (let place = first; place < entries.length; place++) {
    const entry = entries[place];
    if (beginsWord(place))
      words.push({start: place, stop: place, bits: 0, unknown: false});
    const word = words.at(-1);
    word.stop = place + 1;
    word.bits += entry.bits;
    word.unknown ||= entry.id === vocabulary.unknownId;
  }
  for (const word of words) word.text = textOf(word.start, word.stop);
  $("shown").textContent = first === 1 ? "" : `The last ${
    words.length.toLocaleString("en")} words are shown.`;
  return words;
}

function textOf(start, stop) {
  const some = entries.slice(start, stop);
  if (some[0].id === vocabulary.endId) return "\u21b5";
  if (some.some(({id}) => id === vocabulary.unknownId))
    return some.map(({token}) => token).join("").replaceAll(WORD_START, " ").trim();
  return vocabulary.detokenize(some.map(({id}) => id)).trim();
}

function show() {
  if (!entries.length) return;
  const words = wordsOf();
  showNext();
  showWords(words);
  showCurve(words);
  showAttention(words);
  const each = [...times].sort((a, b) => a - b)[times.length >> 1].toFixed(1);
  $("status").textContent = `${facts.parameters.toLocaleString("en")} `
    + `parameters, ${vocabulary.tokens.length.toLocaleString("en")} tokens; `
    + `${each} ms per token`;
}

function labelOf(id) {
  if (id === vocabulary.endId) return "\u21b5 end of sentence";
  const token = vocabulary.tokens[id].replaceAll(WORD_START, " ").trim();
  return vocabulary.begins(id) ? token : `\u2026${token}`;
}

function showNext() {
  const logs = entries.at(-1).logs;
  const best = [];
  logs.forEach((value, id) => {
    if (best.length === TOP && value <= logs[best.at(-1)]) return;
    let place = best.length;
    while (place && logs[best[place - 1]] < value) place--;
    best.splice(place, 0, id);
    best.length = Math.min(best.length, TOP);
  });
  const focused = [...$("next").children].findIndex(
    item => item.contains(document.activeElement));
  $("next").replaceChildren(...best.map(id => {
    const probability = Math.exp(logs[id]);
    const bar = element("span", {className: "bar"});
    bar.style.width = `${100 * probability}%`;
    const button = element("button", {
      // The token for unknown words is not text.
      disabled: id === vocabulary.unknownId,
      onclick: () => {
        write(id);
        ask();
      },
    },
    element("span", {textContent: labelOf(id)}),
    bar,
    element("span", {className: "number",
      textContent: `${(100 * probability).toFixed(2)} %`}));
    button.dataset.token = vocabulary.tokens[id];
    button.dataset.logProbability = logs[id];
    return element("li", {}, button);
  }));
  if (focused >= 0) $("next").children[focused].firstChild.focus();
}

function showWords(words) {
  const focused = $("words").contains(document.activeElement);
  $("words").replaceChildren(...words.map((word, index) => {
    const button = element("button", {
      textContent: word.text,
      className: word.unknown ? "unknown" : "",
      title: `${word.bits.toFixed(2)} bits${UNKNOWN[+word.unknown]}`,
      tabIndex: word.start === (chosen ?? words.at(-1).start) ? 0 : -1,
      onclick: () => choose(word.start),
      onkeydown: event => move(event, words, index),
    });
    button.dataset.bits = word.bits;
    button.style.setProperty(
      "--share", 0.85 * Math.min(1, word.bits / DARKEST));
    button.setAttribute("aria-pressed", word.start === chosen);
    button.setAttribute(
      "aria-label", `${word.text}, ${button.title}`);
    return element("li", {}, button);
  }));
  if (focused) $("words").querySelector("[tabindex='0']")?.focus();
  const word = words.find(({start}) => start === chosen);
  $("word").textContent = "";
  if (word)
    $("word").textContent = `\u201c${word.text}\u201d has a surprisal of `
      + `${word.bits.toFixed(2)} bits, a probability of `
      + `${(2 ** -word.bits).toPrecision(3)}${UNKNOWN[+word.unknown]}.`;
}

function choose(start) {
  chosen = start;
  show();
}

function move(event, words, index) {
  const places = {
    ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0,
    End: words.length - 1,
  };
  if (event.key === "Escape") choose(null);
  else if (words[places[event.key]]) choose(words[places[event.key]].start);
  else return;
  event.preventDefault();
}

function showCurve(words) {
  const curve = $("curve");
  curve.toggleAttribute("hidden", words.length < 2);
  if (words.length < 2) return;
  const drawn = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes))
      made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const width = curve.clientWidth, height = curve.clientHeight;
  const most = Math.max(DARKEST, ...words.map(({bits}) => bits));
  const x = index => 34 + (width - 42) * index / (words.length - 1);
  const y = bits => height - 8 - (height - 24) * bits / most;
  const points = words.map(({bits}, index) => [x(index), y(bits)]);
  const parts = [0, most / 2, most].flatMap(bits => [
    drawn("line", {x1: 30, x2: width, y1: y(bits), y2: y(bits)}),
    drawn("text", {x: 26, y: y(bits) + 4, "text-anchor": "end"},
      bits.toFixed(0)),
  ]);
  parts.push(drawn("polyline", {points: points.join(" ")}));
  // The curve of a long text is drawn without points.
  points.forEach(([cx, cy], index) => {
    const is = words[index].start === chosen;
    if (is || points.length <= 100)
      parts.push(drawn("circle", {cx, cy, r: is ? 5 : 2.5,
        class: is ? "chosen" : ""}));
  });
  curve.replaceChildren(...parts);
}

/** Shows the attention that predicted the chosen word, or the next one. */
function showAttention(words) {
  const buttons = [...$("words").children].map(item => item.firstChild);
  for (const button of buttons) button.classList.remove("seen");
  $("attention").replaceChildren();
  if (facts.distances === null) {
    $("looked").textContent = "This model has no memory that looks back: all "
      + "it remembers is in its state.";
    return;
  }
  const predicted = chosen ?? entries.length;
  const word = words.find(({start}) => start === chosen);
  $("looked").textContent = "Weights of the words before "
    + (word ? `\u201c${word.text}\u201d.` : "the next token.");
  const weights = entries[predicted - 1].weights;
  const shares = words.map(() => 0);
  facts.distances.forEach((distance, slot) => {
    const place = predicted - distance;
    const index = words.findIndex(
      ({start, stop}) => start <= place && place < stop);
    if (index >= 0) shares[index] += weights[slot];
  });
  shares.forEach((share, index) => {
    if (share < 0.005) return;
    buttons[index].classList.add("seen");
    buttons[index].style.setProperty("--weight", Math.min(1, share));
  });
  const order = shares.map((_, index) => index).filter(
    index => shares[index] >= 0.005);
  order.sort((one, other) => shares[other] - shares[one]);
  $("attention").replaceChildren(...order.slice(0, 5).map(index => {
    const bar = element("span", {className: "bar"});
    bar.style.width = `${100 * Math.min(1, shares[index])}%`;
    const item = element("li", {},
      element("span", {textContent: words[index].text}), bar,
      element("span", {className: "number",
        textContent: shares[index].toFixed(3)}));
    item.dataset.weight = shares[index];
    return item;
  }));
}

function fail(error) {
  $("status").textContent = `The model cannot run: ${error.message ?? error}`;
  $("status").classList.add("wrong");
}

// === Beginning ===

$("text").addEventListener("input", () => {
  writing = false;
  if (session) ask();
});
$("continue").addEventListener("click", carryOn);
$("stop").addEventListener("click", stop);
$("sampler").addEventListener("change", showTemperature);
addEventListener("resize", () => show());

function showTemperature() {
  $("temperature").disabled = $("sampler").value === "greedy";
}

showTemperature();
load().then(ask).then(() => {
  performance.mark("first answer");
  if (session) stop();
}).catch(fail);
