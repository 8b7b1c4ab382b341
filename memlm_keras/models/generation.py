"""Text generation, with the samplers of this module or of keras_nlp."""

import difflib
import itertools

import keras
import numpy as np
from keras import ops

from memlm_keras import files
from memlm_keras.arguments import require_token_ids
from memlm_keras.arguments import require_vocabulary

# Defaults of keras_nlp: number of words, and their cumulative probability.
_TOP_K, _TOP_P = 5, 0.1
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
    if max(lengths) >= max_length:
        raise ValueError(
            "`max_length` counts prompt and continuation: it must be larger "
            f"than the prompt's {max(lengths)} tokens. Received: "
            f"max_length={max_length}"
        )
    tokens = np.zeros((len(rows), max_length), "int32")
    fixed = np.zeros((len(rows), max_length), "bool")
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = row
        fixed[index, : len(row)] = True
    tokens = require_token_ids("prompt", tokens, model.vocabulary_size)
    by_default = stop_token_ids is None and vocabulary is not None
    if by_default:
        stop_token_ids = [vocabulary.end_of_sentence_id]

    generated, lengths = sample(
        model=model,
        sampler=sampler,
        step=_suppressing(model, suppress_token_ids),
        tokens=tokens,
        fixed=fixed,
        state=model.read(tokens[:, : min(lengths) - 1]),
        stop_token_ids=stop_token_ids,
        may_be_empty=not by_default,
    )
    return restore(generated, lengths)


def _suppressing(model, token_ids):
    """Returns a `model.step` that never predicts the given tokens."""
    if token_ids is None or np.size(token_ids) == 0:
        return model.step
    size = model.vocabulary_size
    token_ids = require_token_ids("suppress_token_ids", token_ids, size, ndim=1)
    penalty = np.zeros(size, "float32")
    penalty[token_ids] = -1e9
    if penalty.all():
        raise ValueError(
            "`suppress_token_ids` must leave a token to write. Received: all "
            f"{size} ids"
        )
    penalty = ops.convert_to_tensor(penalty)

    def step(tokens, state):
        logits, state = model.step(tokens, state)
        return ops.add(ops.cast(logits, "float32"), penalty), state

    return step


def sample(
    model,
    sampler,
    step,
    tokens,
    fixed,
    state,
    stop_token_ids,
    may_be_empty=True,
):
    """Generates `tokens` `(batch, time)` where bool `fixed` is false; returns
    the tokens, padded with stop tokens, and the lengths of rows."""
    # `state` is the state before the last token of the shortest prompt.

    def next_token(prompt, state, index):
        last = ops.slice(prompt, (0, index - 1), (ops.shape(prompt)[0], 1))
        logits, state = step(last, state)
        return logits[:, -1], None, state

    sampler = _sampler(sampler, model.vocabulary_size)
    stops = list(stop_token_ids or ())
    if stops:
        # In the batch of a beam sampler, the beams of a row are adjacent.
        beams = getattr(sampler, "num_beams", 1)
        next_token = _ending(
            next_token, np.repeat(fixed, beams, axis=0), stops, may_be_empty
        )
    # Samplers also look for stop tokens in positions after the last token.
    filler = next(token for token in itertools.count() if token not in stops)
    generated = sampler(
        next=next_token,
        prompt=ops.convert_to_tensor(np.where(fixed, tokens, filler)),
        cache=state,
        index=int(fixed.sum(axis=1).min()),
        mask=ops.convert_to_tensor(fixed),
        stop_token_ids=stops or None,
        model=model,
    )
    generated = np.array(ops.convert_to_numpy(generated))
    ended = np.isin(generated, stops) & ~fixed
    lengths = np.where(ended.any(1), ended.argmax(1), generated.shape[1])
    for row, length in zip(generated, lengths):
        row[length:] = row[length : length + 1]
    return generated, lengths


