"""Writes and reads of an associative memory.

Weissenborn (2016), Figures 2 and 3.
"""

from typing import NamedTuple

import keras
import numpy as np

from memlm_keras.analysis import output

WRITTEN = ("written", "state")


class Associations(NamedTuple):
    """Two sequences, joined by an associative memory.

    Attributes:
        written: float array `(source time, H)`, what each step of the source
            wrote.
        read: float array `(target time, H)`, what each step of the target read.
        keys: float array `(source time, H)`, the key that each step of the
            source wrote under.
        similarity: float array `(target time, source time)`, cosines between
            the two.
    """

    written: np.ndarray
    read: np.ndarray
    keys: np.ndarray
    similarity: np.ndarray


def associations(model, source, target, written="written"):
    """Follows a pair of sequences through an associative memory.

    A step of the target reads `phi_t` of the source's memory where there is
    one, and else of the memory that it goes on from.

    Args:
        model: `memlm_keras.EntailmentClassifier` or
            `memlm_keras.SequenceAutoencoder` whose readers are cells of
            `memlm_keras.cells` with an associative memory.
        source: 1-D integer array, the premise or what is encoded.
        target: 1-D integer array, the hypothesis or what the decoder reads.
        written: `"written"`, what a step adds to the memory, `s_t - s_{t-1}`,
            or `"state"`, all that it then remembers, `s_t`.

    Returns:
        `Associations`.

    Raises:
        ValueError: if the model has no associative memory, for another
            `written`, an empty sequence, or ids outside the vocabulary.

    Example:

    >>> model = memlm_keras.EntailmentClassifier(
    ...     9, 4, memlm_keras.cells.DualAssociativeGRUCell(4),
    ...     conditioning="source",
    ... )
    >>> memlm_keras.analysis.associations(model, [5, 7, 2], [7, 2]).similarity.shape
    (2, 3)
    """  # noqa: E501
    if written not in WRITTEN:
        raise ValueError(
            f"`written` must be one of {WRITTEN}. Received: written={written!r}"
        )
    readers = getattr(model, "readers", ())
    cells = [getattr(reader, "cell", None) for reader in readers]
    if not cells or not all(hasattr(cell, "trace") for cell in cells):
        raise ValueError(
            "`model` must read both sequences with an associative memory, such "
            "as `memlm_keras.cells.DualAssociativeGRUCell`. Received: "
            f"{type(model).__name__} with cells {cells}"
        )
    sequences = {"source": np.asarray(source), "target": np.asarray(target)}
    for name, sequence in sequences.items():
        whole = np.issubdtype(sequence.dtype, np.integer)
        if sequence.ndim != 1 or not len(sequence) or not whole:
            raise ValueError(
                f"`{name}` must be a 1-D array of at least one token id. "
                f"Received: shape {sequence.shape}, dtype {sequence.dtype}"
            )
        if sequence.min() < 0 or sequence.max() >= model.vocabulary_size:
            raise ValueError(
                f"`{name}` must hold token ids below vocabulary_size="
                f"{model.vocabulary_size}. Received: {sequence.tolist()}"
            )
    first, second = readers
    states, wrote = _traced(
        model, first, sequences["source"], first.get_initial_state(1)
    )
    start = model.states_for_target(states)
    _, found = _traced(model, second, sequences["target"], start)
    keys, wrote = wrote["key"], wrote[written]
    found = found["source" if model.conditioning == "source" else "read"]
    return Associations(wrote, found, keys, _cosines(found, wrote))


def plot_associations(similarity, source, target, path, title=None):
    """Draws which steps of a target read what which of a source wrote, as PNG.

    Weissenborn (2016), Figures 2 and 3: the source from left to right, the
    target from top to bottom.

    Args:
        similarity: float array `(target time, source time)` in -1 .. 1.
        source, target: lists of strings.
        path: path of the PNG file.
        title: optional string.

    Raises:
        ValueError: if there is not one word for each row and column.

    Example:

    >>> similarity = np.array([[0.9, 0.1], [-0.2, 0.7]])
    >>> memlm_keras.analysis.plot_associations(
    ...     similarity, ["a", "man"], ["he", "sat"], "associations.png"
    ... )
    """
    similarity = _of_words(similarity, source, target)
    figure, axes = output.subplots(
        2.5 + 0.34 * len(source), 1.6 + 0.34 * len(target)
    )
    image = axes.imshow(similarity, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
    axes.set_xticks(
        range(len(source)),
        map(output.literal, source),
        rotation=90,
        fontsize=8,
    )
    axes.set_yticks(range(len(target)), map(output.literal, target), fontsize=8)
    axes.set(xlabel="written at", ylabel="read at")
    output.save(figure, path, axes, title, image, "cosine similarity")


def write_associations(similarity, source, target, path):
    """Writes what `plot_associations` draws as CSV, a row for each target word.

    Args:
        similarity, source, target: as for `plot_associations`.
        path: path of the CSV file.

    Raises:
        ValueError: if there is not one word for each row and column.

    Example:

    >>> similarity = np.array([[0.9, 0.1], [-0.2, 0.7]])
    >>> memlm_keras.analysis.write_associations(
    ...     similarity, ["a", "man"], ["he", "sat"], "associations.csv"
    ... )
    """
    similarity = _of_words(similarity, source, target)
    output.write_rows(
        path,
        ["read at", *source],
        (
            [word, *(f"{value:.6f}" for value in row)]
            for word, row in zip(target, similarity)
        ),
    )


def _of_words(similarity, source, target):
    similarity = np.asarray(similarity)
    if similarity.shape != (len(target), len(source)):
        raise ValueError(
            "`similarity` must have a row for each word of `target` and a "
            f"column for each of `source`, {(len(target), len(source))}. "
            f"Received: shape {similarity.shape}"
        )
    return similarity


def _traced(model, reader, token_ids, states):
    """Final states, and arrays `(time, H)` by name of what each step did."""
    projected = reader.cell.project_inputs(model.vectors(token_ids[None]))
    steps = []
    for step in range(len(token_ids)):
        _, states, trace = reader.cell.trace(projected[:, step], states)
        steps.append(trace)
    return states, {
        name: np.concatenate(
            [keras.ops.convert_to_numpy(trace[name]) for trace in steps]
        )
        for name in steps[0]
    }


def _cosines(rows, columns):
    def normalized(vectors):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-12)

    return normalized(rows) @ normalized(columns).T
