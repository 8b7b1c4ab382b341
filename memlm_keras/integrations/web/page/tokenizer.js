"use strict";
// Encodes texts as the vocabularies of memlm_keras do.

const WORD_START = "\u2581";
const NORMAL = 1, USER_DEFINED = 4;
const UNKNOWN_PENALTY = 10;

/** Returns a function that caches its results. */
function remembered(compute) {
  const known = new Map();
  return key => {
    let found = known.get(key);
    if (found === undefined) known.set(key, found = compute(key));
    return found;
  };
}

/** Returns the number of bytes of a code point in UTF-8. */
const bytesOf = code => 1 + (code > 0x7f) + (code > 0x7ff) + (code > 0xffff);

/** A vocabulary from the facts in model.json. */
class Vocabulary {
  constructor(facts) {
    Object.assign(this, facts);
    this.ids = new Map(facts.tokens.map((token, id) => [token, id]));
    this.unknownId = this.ids.get(facts.unknown);
    this.endId = this.ids.get(facts.end_of_sentence);
    this.tokenizer = new {
      words: Tokenizer, longest_match: LongestMatch, unigram: Unigram,
      bpe: BytePairs, word: Words, char: Characters,
    }[facts.kind](facts);
  }

  tokenize(text) {
    // Python also encodes a lone surrogate as "?".
    return this.tokenizer.tokenize(text.replace(/[\ud800-\udfff]/gu, "?"));
  }

  encode(text) {
    return this.tokenize(text).map(
      token => this.ids.get(token) ?? this.unknownId);
  }

  /** Returns whether a token begins a word. */
  begins(id) {
    return this.unit !== "pieces" || id === this.endId
      || this.tokens[id].startsWith(WORD_START);
  }

  /** Returns the text of ids that continue a text, with a space before a word. */
  detokenize(ids) {
    if (this.unit === "words") {
      const separator = this.split === "characters" ? "" : " ";
      return ids.map(id => separator + this.tokens[id]).join("");
    }
    const bytes = ids.flatMap(id => {
      const byte = /^<0x([0-9a-fA-F]{2})>$/.exec(this.tokens[id]);
      return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(
        this.tokens[id].replaceAll(WORD_START, " "))];
    });
    return new TextDecoder().decode(new Uint8Array(bytes));
  }
}

/** `memlm_keras.data.Tokenizer`. */
class Tokenizer {
  constructor(facts) {
    Object.assign(this, facts);
    this.spaces = new Set(facts.white_space);
    if (facts.lower_case) {
      const characters = [...facts.lower_case];
      this.lower = new Map();
      for (let i = 0; i < characters.length; i += 2)
        this.lower.set(characters[i], characters[i + 1]);
    }
    if (facts.numbers !== null)
      this.number = new RegExp(`^(?:${facts.number_pattern})$`);
    if (facts.scripts) {
      const [starts, scripts] = facts.scripts;
      this.classes = new Uint8Array(0x110000);
      starts.forEach((start, i) => this.classes.fill(scripts[i], start));
    }
  }

  tokenize(text) {
    let begins = () => false;
    if (this.split === "characters") begins = () => true;
    if (this.split === "unicode_script")
      begins = (one, before) => this.classes[one.codePointAt(0)]
        !== this.classes[before.codePointAt(0)];
    const tokens = [];
    let before = null;
    for (const one of text) {
      const space = this.spaces.has(one);
      if (!space && (before === null || begins(one, before))) tokens.push("");
      if (!space) tokens[tokens.length - 1] += this.lower?.get(one) ?? one;
      before = space ? null : one;
    }
    return tokens.map(
      token => this.number?.test(token) ? this.numbers : token);
  }
}

/** `memlm_keras.data.subwords.LongestMatchTokenizer`. */
class LongestMatch {
  constructor({tokens, unit, mark, white_space}) {
    Object.assign(this, {unit, mark});
    this.splitter = new Tokenizer(
      {split: "white_space", numbers: null, white_space});
    this.matched = new Set(tokens.filter(token => unit === "words"
      || !(token.startsWith("<") && token.endsWith(">"))));
    this.longest = Math.max(1, ...[...this.matched].map(
      token => [...token].length));
    this.split = remembered(word => this.pieces(word));
  }

  tokenize(text) {
    const words = this.splitter.tokenize(text);
    return this.unit === "words" ? words : words.flatMap(this.split);
  }

  pieces(word) {
    const rest = [...this.mark + word], pieces = [];
    while (rest.length) {
      let size = Math.min(this.longest, rest.length);
      while (size && !this.matched.has(rest.slice(0, size).join(""))) size--;
      const piece = rest.splice(0, size || 1).join("");
      if (size || piece !== WORD_START) pieces.push(piece);
    }
    return pieces;
  }
}

