"""Shows what an associative memory writes and reads (Weissenborn, 2016)."""

from typing import NamedTuple

import keras
import numpy as np

from memlm_keras import files
from memlm_keras.analysis import pictures
from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_token_ids

WRITTEN = ("written", "state")


class Associations(NamedTuple):
    """Vectors that an associative memory writes and reads.

    Attributes:
        written: Float array `(source time, H)`, written at each source step.
        read: Float array `(target time, H)`, read at each target step.
        keys: Float array `(source time, H)`, keys of the writes.
        similarity: Float array `(target time, source time)`, cosine similarity
            of reads and writes.
    """

    written: np.ndarray
    read: np.ndarray
    keys: np.ndarray
    similarity: np.ndarray


def associations(model, source, target, written="written"):
    """Computes what a memory writes and reads in a pair of sequences.

    If `model.conditioning` is `"source"`, the target reads from the source's
    final memory, and does not change this memory. With
    `conditioning="memory"`, the target reads and writes a memory that starts as
    the source's final memory; with `conditioning=None`, one that starts empty.

    Args:
        model: `memlm_keras.EntailmentClassifier` or
            `memlm_keras.SequenceAutoencoder` with cells from
            `memlm_keras.cells` that have an associative memory.
        source: 1-D integer array, the premise or the encoder's input.
        target: 1-D integer array, the hypothesis or the decoder's input.
        written: `"written"` for the change of the memory at a step,
            `s_t - s_{t-1}`, or `"state"` for the state after the step, `s_t`.

    Raises:
        ValueError: The model has no associative memory, `written` is unknown, a
            sequence is empty, or ids are outside the vocabulary.

    Example:

    >>> model = memlm_keras.EntailmentClassifier(
    ...     9, 4, memlm_keras.cells.DualAssociativeGRUCell(4),
    ...     conditioning="source",
    ... )
    >>> memlm_keras.analysis.associations(model, [5, 7, 2], [7, 2]).similarity.shape
    (2, 3)
    """  # noqa: E501
    require_one_of("written", written, WRITTEN)
    readers = getattr(model, "readers", ())
    cells = [getattr(reader, "cell", None) for reader in readers]
    if not cells or not all(hasattr(cell, "trace") for cell in cells):
        raise ValueError(
            "`model` must read both sequences with an associative memory, such "
            "as `memlm_keras.cells.DualAssociativeGRUCell`. Received: "
            f"{type(model).__name__} with cells {cells}"
        )
    source, target = (
        require_token_ids(name, sequence, model.vocabulary_size, ndim=1)
        for name, sequence in (("source", source), ("target", target))
    )
    first, second = readers
    states, writes = _traced(model, first, source, first.get_initial_state(1))
    start = model.states_for_target(states)
    _, reads = _traced(model, second, target, start)
    wrote = writes[written]
    read = reads["source" if model.conditioning == "source" else "read"]
    rows, columns = (
        vectors
        / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        for vectors in (read, wrote)
    )
    return Associations(wrote, read, writes["key"], rows @ columns.T)


def plot_associations(similarity, source, target, path, title=None):
    """Draws similarities of target reads and source writes as a PNG file.

    As in Weissenborn (2016), Figures 2 and 3, the source runs from left to
    right, and the target from top to bottom.

    Args:
        similarity: Float array `(target time, source time)` in [-1, 1].
        source, target: Lists of strings.

    Raises:
        ValueError: The words do not match the shape of `similarity`.

    Example:

    >>> similarity = np.array([[0.9, 0.1], [-0.2, 0.7]])
    >>> memlm_keras.analysis.plot_associations(
    ...     similarity, ["a", "man"], ["he", "sat"], "associations.png"
    ... )
    """
    similarity = _of_words(similarity, source, target)
    figure, axes = pictures.subplots(
        2.5 + 0.34 * len(source), 1.6 + 0.34 * len(target)
    )
    image = axes.imshow(similarity, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
    pictures.label_words(axes, source, target)
    axes.set(xlabel="written at", ylabel="read at")
    pictures.save(figure, path, axes, title, image, "cosine similarity")


def write_associations(similarity, source, target, path):
    """Writes the similarities as a CSV file with one row per target word; see
    `plot_associations` for the arguments.

    Example:

    >>> similarity = np.array([[0.9, 0.1], [-0.2, 0.7]])
    >>> memlm_keras.analysis.write_associations(
    ...     similarity, ["a", "man"], ["he", "sat"], "associations.csv"
    ... )
    """
    similarity = _of_words(similarity, source, target)
    rows = (
        [word, *(f"{value:.6f}" for value in row)]
        for word, row in zip(target, similarity)
    )
    files.write_csv(path, ["read at", *source], rows)


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
    """Reads tokens; returns the last states, and the vectors of each step."""
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
