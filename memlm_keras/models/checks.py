"""Checks of what a language model is made of and given to read."""

import keras
import numpy as np

from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_token_ids
from memlm_keras.cells.projected_rnn import ProjectedRNN
from memlm_keras.cells.projected_rnn import projects_inputs
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.memory.base import Memory
from memlm_keras.mixtures.base import Mixture

# === What it is made of ===


def size_of(vocabulary_size, vocabulary):
    """The size of a vocabulary where none is given.

    Raises:
        ValueError: if `vocabulary` is no `Vocabulary`, nor `None`.
    """
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        raise ValueError(
            "`vocabulary` must be a `memlm_keras.data.Vocabulary`, or None. "
            f"Received: vocabulary={vocabulary!r}"
        )
    if vocabulary is None or vocabulary_size is not None:
        return vocabulary_size
    return len(vocabulary)


def as_recurrent_layers(name, layers, at_least=1):
    """Returns recurrent layers that give sequences and states.

    Args:
        name: string, name of the argument.
        layers: list of Keras recurrent layers and cells.
        at_least: 0 or 1, how many there must be.

    Raises:
        ValueError: if the list is too short or holds something else.
    """
    if not isinstance(layers, (list, tuple)) or len(layers) < at_least:
        some = (
            "at least one recurrent layer" if at_least else "recurrent layers"
        )
        raise ValueError(
            f"`{name}` must be a list of {some}, such as "
            f"`[keras.layers.LSTM(300)]`. Received: {name}={layers!r}"
        )
    return [_as_recurrent_layer(name, layer) for layer in layers]


def _as_recurrent_layer(name, layer):
    if isinstance(layer, keras.layers.Bidirectional):
        raise ValueError(
            f"`{name}` must not hold a `Bidirectional` layer: it would read "
            "the very words that are to be predicted. Received: "
            f"{layer!r}. Give the layer that it wraps"
        )
    if not isinstance(layer, keras.layers.RNN):
        if not (hasattr(layer, "state_size") and callable(layer)):
            raise ValueError(
                f"`{name}` must hold Keras recurrent layers (LSTM, GRU, "
                "SimpleRNN, RNN) or cells with a `state_size`, and causal "
                f"ones. Received: {layer!r}"
            )
        projected = projects_inputs(layer)
        layer = (ProjectedRNN if projected else keras.layers.RNN)(layer)
    for flag in ("stateful", "go_backwards", "time_major"):
        if getattr(layer, flag, False):
            raise ValueError(
                f"`{name}` must not hold a layer with {flag}=True: the "
                "model carries its state itself, forward in time. Received: "
                f"{layer!r}"
            )
    layer.return_sequences = True
    layer.return_state = True
    return layer


def require_memory(memory, vocabulary_size):
    """Makes a memory that looks words up fit the vocabulary.

    Raises:
        ValueError: if `memory` is neither a memory nor `None`, or is for a
            vocabulary of another size.
    """
    if memory is not None and not isinstance(memory, Memory):
        raise ValueError(
            "`memory` must be a layer of `memlm_keras.memory`, such as "
            f"`KeyValuePredict(window=5)`, or None. Received: memory={memory!r}"
        )
    if not hasattr(memory, "vocabulary_size"):
        return
    if memory.vocabulary_size is None:
        memory.vocabulary_size = vocabulary_size
    if memory.vocabulary_size != vocabulary_size:
        raise ValueError(
            "`memory` must be for a vocabulary of the model's size "
            f"{vocabulary_size}. Received: a memory with vocabulary_size="
            f"{memory.vocabulary_size}"
        )


def require_mixture(mixture):
    """Raises `ValueError` unless a layer mixes words in, or is `None`."""
    if mixture is not None and not isinstance(mixture, Mixture):
        raise ValueError(
            "`mixture` must be a `memlm_keras.mixtures.Mixture`, such as "
            f"`NeuralCache(size=500)`, or None. Received: mixture={mixture!r}"
        )


def require_causal_end(memory, **layers):
    """Raises `ValueError` for layers with a state behind what is not causal.

    Args:
        memory: a memory, or `None`.
        **layers: by the name of the argument, what reads the memory's outputs.
    """
    if memory is None or memory.causal:
        return
    for name, layer in layers.items():
        if layer:
            raise ValueError(
                f"`{name}` cannot follow a memory that is not causal: it would "
                "carry a word, read too early, to the step that predicts it. "
                f"Received: memory={memory} and {name}={layer}"
            )


