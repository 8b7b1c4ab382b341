"""Text generation, with the samplers of this module or of keras_nlp."""

import difflib
import functools
import itertools

import keras
import numpy as np
from keras import ops

from memlm_keras import files
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_token_ids
from memlm_keras.arguments import require_vocabulary
from memlm_keras.models.backbone import compile_inference

# Default arguments of keras_nlp's samplers for top-k and top-p sampling.
_TOP_K, _TOP_P = 5, 0.1
# This number is added to the logits of tokens that must not be generated.
_NEVER = -1e9
# Phases of a generated row: after its first word, at its first word, ended.
_LATER, _FIRST, _ENDED = range(3)
SAMPLERS = ("beam", "greedy", "random", "top_k", "top_p")


def generate(
    model,
    prompt,
    max_length,
    sampler,
    vocabulary,
    stop_token_ids,
    suppress_token_ids,
):
    """Implements `LanguageModel.generate`."""
    if vocabulary is not None or model.vocabulary is not None:
        vocabulary = require_vocabulary(model, vocabulary)
    rows, restore = _read_prompt(prompt, vocabulary)
    lengths = [len(row) for row in rows]
    if not rows or min(lengths) < 1:
        raise ValueError(
            "`prompt` must have at least one token in each row. Received: "
            f"prompt={prompt!r}"
        )
    require_positive_integer("max_length", max_length)
    if max(lengths) >= max_length:
        raise ValueError(
            "`max_length`, the length of prompt and continuation together, "
            f"must exceed the prompt's {max(lengths)} tokens. Received: "
            f"max_length={max_length}"
        )
    dtype = np.result_type("int32", *map(np.asarray, rows))
    tokens = keras.utils.pad_sequences(rows, max_length, dtype, padding="post")
    fixed = np.arange(max_length) < np.array(lengths)[:, None]
    size = model.vocabulary_size
    tokens = require_token_ids("prompt", tokens, size)
    if by_default := stop_token_ids is None and vocabulary is not None:
        stop_token_ids = [vocabulary.end_of_sentence_id]
    stops = () if stop_token_ids is None else stop_token_ids

    generated, lengths = model._sampling.write(
        sampler,
        tokens,
        fixed,
        state=model.read(tokens[:, : min(lengths) - 1]),
        stops=[i for i in np.ravel(stops).tolist() if 0 <= i < size],
        may_be_empty=not by_default,
        suppressed=_suppressed(suppress_token_ids, size),
    )
    return restore(generated, lengths)


def _suppressed(token_ids, size):
    """Returns a sequence of the token ids that are never generated."""
    if token_ids is None or np.size(token_ids) == 0:
        return ()
    token_ids = require_token_ids("suppress_token_ids", token_ids, size, ndim=1)
    if len(np.unique(token_ids)) == size:
        raise ValueError(
            "`suppress_token_ids` must leave at least one token. Received: "
            f"all {size} ids"
        )
    return token_ids


