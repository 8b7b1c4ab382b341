"""Checks of what a language model is given."""

import keras
import numpy as np

from memlm_keras.arguments import require_streaming
from memlm_keras.cells.projected_rnn import ProjectedRNN
from memlm_keras.cells.projected_rnn import projects_inputs
from memlm_keras.memory.base import Memory
from memlm_keras.mixtures.base import Mixture
from memlm_keras.smoothing import VariationalSmoothing


def recurrent_layers(name, layers, at_least=1):
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
    return [_recurrent_layer(name, layer) for layer in layers]


def _recurrent_layer(name, layer):
    if not isinstance(layer, keras.layers.RNN):
        if not (hasattr(layer, "state_size") and callable(layer)):
            raise ValueError(
                f"`{name}` must hold Keras recurrent layers (LSTM, GRU, "
                "SimpleRNN, RNN) or cells with a `state_size`, and none that "
                f"reads ahead. Received: {layer!r}"
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


def carried_inputs(inputs):
    """Raises `ValueError` unless `inputs` has ids and resets."""
    if not {"token_ids", "reset"} <= set(inputs):
        raise ValueError(
            "`inputs` must be token ids `(batch, time)`, or a dict with "
            '"token_ids" `(batch, time)` and "reset" `(batch,)`. Received a '
            f"dict with keys: {sorted(inputs)}"
        )


def carried_batch_size(batches):
    """Batch size of a dataset whose state is carried, else `None`."""
    if isinstance(batches, keras.utils.PyDataset):
        return getattr(batches, "batch_size", None)
    return None


def memory_of_words(memory, vocabulary_size):
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


def mixture(layer):
    """Raises `ValueError` unless a layer mixes words in, or is `None`."""
    if layer is not None and not isinstance(layer, Mixture):
        raise ValueError(
            "`mixture` must be a `memlm_keras.mixtures.Mixture`, such as "
            f"`NeuralCache(size=500)`, or None. Received: mixture={layer!r}"
        )


def smoothing_of_words(smoothing, vocabulary_size):
    """Makes a smoothing fit the vocabulary.

    Raises:
        ValueError: if `smoothing` is neither that nor `None`, or is for a
            vocabulary of another size.
    """
    if smoothing is None:
        return
    if not isinstance(smoothing, VariationalSmoothing):
        raise ValueError(
            "`smoothing` must be a `memlm_keras.smoothing.VariationalSmoothing`"
            f" or None. Received: smoothing={smoothing!r}"
        )
    if smoothing.vocabulary_size not in (None, vocabulary_size):
        raise ValueError(
            "`smoothing` must be for a vocabulary of the model's size "
            f"{vocabulary_size}. Received: one with vocabulary_size="
            f"{smoothing.vocabulary_size}"
        )
    smoothing.vocabulary_size = vocabulary_size
    if not smoothing.built:
        smoothing.build()


def smoothed(model):
    """Raises `ValueError` unless a model has a smoothing."""
    if model.smoothing is None:
        raise ValueError(
            "Samples are drawn of the smoothed matrices of one "
            "`memlm_keras.LanguageModel`: make it with "
            "`smoothing=memlm_keras.smoothing.VariationalSmoothing(...)`. "
            f"Received: a {type(model).__name__} without"
        )


def adapted(smoothing):
    """Raises `ValueError` for a smoothing without statistics."""
    if smoothing is not None and not smoothing.adapted:
        raise ValueError(
            "A smoothed model needs the statistics of its training text: call "
            "`model.smoothing.adapt(statistics)` before `fit`, with "
            "`memlm_keras.smoothing.StreamStatistics.count(tokens, "
            "vocabulary_size)`. Received: a model without"
        )


def members(models, kind):
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


def nothing_carries_what_was_read_ahead(memory, **layers):
    """Raises `ValueError` for layers with a state behind one that reads ahead.

    Args:
        memory: a memory, or `None`.
        **layers: by the name of the argument, what reads the memory's outputs.
    """
    if memory is None or memory.causal:
        return
    for name, layer in layers.items():
        if layer:
            raise ValueError(
                f"`{name}` cannot follow a memory that reads ahead: it would "
                "carry a word, read ahead, to the step that predicts it. "
                f"Received: memory={memory} and {name}={layer}"
            )


def whole_sentences(batches, memory):
    """Raises `ValueError` unless a memory that reads ahead can read batches.

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
            f"A {name} reads ahead, so the batches must hold whole sentences, "
            "one a row, as `memlm_keras.data.SentenceBatches` and "
            "`corpus.sentence_batches(split)` do. Received: "
            f"{type(batches).__name__}, which may cut them"
        )
    end = getattr(memory, "end_of_sentence_id", batches.end_of_sentence_id)
    if end != batches.end_of_sentence_id:
        raise ValueError(
            "The batches must end sentences with the id that ends them for "
            f"the {name}, end_of_sentence_id={end}. Received: batches with "
            f"end_of_sentence_id={batches.end_of_sentence_id}"
        )


def one_sentence_a_row(name, ids, memory):
    """Raises `ValueError` if a memory that reads ahead would read too far.

    Args:
        name: string, name of the argument.
        ids: integer array `(batch, time)`.
        memory: a memory that reads ahead.
    """
    ended = ids[:, 1:] == getattr(memory, "end_of_sentence_id", None)
    rows = np.flatnonzero((ended[:, :-1] & ~ended[:, 1:]).any(axis=1))
    if len(rows):
        raise ValueError(
            f"`{name}` must hold one sentence a row, with nothing but padding "
            f"behind its end, as a {type(memory).__name__} reads ahead. "
            f"Received: words behind the end of a sentence in row {rows[0]}"
        )


def data_fits_vocabulary(data, vocabulary_size):
    """Raises `ValueError` if data holds ids outside the vocabulary.

    Args:
        data: `Batches`, arrays or a tuple of arrays; anything else passes.
        vocabulary_size: integer.
    """
    if isinstance(data, (np.ndarray, dict)):
        concrete_token_ids(data, vocabulary_size)
        return
    if isinstance(data, tuple):
        for part in data[:2]:
            data_fits_vocabulary(part, vocabulary_size)
        return
    largest_id = getattr(data, "largest_id", None)
    if largest_id is not None and largest_id >= vocabulary_size:
        raise ValueError(
            "The batches must hold token ids below vocabulary_size="
            f"{vocabulary_size}. Received batches with the token id "
            f"{largest_id}. Encode the text with the model's own vocabulary, "
            "or make a model of the vocabulary's size."
        )


def concrete_token_ids(inputs, vocabulary_size):
    """Checks ids that are at hand; tensors on a device are not waited for."""
    if isinstance(inputs, dict):
        inputs = inputs.get("token_ids")
    if isinstance(inputs, (np.ndarray, list)):
        ids = np.asarray(inputs)
        if not np.issubdtype(ids.dtype, np.integer) or not ids.size:
            raise ValueError(
                "Token ids must be integers, at least one. Received: shape "
                f"{ids.shape} and dtype {ids.dtype}"
            )
        _ids_in_range("token ids", ids, vocabulary_size)


def token_id_array(name, ids, vocabulary_size, minimum_time=1):
    """Returns `ids` as an int32 array `(batch, time)`, checked.

    Raises:
        ValueError: for another rank, too few steps, ids that are no integers
            or outside the vocabulary.
    """
    ids = keras.ops.convert_to_numpy(ids)
    if ids.ndim != 2 or ids.shape[1] < minimum_time or not len(ids):
        raise ValueError(
            f"`{name}` must be of shape (batch, time) with time of at least "
            f"{minimum_time}. Received: shape {ids.shape}"
        )
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"`{name}` must be integers. Received: dtype {ids.dtype}"
        )
    _ids_in_range(name, ids, vocabulary_size)
    return ids.astype("int32")


def _ids_in_range(name, ids, vocabulary_size):
    smallest, largest = int(ids.min()), int(ids.max())
    if smallest < 0 or largest >= vocabulary_size:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(
            f"`{name}` must be at least 0 and below the vocabulary size "
            f"{vocabulary_size}. Received: {wrong}"
        )


def rank_two(name, tensor):
    """Raises `ValueError` unless `tensor` is `(batch, time)`."""
    if len(tensor.shape) != 2:
        raise ValueError(
            f"`{name}` must be of shape (batch, time); for one token a row, "
            f"(batch, 1). Received: shape {tuple(tensor.shape)}"
        )


def state(received, expected, batch_size):
    """Raises `ValueError` unless a state has the right names and rows.

    Args:
        received: what was given as a state.
        expected: dict of tensors of one row.
        batch_size: integer or `None`, rows that the state must have.
    """
    if not isinstance(received, dict) or set(received) != set(expected):
        names = sorted(received) if isinstance(received, dict) else received
        raise ValueError(
            "`state` must be a dict as returned by `initial_state` or `step`, "
            f"with the names {sorted(expected)}. Received: {names!r}"
        )
    for name, value in received.items():
        sizes = (batch_size, *expected[name].shape[1:])
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