def require_members(models, kind):
    """Raises `ValueError` unless models can predict together.

    Args:
        models: list of models.
        kind: class that they must be of.
    """
    if not isinstance(models, (list, tuple)) or not models:
        raise ValueError(
            "`models` must be a list of at least one language model. Received: "
            f"models={models!r}"
        )
    wrong = [model for model in models if not isinstance(model, kind)]
    if wrong:
        raise ValueError(
            f"`models` must hold instances of `memlm_keras.{kind.__name__}`. "
            f"Received: {wrong[0]!r}"
        )
    for model in models:
        require_streaming("`Ensemble`", model)
    if len({id(model) for model in models}) < len(models):
        raise ValueError(
            "`models` must hold different models. Received: one of them twice"
        )
    sizes = [model.vocabulary_size for model in models]
    if len(set(sizes)) > 1:
        raise ValueError(
            "`models` must be of one vocabulary. Received: models with "
            f"vocabulary_size of {sizes}"
        )
    known = [model.vocabulary for model in models if model.vocabulary]
    if any(vocabulary != known[0] for vocabulary in known):
        raise ValueError(
            "`models` must be of one vocabulary. Received: models of "
            + " and ".join(map(_named, known))
        )


def require_smoothing(model):
    """Raises `ValueError` unless a model has a smoothing."""
    if model.smoothing is None:
        raise ValueError(
            "Samples are drawn of the smoothed matrices of one "
            "`memlm_keras.LanguageModel`: make it with `embedding="
            "memlm_keras.smoothing.SmoothedEmbedding(smoothing=...)`. "
            f"Received: a {type(model).__name__} without"
        )


def require_statistics(smoothing):
    """Raises `ValueError` for a smoothing without statistics."""
    if smoothing is not None and not smoothing.adapted:
        raise ValueError(
            "A smoothed model needs the statistics of its training text: call "
            "`model.smoothing.adapt(statistics)` before `fit`, with "
            "`memlm_keras.smoothing.StreamStatistics.count(tokens, "
            "vocabulary_size)`. Received: a model without"
        )


# === What it is given to read ===


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
            f"other tokens. Received: batches of {_named(found)} for a model "
            f"with {_named(own)}. Load the corpus with "
            "`vocabulary=model.vocabulary`."
        )


def _named(vocabulary):
    return f"{vocabulary!r} of the fingerprint {vocabulary.fingerprint}"


def require_whole_sentences(batches, memory):
    """Raises `ValueError` unless a memory that is not causal can read batches.

    Args:
        batches: data of `fit`, of which only datasets are looked at.
        memory: a memory, or `None`.
    """
    if memory is None or memory.causal:
        return
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


def require_inputs(inputs):
    """Raises `ValueError` unless a dict has token ids, and what may be."""
    optional = {"reset", "targets"}
    if "token_ids" not in inputs or set(inputs) - optional - {"token_ids"}:
        raise ValueError(
            "`inputs` must be token ids `(batch, time)`, or a dict with "
            '"token_ids" `(batch, time)` and, if wanted, "reset" `(batch,)` '
            'and "targets" `(batch, time)`. Received a dict with keys: '
            f"{sorted(inputs)}"
        )


def require_state(received, expected, batch_size):
    """Raises `ValueError` unless a state has the right names and rows.

    Args:
        received: what was given as a state.
        expected: dict of the shapes of one row.
        batch_size: integer or `None`, rows that the state must have.
    """
    if not isinstance(received, dict) or set(received) != set(expected):
        names = sorted(received) if isinstance(received, dict) else received
        raise ValueError(
            "`state` must be a dict as returned by `initial_state` or `step`, "
            f"with the names {sorted(expected)}. Received: {names!r}"
        )
    for name, value in received.items():
        sizes = (batch_size, *expected[name])
        shape = tuple(value.shape)
        if len(shape) != len(sizes) or any(
            None not in pair and pair[0] != pair[1]
            for pair in zip(shape, sizes)
        ):
            raise ValueError(
                f"`state` must have one row for each of the {batch_size} rows "
                f"of tokens, and {name!r} the shape {sizes}. Received: "
                f"{name!r} of shape {shape} with {shape[0] if shape else 0} "
                "rows"
            )