def _ending(next_token, fixed, stops, may_be_empty):
    """Wraps `next_token` such that rows repeat a stop token after their end
    and, unless `may_be_empty`, do not start with a stop token."""
    # Samplers continue every row until all rows have ended, and tokens after
    # the end of a row would change the scores of beams.
    prompt_lengths = ops.array(fixed.sum(axis=1), "int32")

    def next_or_end(prompt, state, index):
        logits, hidden, state = next_token(prompt, state, index)
        before = ops.less(ops.arange(fixed.shape[1], dtype="int32"), index)
        written = ops.logical_and(before, ops.array(~fixed))
        stopped = ops.any(
            ops.equal(prompt[..., None], ops.array(stops, prompt.dtype)),
            axis=-1,
        )
        ended = ops.any(ops.logical_and(stopped, written), axis=-1)
        logits = ops.cast(logits, "float32")
        vocabulary = ops.arange(logits.shape[-1])
        if not may_be_empty:
            first = ops.equal(prompt_lengths, index)[:, None]
            stop = ops.any(
                ops.equal(vocabulary[:, None], ops.array(stops, "int32")), -1
            )
            logits = ops.where(ops.logical_and(first, stop), -1e9, logits)
        only_end = ops.where(ops.equal(vocabulary, stops[0]), 0.0, -1e9)
        return (
            ops.where(ended[:, None], only_end[None], logits),
            hidden,
            state,
        )

    return next_or_end


def _sampler(sampler, vocabulary_size):
    """Returns the sampler with the given name, or the given sampler."""
    if callable(sampler):
        return sampler
    if sampler not in SAMPLERS:
        nearest = difflib.get_close_matches(str(sampler), SAMPLERS, 1)
        hint = f". Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(
            f"`sampler` must be one of {', '.join(map(repr, SAMPLERS))}, or a "
            f"sampler of keras_nlp. Received: sampler={sampler!r}{hint}"
        )
    if sampler != "beam":
        return _Sampler(sampler, vocabulary_size)
    return beam_sampler('sampler="beam"')


def beam_sampler(user, **arguments):
    """Returns keras_nlp's `BeamSampler`; if keras_nlp is missing, raises an
    `ImportError` that names `user`."""
    keras_nlp = files.import_package("keras_nlp", user, "keras-nlp")
    return keras_nlp.samplers.BeamSampler(**arguments)


class _Sampler:
    """Samples like keras_nlp's sampler with the same name, one token per row at
    a time; importing keras_nlp would take seconds."""

    def __init__(self, name, vocabulary_size):
        self.name = name
        self.kept = vocabulary_size
        if name == "top_k":
            self.kept = min(_TOP_K, vocabulary_size)
        if name != "greedy":
            self.seeds = keras.random.SeedGenerator()

    def __call__(self, next, prompt, cache, index, mask, stop_token_ids, model):
        while index < prompt.shape[1]:
            ended = np.isin(ops.convert_to_numpy(prompt), stop_token_ids or ())
            if (ended & ~ops.convert_to_numpy(mask)).any(axis=1).all():
                break
            logits, _, cache = next(prompt, cache, index)
            token = ops.cast(self._choose(logits), prompt.dtype)
            token = ops.where(mask[:, index], prompt[:, index], token)
            prompt = ops.slice_update(prompt, (0, index), token[:, None])
            index += 1
        return prompt

    def _choose(self, logits):
        weights = ops.softmax(ops.cast(logits, "float32"))
        if self.name == "greedy":
            return ops.argmax(weights, axis=-1)
        if self.name != "random":
            ordered = self.name == "top_p"
            weights, ids = ops.top_k(weights, self.kept, sorted=ordered)
        if self.name == "top_p":
            total = ops.cumsum(weights, axis=-1)[:, :-1]
            before = ops.pad(total, ((0, 0), (1, 0)))
            weights = ops.where(before <= _TOP_P, weights, 0.0)
        chosen = keras.random.categorical(
            ops.log(weights), 1, seed=self.seeds, dtype="int32"
        )
        if self.name != "random":
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
            f"Strings as `{name}` need a model with a `vocabulary`, a "
            f"`memlm_keras.data.Vocabulary`. Received: {name}={text!r} and "
            "vocabulary=None"
        )
    return vocabulary


def _read_prompt(prompt, vocabulary):
    """Returns rows of ids, and a function that converts generated ids and
    lengths to the type of the prompt."""
    strings = [prompt] if isinstance(prompt, str) else prompt
    if is_text(prompt):
        vocabulary = require_strings("prompt", prompt, vocabulary)
        rows = [vocabulary.encode(row) for row in strings]
        # For an empty string, the model reads an end of a sentence, which is
        # not returned.
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
        return [np.asarray(prompt)], lambda ids, _: ids[0]
    return [np.asarray(row) for row in strings], lambda ids, _: ids
