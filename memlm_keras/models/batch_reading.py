"""Reading batches of a text: what they must hold, and what is found there."""

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras.arguments import require_token_ids
from memlm_keras.models.carried_state import reset_rows
from memlm_keras.models.inference import compile_inference
from memlm_keras.training import distribution


def read(model, function, batches):
    """Yields what a function finds in batches.

    Args:
        model: a `StreamingModel`.
        function: callable of token ids, targets and a state that returns what
            it finds and the new state.
        batches: `memlm_keras.data.Batches`, or a dataset of their form.

    Yields:
        Pairs of what the function found and the batch's sample weight.
    """
    require_readable(model, batches)
    start = model.initial_state(batches.batch_size)
    start = state = tree.map_structure(distribution.deal, start)
    for inputs, targets, sample_weight in batches:
        require_all_steps(inputs)
        state = reset_rows(state, start, ops.convert_to_tensor(inputs["reset"]))
        found, state = function(
            distribution.deal(ops.convert_to_tensor(inputs["token_ids"])),
            distribution.deal(ops.convert_to_tensor(targets)),
            state,
        )
        yield found, sample_weight


def score(model, function, batches, verbose=0):
    """See `StreamingModel.score_batches`; the function is its `_score`."""
    scores, weights = [], []
    progress = keras.utils.Progbar(len(batches), verbose=verbose)
    for found, sample_weight in read(model, function, batches):
        scores.append(ops.convert_to_numpy(found))
        weights.append(sample_weight)
        progress.add(1)
    return _of_one_time(scores), _of_one_time(weights)


def sampled_scores(model, batches, samples, seed):
    """See `LanguageModel.sampled_score_batches`."""
    if model.smoothing is None:
        raise ValueError(
            "Samples are drawn of the smoothed matrices of one "
            "`memlm_keras.LanguageModel`: make it with `embedding="
            "memlm_keras.smoothing.SmoothedEmbedding(smoothing=...)`. "
            f"Received: a {type(model).__name__} without"
        )
    seed_state = model.smoothing.seed_generator.state
    kept = ops.convert_to_numpy(seed_state).copy()

    def score_sampled(token_ids, targets, state):
        return model.backbone.score(token_ids, targets, state, sampled=True)

    function = compile_inference(model, score_sampled)
    for sample in range(samples):
        place = iter(range(len(batches)))

        def seeded(*arguments, sample=sample, place=place):
            # What is drawn in compiled inference moves no seed on JAX.
            entropy = np.random.SeedSequence((seed, sample, next(place)))
            number = entropy.generate_state(2) >> 1
            seed_state.assign(number.astype(kept.dtype))
            return function(*arguments)

        try:
            found = score(model, seeded, batches)
        finally:
            seed_state.assign(kept)
        yield found


def _of_one_time(arrays):
    """Puts arrays `(batch, time)` together, zeros behind the shorter ones."""
    longest = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [
            np.pad(array, [(0, 0), (0, longest - array.shape[1])])
            for array in arrays
        ]
    )


# === What they must hold ===


def require_readable(model, *data):
    """Raises `ValueError` for data that a model cannot read.

    Args:
        model: a `SequenceModel` or a `StreamingModel`.
        *data: batches, arrays or tuples of arrays; anything else passes.
    """
    causal = getattr(model, "causal", True)
    for part in data:
        require_data(part, model.vocabulary_size)
        require_same_vocabulary(model, part)
        if not causal:
            require_whole_sentences(part, model.memory)


def require_data(data, vocabulary_size):
    """Raises `ValueError` if data holds ids outside the vocabulary.

    Args:
        data: batches, arrays or a tuple of arrays; anything else passes.
        vocabulary_size: integer.
    """
    if isinstance(data, dict):
        data = data.get("token_ids")
    if isinstance(data, (np.ndarray, list)):
        require_token_ids("token_ids", data, vocabulary_size, ndim=None)
    elif isinstance(data, tuple):
        for part in data[:2]:
            require_data(part, vocabulary_size)
    largest_id = getattr(data, "largest_id", None)
    if largest_id is not None and largest_id >= vocabulary_size:
        raise ValueError(
            "The batches must hold token ids below vocabulary_size="
            f"{vocabulary_size}. Received batches with the token id "
            f"{largest_id}. Encode the text with the model's own vocabulary, "
            "or make a model of the vocabulary's size."
        )


def require_same_vocabulary(model, batches):
    """Raises `ValueError` for batches of another vocabulary than the model's.

    Whatever does not say its vocabulary passes.
    """
    found, own = getattr(batches, "vocabulary", None), model.vocabulary
    if found is not None and own is not None and found != own:
        raise ValueError(
            "The batches must be of the model's own vocabulary: their ids mean "
            f"other tokens. Received: batches of {named(found)} for a model "
            f"with {named(own)}. Load the corpus with "
            "`vocabulary=model.vocabulary`."
        )


def require_all_steps(inputs):
    """Raises `ValueError` for inputs that ask at some positions only."""
    if "positions" in inputs:
        raise ValueError(
            "The batches must have a target at each step here. Received: "
            'batches with "positions", which `evaluate` and `predict` read'
        )


def named(vocabulary):
    """A vocabulary in the words of an error."""
    return f"{vocabulary!r} of the fingerprint {vocabulary.fingerprint}"


def require_whole_sentences(batches, memory):
    """Raises `ValueError` unless a memory that is not causal can read batches.

    Args:
        batches: data of `fit`, of which only datasets are looked at.
        memory: a memory that is not causal.
    """
    if not isinstance(batches, keras.utils.PyDataset):
        return
    name = type(memory).__name__
    if not getattr(batches, "whole_sentences", False):
        raise ValueError(
            f"A {name} is not causal, so the batches must hold whole "
            "sentences, one a row, as `memlm_keras.data.SentenceBatches` and "
            "`corpus.batches(split, sentences=True)` do. Received: "
            f"{type(batches).__name__}, which may cut them"
        )
    end = getattr(memory, "end_of_sentence_id", batches.end_of_sentence_id)
    if end != batches.end_of_sentence_id:
        raise ValueError(
            "The batches must end sentences with the id that ends them for "
            f"the {name}, end_of_sentence_id={end}. Received: batches with "
            f"end_of_sentence_id={batches.end_of_sentence_id}"
        )


def require_one_sentence(name, ids, memory):
    """Raises `ValueError` if a memory that is not causal would read too far.

    Args:
        name: string, name of the argument.
        ids: integer array `(batch, time)`.
        memory: a memory that is not causal.
    """
    ended = ids[:, 1:] == getattr(memory, "end_of_sentence_id", None)
    rows = np.flatnonzero((ended[:, :-1] & ~ended[:, 1:]).any(axis=1))
    if len(rows):
        raise ValueError(
            f"`{name}` must hold one sentence a row, with nothing but padding "
            f"behind its end, as a {type(memory).__name__} is not causal. "
            f"Received: words behind the end of a sentence in row {rows[0]}"
        )
