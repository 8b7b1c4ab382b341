"""Tests models saved by PyTorch against PyTorch's LSTM, step by step."""

import collections
import sys
import types

import numpy as np
import pytest

from memlm_keras import LanguageModel
from memlm_keras.data import Tokenizer

pytestmark = pytest.mark.backend

torch = pytest.importorskip("torch")

# Special words may be anywhere in the list, as in those programs.
WORDS = ["the", "cat", "<unk>", "saw", "a", "<eos>", "dog", "."]
TEXT = "the cat saw a zebra .\na dog saw the dog ."


class RNNModel(torch.nn.Module):
    """A model with the layers and names of PyTorch's word-level example."""

    def __init__(self, size, units, layers=2, kind=torch.nn.LSTM, tied=False):
        super().__init__()
        self.drop = torch.nn.Dropout(0.2)
        self.encoder = torch.nn.Embedding(len(WORDS), size)
        self.rnn = kind(size, units, layers)
        self.decoder = torch.nn.Linear(units, len(WORDS))
        if tied:
            self.decoder.weight = self.encoder.weight
        self.notes = {"rnn_type": "LSTM", "seen": {1, 2}}


def make(*arguments, **options):
    torch.manual_seed(3)
    return RNNModel(*arguments, **options).eval()


def save_whole(model, path, monkeypatch, **options):
    """Saves a whole model, whose class is in a module that then disappears."""
    module = types.ModuleType("model")
    module.RNNModel = RNNModel
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "model", module)
        patch.setattr(RNNModel, "__module__", "model")
        torch.save(model, path, **options)


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return path


def surprisals(model):
    """Computes each word's surprisal and entropy in nats, word by word."""
    known = {word: place for place, word in enumerate(WORDS)}
    before, hidden, found = known["<eos>"], None, []
    lines = [f"{line} <eos>".split() for line in TEXT.split("\n")]
    with torch.no_grad():
        for word in (word for line in lines for word in line):
            vector = model.encoder(torch.tensor([[before]]))
            output, hidden = model.rnn(vector, hidden)
            logs = model.decoder(output[0, 0]).double().log_softmax(-1)
            before = known.get(word, known["<unk>"])
            found.append((-logs[before], -(logs.exp() * logs).sum()))
    return np.array(found).T


def require_equal(lm, model):
    found = lm.surprisal(TEXT, unit="nats")
    expected = surprisals(model)
    np.testing.assert_allclose(found.surprisal, expected[0], rtol=1e-5)
    np.testing.assert_allclose(found.entropy, expected[1], rtol=1e-5)
    assert found.words[4] == "zebra" and found.unknown.sum() == 1


@pytest.mark.parametrize("tied", [False, True])
def test_a_state_dict(tied, tmp_path, vocabulary):
    model = make(7, 7 if tied else 5, 1 if tied else 2, tied=tied)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    lm = LanguageModel.from_torch(tmp_path / "model.pt", vocabulary)
    require_equal(lm, model)
    assert lm.tie_embeddings == tied
    assert lm.vocabulary.tokens[:2] == ("<eos>", "<unk>")
    lm.save(tmp_path / "model.keras")


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("zipped", [False, True])
def test_no_code_of_a_whole_model_is_run(
    zipped, tmp_path, vocabulary, monkeypatch
):
    model = make(4, 5)
    model.harm = Harmful(tmp_path / "harm")
    path = tmp_path / "model.pt"
    save_whole(
        torch.nn.DataParallel(model),
        path,
        monkeypatch,
        _use_new_zipfile_serialization=zipped,
    )
    tokenizer = Tokenizer(lowercase=True)
    lm = LanguageModel.from_torch(path, vocabulary, tokenizer)
    require_equal(lm, model)
    assert lm.vocabulary.encode("THE CAT").min() > 1
    assert not (tmp_path / "harm").exists()


class OldParameter(torch.nn.Parameter):
    """A parameter in the file format of PyTorch 0.3."""

    def __reduce_ex__(self, protocol):
        state = (True, False, collections.OrderedDict())
        return torch.nn.Parameter, (OldTensor(self.data),), state


class OldTensor:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        tensor = self.tensor
        place = (tensor.storage_offset(), tensor.size(), tensor.stride())
        storage = tensor._typed_storage()
        return torch._utils._rebuild_tensor, (storage, *place)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_whole_model_of_an_old_version(tmp_path, vocabulary, monkeypatch):
    model = make(4, 5)
    old = make(4, 5)
    for module in old.modules():
        for name, value in module._parameters.items():
            module._parameters[name] = OldParameter(value.data)
    old.rnn._flat_weights = []
    path = tmp_path / "model.pt"
    save_whole(old, path, monkeypatch, _use_new_zipfile_serialization=False)
    assert b"_rebuild_tensor\n" in path.read_bytes()
    require_equal(LanguageModel.from_torch(path, vocabulary), model)


def state(**changes):
    weights = {**make(4, 5).state_dict(), **changes}
    return {name: value for name, value in weights.items() if value is not None}


@pytest.mark.parametrize(
    "content, message",
    [
        (lambda: state(**{"decoder.bias": None}), r"missing.*'decoder.bias'"),
        (lambda: {}, "must hold the weights decoder.bias"),
        (lambda: [1], "is damaged.*holds a list"),
        (
            lambda: make(4, 5, 1, torch.nn.GRU).state_dict(),
            "must hold an LSTM.*as in a GRU",
        ),
        (
            lambda: state(**{"encoder.weight": torch.ones(9, 4)}),
            r"encoder.weight of the shape \(8, 4\).*\(9, 4\)",
        ),
    ],
)
def test_other_checkpoints(content, message, tmp_path, vocabulary):
    torch.save(content(), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=message):
        LanguageModel.from_torch(tmp_path / "model.pt", vocabulary)


def test_files_that_are_not_there_or_damaged(tmp_path, vocabulary, monkeypatch):
    path = tmp_path / "model.pt"
    with pytest.raises(FileNotFoundError, match="no PyTorch checkpoint"):
        LanguageModel.from_torch(path, vocabulary)
    torch.save(state(), path)
    whole = path.read_bytes()
    for damaged in (b"", b"no checkpoint", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            LanguageModel.from_torch(path, vocabulary)
    path.write_bytes(whole)
    (tmp_path / "words.txt").write_text("the\n<unk>\n")
    with pytest.raises(ValueError, match="must have <eos> and <unk>"):
        LanguageModel.from_torch(path, tmp_path / "words.txt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        LanguageModel.from_torch(path, vocabulary)