class Sampling:
    """Generates tokens; `step` maps tokens and state to logits and state."""

    def __init__(self, model, step):
        self.model = model
        self.step = step
        self.compiled = functools.cache(self._compile)

    def write(
        self,
        sampler,
        tokens,
        fixed,
        state,
        stops,
        may_be_empty=True,
        suppressed=(),
    ):
        """Generates the `tokens` `(batch, time)` where `fixed` is false.
        Returns the tokens, padded with stop tokens, and the rows' lengths."""
        # `state` is the state before the last token of the shortest prompt.
        penalties = np.zeros((3, self.model.vocabulary_size), "float32")
        penalties[:, suppressed] = _NEVER
        if not may_be_empty:
            penalties[_FIRST, stops] = _NEVER
        # A sampler also continues rows that have ended. Allow only a stop token
        # in ended rows, since other tokens would change the scores of beams.
        penalties[_ENDED] = _NEVER
        penalties[_ENDED, stops[:1]] = 0.0
        penalties = ops.convert_to_tensor(penalties)
        if sampler == "beam":
            sampler = beam_sampler('sampler="beam"')
        write = self._write_by if callable(sampler) else self._write
        generated = write(sampler, tokens, fixed, state, stops, penalties)
        ended = np.isin(generated, stops) & ~fixed
        lengths = np.where(ended.any(1), ended.argmax(1), generated.shape[1])
        for row, length in zip(generated, lengths):
            row[length:] = row[length : length + 1]
        return generated, lengths

    def _write(self, name, tokens, fixed, state, stops, penalties):
        """Generates with a sampler of this module."""
        draw = self.compiled(name)
        # Greedy search draws nothing, so keep the global seed unchanged.
        seeds = keras.random.SeedGenerator(0 if name == "greedy" else None)
        seed = ops.convert_to_numpy(seeds.state)
        lengths = fixed.sum(axis=1)
        ended = np.zeros(len(tokens), "bool")
        for index in range(lengths.min(), tokens.shape[1]):
            if ended.all():
                break
            place = np.where(lengths == index, _FIRST, _LATER)
            place = np.where(ended, _ENDED, place).astype("int32")
            last = tokens[:, index - 1 : index]
            drawn, state = draw(last, state, penalties, place, seed)
            written = ~fixed[:, index]
            tokens[written, index] = ops.convert_to_numpy(drawn)[written]
            ended |= written & np.isin(tokens[:, index], stops)
            seed = seed + np.array([0, 1], seed.dtype)
        return tokens

    def _compile(self, name):
        if name not in SAMPLERS:
            nearest = difflib.get_close_matches(str(name), SAMPLERS, 1)
            hint = f". Did you mean {nearest[0]!r}?" if nearest else ""
            raise ValueError(
                f"`sampler` must be one of {', '.join(map(repr, SAMPLERS))}, "
                f"or a sampler of keras_nlp. Received: sampler={name!r}{hint}"
            )
        # keras_nlp has the same samplers, but importing it takes seconds.
        seeds = keras.random.SeedGenerator(0)

        def draw(last, state, penalties, place, seed):
            last, place = map(ops.convert_to_tensor, (last, place))
            logits, state = self._predict(last, state, penalties, place)
            with keras.StatelessScope([(seeds.state, seed)]):
                return _choose(name, ops.softmax(logits), seeds), state

        return compile_inference(self.model, draw)

    def _predict(self, last, state, penalties, place):
        """Returns float32 logits, and the state after the last tokens."""
        logits, state = self.step(last, state)
        penalty = ops.take(penalties, place, axis=0)
        return ops.add(ops.cast(logits[:, -1], "float32"), penalty), state

    def _write_by(self, sampler, tokens, fixed, state, stops, penalties):
        """Generates with a sampler of keras_nlp."""
        # In the batch of a beam sampler, the beams of a row are adjacent.
        rows = np.repeat(fixed, getattr(sampler, "num_beams", 1), axis=0)
        lengths = ops.array(rows.sum(axis=1), "int32")
        written, ends = ops.array(~rows), ops.array(stops, "int32")

        def next_token(prompt, state, index):
            last = ops.slice(prompt, (0, index - 1), (ops.shape(prompt)[0], 1))
            place = ops.where(ops.equal(lengths, index), _FIRST, _LATER)
            if stops:
                before = ops.less(ops.arange(rows.shape[1]), index)
                ended = ops.logical_and(ops.isin(prompt, ends), written)
                ended = ops.any(ops.logical_and(ended, before), axis=-1)
                place = ops.where(ended, _ENDED, place)
            logits, state = self._predict(last, state, penalties, place)
            return logits, None, state

        # keras_nlp finds stop tokens even in unwritten positions, so fill such
        # positions with a token that is not a stop token.
        filler = next(i for i in itertools.count() if i not in stops)
        generated = sampler(
            next=next_token,
            prompt=ops.convert_to_tensor(np.where(fixed, tokens, filler)),
            cache=state,
            index=int(fixed.sum(axis=1).min()),
            mask=ops.convert_to_tensor(fixed),
            stop_token_ids=stops or None,
            model=self.model,
        )
        return np.array(ops.convert_to_numpy(generated))


def beam_sampler(user, **arguments):
    """Makes keras_nlp's `BeamSampler`; if missing, the error names `user`."""
    keras_nlp = files.import_package("keras_nlp", user, "keras-nlp")
    return keras_nlp.samplers.BeamSampler(**arguments)


def _choose(sampler, weights, seeds):
    """Chooses a token per row, like the keras_nlp sampler named `sampler`."""
    if sampler == "greedy":
        return ops.argmax(weights, axis=-1)
    if sampler != "random":
        kept = weights.shape[-1]
        kept = min(_TOP_K, kept) if sampler == "top_k" else kept
        weights, ids = ops.top_k(weights, kept, sorted=sampler == "top_p")
    if sampler == "top_p":
        total = ops.cumsum(weights, axis=-1)[:, :-1]
        before = ops.pad(total, ((0, 0), (1, 0)))
        weights = ops.where(before <= _TOP_P, weights, 0.0)
    chosen = keras.random.categorical(
        ops.log(weights), 1, seed=seeds, dtype="int32"
    )
    if sampler != "random":
        chosen = ops.take_along_axis(ids, chosen, axis=-1)
    return chosen[:, 0]


def is_text(tokens):
    """Returns whether `tokens` is a string or a list of strings."""
    if isinstance(tokens, str):
        return True
    return (
        isinstance(tokens, (list, tuple))
        and len(tokens) > 0
        and all(isinstance(row, str) for row in tokens)
    )


def require_strings(name, text, vocabulary):
    """Returns the vocabulary, or raises `ValueError` if it is `None`."""
    if vocabulary is None:
        raise ValueError(
            f"A string as `{name}` needs a model with a `vocabulary`, a "
            f"`memlm_keras.data.Vocabulary`. Received: {name}={text!r} and "
            "vocabulary=None"
        )
    return vocabulary


def _read_prompt(prompt, vocabulary):
    """Converts a prompt to rows of ids. Also returns a function that converts
    generated ids and their lengths to the prompt's type."""
    strings = [prompt] if isinstance(prompt, str) else prompt
    if is_text(prompt):
        vocabulary = require_strings("prompt", prompt, vocabulary)
        rows = [vocabulary.encode(row) for row in strings]
        # The end-of-sentence token of an empty prompt is not returned.
        start = [vocabulary.end_of_sentence_id]
        begins = [int(not len(row)) for row in rows]

        def restore(ids, lengths):
            texts = [
                vocabulary.detokenize(row[begin:length])
                for row, begin, length in zip(ids, begins, lengths)
            ]
            return texts[0] if isinstance(prompt, str) else texts

        return [row if len(row) else start for row in rows], restore
    if len(strings) and np.ndim(strings[0]) == 0:
        return [ops.convert_to_numpy(prompt)], lambda ids, _: ids[0]
    return [ops.convert_to_numpy(row) for row in strings], lambda ids, _: ids
