// Reads words and prints how probable a language model finds each of them, with
// onnxruntime-node (`npm install onnxruntime-node`).
//
//   node onnx_client.js model.onnx < words.txt
//
// `memlm export RUN model.onnx --format=onnx` writes such a model. With another
// argument, a file of this name gets the log-probabilities of all words at each
// step, as float32.
"use strict";
const fs = require("node:fs");
const ort = require("onnxruntime-node");

// The metadata of an ONNX file, which onnxruntime-node does not give: pairs of
// strings in the fields with number 14 of a protocol buffer.
function metadata(file) {
  const found = {};
  for (const [number, value] of fields(file)) {
    if (number !== 14) continue;
    const [key, text] = [...fields(value)].map(([, part]) => part.toString());
    found[key] = JSON.parse(text);
  }
  return found;
}

function* fields(buffer) {
  let place = 0;
  const integer = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = buffer[place++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (place < buffer.length) {
    const tag = integer();
    const size = integer();
    // Other fields of a model are integers by themselves.
    if (tag % 8 !== 2) continue;
    yield [tag >> 3, buffer.subarray(place, place + size)];
    place += size;
  }
}

async function main(path, written) {
  const file = fs.readFileSync(path);
  const facts = metadata(file);
  const session = await ort.InferenceSession.create(file, {
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
  });
  const ids = new Map(facts.tokens.map((token, id) => [token, id]));
  const feeds = {};
  for (const { name, type, shape } of session.inputMetadata) {
    if (name === "token_ids") continue;
    const dims = [1, ...shape.slice(1)];
    const size = dims.reduce((product, dim) => product * dim);
    // Zeros, if the file says nothing else.
    const kind = type === "int32" ? Int32Array : Float32Array;
    const first = [facts.initial_state[name] ?? []].flat(Infinity);
    const values = kind.from({ length: size }, (_, i) => first[i] ?? 0);
    feeds[name] = new ort.Tensor(type, values, dims);
  }
  const words = fs.readFileSync(0, "utf8").split(/\s+/).filter(Boolean);
  const lines = [];
  const all = [];
  let id = facts.end_of_sentence_id;
  let start;
  for (let step = 0; step <= words.length; ++step) {
    feeds.token_ids = new ort.Tensor(
      "int64",
      BigInt64Array.of(BigInt(id)),
      [1, 1]
    );
    const found = await session.run(feeds);
    // The first step takes longer.
    if (step === 0) start = performance.now();
    const scores = found.log_probabilities.data;
    if (written) all.push(Buffer.from(new Float32Array(scores).buffer));
    if (step === words.length) break;
    id = ids.get(words[step]) ?? facts.unknown_id;
    const most = scores.reduce((a, b) => Math.max(a, b));
    const best = facts.tokens[scores.indexOf(most)];
    lines.push(`${words[step]}\t${scores[id]}\t${best}\n`);
    for (const name of Object.keys(feeds))
      if (name !== "token_ids") feeds[name] = found[`next_${name}`];
  }
  const taken = (performance.now() - start) / Math.max(words.length, 1);
  process.stdout.write(lines.join(""));
  process.stderr.write(`${taken} ms a word\n`);
  if (written) fs.writeFileSync(written, Buffer.concat(all));
}

if (![3, 4].includes(process.argv.length)) {
  console.error("usage: node onnx_client.js model.onnx [log_probabilities]");
  process.exit(2);
}
main(...process.argv.slice(2)).catch((error) => {
  console.error(`onnx_client: ${error.message}`);
  process.exit(1);
});
