"""Loads LSTM language models with the weight names of PyTorch's word-level
language modeling example, as in neural-complexity and colorlessgreenRNNs."""

import pickle
import types
import warnings

import keras
import numpy as np

from memlm_keras.data import Vocabulary
from memlm_keras.data.text_store import read_text
from memlm_keras.files import import_package
from memlm_keras.files import reading

_ENDS = {"encoder.weight", "decoder.weight", "decoder.bias"}
_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_SPECIALS = ("<eos>", "<unk>")


def load(cls, path, vocabulary, tokenizer=None):
    """Implements `LanguageModel.from_torch`; `cls` is `LanguageModel`."""
    weights = _read_weights(path)
    vocabulary, places = _read_vocabulary(vocabulary, tokenizer)
    cells = _cells(path, weights)
    embeddings, decoder = weights["encoder.weight"], weights["decoder.weight"]
    units = cells[-1][1].shape[0]
    shapes = {
        "encoder.weight": (len(places), cells[0][0].shape[0]),
        "decoder.weight": (len(places), units),
        "decoder.bias": (len(places),),
    }
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise ValueError(
                f"{path} must have {name} of the shape {shape}, for "
                f"{len(places)} words in the vocabulary and {units} units. "
                f"Received: the shape {weights[name].shape}"
            )
    tied = np.array_equal(embeddings, decoder)
    lm = cls(
        vocabulary=vocabulary,
        embedding_dim=embeddings.shape[1],
        recurrent=[keras.layers.LSTM(cell[1].shape[0]) for cell in cells],
        tie_embeddings=tied,
    )
    lm.embedding.embeddings.assign(embeddings[places])
    for layer, cell in zip(lm.recurrent, cells, strict=True):
        layer.set_weights(cell)
    if not tied:
        lm.head.kernel.assign(decoder[places].T)
    lm.head.bias.assign(weights["decoder.bias"][places])
    return lm


def _read_vocabulary(path, tokenizer):
    """Reads a `Vocabulary`; also returns each token's line in the file."""
    words = read_text(path).split()
    if missing := [word for word in _SPECIALS if word not in words]:
        raise ValueError(
            f"The vocabulary {path} must have {' and '.join(_SPECIALS)}, one "
            f"word per line. Received: {len(words)} words, without {missing[0]}"
        )
    vocabulary = Vocabulary(words, tokenizer=tokenizer)
    places = {word: place for place, word in enumerate(words)}
    return vocabulary, [places[token] for token in vocabulary.tokens]


def _cells(path, weights):
    """Returns Keras' kernel, recurrent kernel and bias of each LSTM."""
    count = sum(name.startswith("rnn.weight_ih_l") for name in weights)
    names = [[f"rnn.{part}_l{i}" for part in _PARTS] for i in range(count)]
    expected = _ENDS.union(*names)
    differing = sorted(expected.symmetric_difference(weights))
    if differing or not count:
        raise ValueError(
            f"{path} must hold the weights {', '.join(sorted(_ENDS))} and "
            "those of a unidirectional LSTM, such as rnn.weight_ih_l0. "
            f"Received: missing or unknown weights {differing[:4]}"
        )
    cells = []
    for layer in names:
        kernel, recurrent, *biases = (weights[name] for name in layer)
        if len(recurrent) != 4 * recurrent.shape[1]:
            raise ValueError(
                f"{path} must hold an LSTM, whose {layer[1]} has four rows per "
                f"unit. Received: the shape {recurrent.shape}, as in a GRU"
            )
        # Keras orders gates as PyTorch does, but has one bias instead of two.
        cells.append([kernel.T, recurrent.T, sum(biases)])
    return cells


# === Files ===


class _Plain:
    """Replaces an object whose class is not loaded; keeps its attributes."""

    # PyTorch reads this attribute when it loads old files.
    dump_patches = False

    def __init__(self, *arguments, **keywords):
        pass

    def __setstate__(self, state):
        if isinstance(state, dict):
            vars(self).update(state)


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that builds only tensors, and a `_Plain` in place of every
    other object, so that no code from the file runs."""

    _MADE = {
        ("collections", "OrderedDict"),
        ("torch", "Size"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch.nn.parameter", "Parameter"),
    }

    def find_class(self, module, name):
        """Returns the named class if it is allowed, otherwise `_Plain`."""
        if (module, name) in self._MADE:
            return super().find_class(module, name)
        return _Plain


_PLAIN_PICKLE = types.SimpleNamespace(
    __name__="plain_pickle",
    Unpickler=_PlainUnpickler,
    load=lambda file, **options: _PlainUnpickler(file, **options).load(),
)


def _read_weights(path):
    """Returns a dict from PyTorch's weight names to float32 arrays."""
    remedy = "Download it again, or save `model.state_dict()`."
    with reading(path, "PyTorch checkpoint", remedy):
        loaded = _load(path)
        if isinstance(loaded, _Plain):
            loaded = dict(_parameters(loaded))
        if not isinstance(loaded, dict):
            raise ValueError(f"it holds a {type(loaded).__name__}")
        # PyTorch's `DataParallel` adds the prefix "module.".
        return {
            str(name).removeprefix("module."): value.detach().float().numpy()
            for name, value in loaded.items()
            if hasattr(value, "detach")
        }


def _load(path):
    torch = import_package("torch", f"The PyTorch checkpoint {path}")
    try:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            # The file contains a pickled model. PyTorch may warn that the code
            # of the model has changed, but only the weights are read.
            with warnings.catch_warnings(action="ignore"):
                return torch.load(
                    path,
                    map_location="cpu",
                    weights_only=False,
                    pickle_module=_PLAIN_PICKLE,
                )
    except pickle.UnpicklingError as error:
        raise ValueError(str(error)) from error


def _parameters(module, prefix=""):
    """Yields the names and values of a module's parameters."""
    state = vars(module)
    for name, value in state.get("_parameters", {}).items():
        yield prefix + name, value
    for name, child in state.get("_modules", {}).items():
        if isinstance(child, _Plain):
            yield from _parameters(child, f"{prefix}{name}.")