// === SentencePiece ===

/** Base of SentencePiece models; each kind defines `splitPieces`. */
class SentencePiece {
  constructor(facts) {
    Object.assign(this, facts);
    const blob = Uint8Array.from(atob(facts.charsmap), c => c.charCodeAt(0));
    if (blob.length) {
      const size = new DataView(blob.buffer).getUint32(0, true);
      this.trie = new Uint32Array(blob.buffer.slice(4, 4 + size));
      this.replacements = blob.subarray(4 + size);
      this.replacement = remembered(start => new TextDecoder(
        "utf-8", {ignoreBOM: true}).decode(this.replacements.subarray(
        start, this.replacements.indexOf(0, start))));
    }
    this.index = new Map();
    this.defined = new Set();
    facts.pieces.forEach((piece, i) => {
      if ([NORMAL, USER_DEFINED].includes(facts.types[i]))
        this.index.set(piece, i);
      if (facts.types[i] === USER_DEFINED) this.defined.add(piece);
    });
    this.longestDefined = Math.max(
      0, ...[...this.defined].map(piece => piece.length));
  }

  tokenize(text) {
    const tokens = [];
    let wasUnknown = false;
    text = [...text].map(one => this.read_as[one] ?? one).join("");
    for (const piece of this.splitPieces(this.normalize(text))) {
      const unknown = !this.index.has(piece);
      if (unknown && this.byte_fallback)
        for (const byte of new TextEncoder().encode(piece))
          tokens.push(
            `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
      else if (unknown && wasUnknown) tokens[tokens.length - 1] += piece;
      else tokens.push(piece);
      wasUnknown = unknown;
    }
    return tokens;
  }

  /** Returns the length of the longest user-defined symbol at a place, or 0. */
  definedAt(text, start) {
    for (let size = this.longestDefined; size; size--)
      if (this.defined.has(text.slice(start, start + size))) return size;
    return 0;
  }

  /** Splits a text into characters and user-defined symbols. */
  symbols(text) {
    const symbols = [];
    for (let start = 0; start < text.length;) {
      const size = this.definedAt(text, start)
        || String.fromCodePoint(text.codePointAt(start)).length;
      symbols.push(text.slice(start, start + size));
      start += size;
    }
    return symbols;
  }

  normalize(text) {
    const parts = [...this.replaced(text)], trims = this.remove_extra_whitespaces;
    // A text of only spaces has no pieces.
    if (!parts.length || (trims && parts.every(part => part === " "))) return "";
    const space = this.escape_whitespaces ? WORD_START : " ";
    const added = this.add_dummy_prefix ? space : "";
    let written = this.suffix ? "" : added, afterSpace = trims;
    for (const part of parts) {
      const kept = afterSpace ? part.replace(/^ +/, "") : part;
      written += kept.includes(" ") ? kept.replaceAll(" ", space) : kept;
      if (kept) afterSpace = trims && kept.endsWith(" ");
    }
    while (trims && written.endsWith(space)) written = written.slice(0, -1);
    return this.suffix ? written + added : written;
  }

  /** Yields the parts of a text after replacement. */
  *replaced(text) {
    const bytes = new TextEncoder().encode(text);
    for (let start = 0, place = 0; start < text.length;) {
      const size = this.definedAt(text, start), code = text.codePointAt(start);
      let end = start + size, part = text.slice(start, end), stop = place;
      if (!size) {
        let length;
        [length, part] = this.replacementAt(bytes, place);
        stop += length;
        if (!length) {
          part = String.fromCodePoint(code);
          end = start + part.length;
        }
      }
      yield part;
      // Moves to the end of the part, which is known in bytes or characters.
      while (start < end || place < stop) {
        const one = text.codePointAt(start);
        place += bytesOf(one);
        start += one > 0xffff ? 2 : 1;
      }
    }
  }

  /** Returns the bytes and the replacement of the longest match in the
   * double-array trie. */
  replacementAt(bytes, place) {
    let longest = 0, value = 0;
    if (!this.trie) return [0, ""];
    const offset = unit => (unit >>> 10) << ((unit & 512) >>> 6);
    let node = offset(this.trie[0]);
    for (let i = place; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = this.trie[node];
      // The highest bit marks a value.
      if (unit >>> 31 || (unit & 255) !== bytes[i]) break;
      node ^= offset(unit);
      if (unit >>> 8 & 1) {
        longest = i + 1 - place;
        value = this.trie[node] & 0x7fffffff;
      }
    }
    return [longest, longest ? this.replacement(value) : ""];
  }
}

class Characters extends SentencePiece {
  splitPieces(text) {
    return this.symbols(text);
  }
}

class Words extends SentencePiece {
  splitPieces(text) {
    const words = [];
    for (const one of text) {
      const ends = words.length && words.at(-1).endsWith(WORD_START);
      const begins = this.suffix ? ends : one === WORD_START;
      if (!words.length || begins) words.push(one);
      else words[words.length - 1] += one;
    }
    return words;
  }
}

class BytePairs extends SentencePiece {
  constructor(facts) {
    super(facts);
    // If no piece crosses a word boundary, words are split one by one.
    this.apart = !this.suffix && ![...this.index.keys()].some(
      piece => piece.indexOf(WORD_START, 1) > 0);
    this.join = remembered(word => this.joined(word));
  }

  splitPieces(text) {
    const words = this.apart ? text.split(new RegExp(`(?=${WORD_START})`)) : [text];
    return words.flatMap(this.join);
  }

  joined(text) {
    const parts = this.symbols(text);
    const frozen = parts.map(part => this.defined.has(part));
    const before = parts.map((_, i) => i - 1), after = parts.map((_, i) => i + 1);
    const pairs = new Heap();
    const add = (left, right) => {
      if (left < 0 || right >= parts.length || frozen[left] || frozen[right])
        return;
      const piece = parts[left] + parts[right], place = this.index.get(piece);
      if (place !== undefined)
        pairs.push({score: this.scores[place], left, right, piece});
    };
    for (let i = 1; i < parts.length; i++) add(i - 1, i);
    for (let pair; (pair = pairs.pop());) {
      const {left, right, piece} = pair;
      if (parts[left] === null || parts[right] === null
        || parts[left] + parts[right] !== piece) continue;
      parts[left] = piece;
      parts[right] = null;
      after[left] = after[right];
      if (after[right] < parts.length) before[after[right]] = left;
      add(before[left], left);
      add(left, after[left]);
    }
    return parts.filter(part => part !== null);
  }
}

/** A queue of pairs by their score; ties go to the first pair. */
class Heap {
  constructor() {
    this.items = [];
  }

  before(one, other) {
    return one.score > other.score
      || (one.score === other.score && one.left < other.left);
  }

  push(item) {
    const items = this.items;
    let place = items.push(item) - 1;
    for (let up; place && this.before(item, items[up = (place - 1) >> 1]);) {
      items[place] = items[up];
      place = up;
    }
    items[place] = item;
  }

  pop() {
    const items = this.items, first = items[0], last = items.pop();
    if (!items.length) return first;
    let place = 0;
    for (let down; (down = 2 * place + 1) < items.length;) {
      if (down + 1 < items.length && this.before(items[down + 1], items[down]))
        down++;
      if (!this.before(items[down], last)) break;
      items[place] = items[down];
      place = down;
    }
    items[place] = last;
    return first;
  }
}

class Unigram extends SentencePiece {
  constructor(facts) {
    super(facts);
    const normal = facts.scores.filter((_, i) => facts.types[i] === NORMAL);
    this.least = normal.reduce((a, b) => Math.min(a, b), Infinity);
    this.most = normal.reduce((a, b) => Math.max(a, b), -Infinity);
    // All prefixes of pieces.
    this.begun = new Set();
    for (const piece of this.index.keys())
      for (let size = 1; size <= piece.length; size++)
        this.begun.add(piece.slice(0, size));
  }

  /** Returns the pieces with the largest total score, in float32 as in Python. */
  splitPieces(text) {
    const best = new Float32Array(text.length + 1);
    const from = new Int32Array(text.length + 1).fill(-1);
    const offer = (start, end, score) => {
      const sum = Math.fround(Math.fround(score) + best[start]);
      if (from[end] === -1 || sum > best[end]) {
        best[end] = sum;
        from[end] = start;
      }
    };
    for (let start = 0, width; start < text.length; start += width) {
      width = String.fromCodePoint(text.codePointAt(start)).length;
      let single = false;
      for (let size = 1; start + size <= text.length; size++) {
        const piece = text.slice(start, start + size);
        if (!this.begun.has(piece)) break;
        const place = this.index.get(piece);
        if (place === undefined) continue;
        offer(start, start + size, this.types[place] === USER_DEFINED
          ? new TextEncoder().encode(piece).length * this.most - 0.1
          : this.scores[place]);
        single ||= size === width;
      }
      if (!single)
        offer(start, start + width, Math.fround(this.least - UNKNOWN_PENALTY));
    }
    const pieces = [];
    for (let end = text.length; end; end = from[end])
      pieces.push(text.slice(from[end], end));
    return pieces.reverse();
  }
}

if (typeof module !== "undefined") module.exports = {Vocabulary};
