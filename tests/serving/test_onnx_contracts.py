"""Tests ONNX files for engines that use no names of states: sherpa-onnx and
Triton."""

import keras
import numpy as np
import onnx_runs
import pytest
from text_protos import parse

import memlm_keras as memlm
from memlm_keras.serving import check_path
from memlm_keras.serving import export

pytestmark = pytest.mark.backend("tensorflow")

pytest.importorskip("onnx")
pytest.importorskip("tf2onnx")
pytest.importorskip("onnxruntime")

V = 12
PIECES = ["<blk>", "<sos/eos>", "<unk>", *(f"piece_{i}" for i in range(V - 3))]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Writes the `tokens.txt` of a speech recognizer."""
    path = tmp_path_factory.mktemp("recogniser") / "tokens.txt"
    lines = (f"{piece} {id}\n" for id, piece in enumerate(PIECES))
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def lm(tokens):
    """Returns a model whose states have two dtypes and three ranks."""
    keras.utils.set_random_seed(3)
    lm = memlm.LanguageModel(
        vocabulary=memlm.data.SubwordVocabulary.from_tokens_file(
            tokens, unit="words"
        ),
        embedding_dim=5,
        recurrent=[keras.layers.LSTM(6)],
        memory=memlm.memory.KeyValue(window=3),
        recurrent_above=[keras.layers.GRU(5)],
    )
    for weight in lm.trainable_weights:
        weight.assign(keras.random.uniform(weight.shape, -0.7, 0.7))
    return lm


# === sherpa-onnx ===


def require_shallow_fusion(lm, path, steps):
    """Asserts that a file used by position gives the results of `step`."""
    ids = onnx_runs.some_ids(lm, steps)
    ids[0] = 1
    expected, _ = onnx_runs.by_step(lm, ids)
    onnx_runs.require_close(onnx_runs.by_sherpa(path, ids), expected)


def test_shallow_fusion(lm, tokens, tmp_path):
    path = tmp_path / "lm.onnx"
    export(lm, path, format="onnx", contract="sherpa", tokens=tokens)
    require_shallow_fusion(lm, path, 30)
    properties = onnx_runs.metadata(onnx_runs.session(path))
    state = lm.initial_state(1).values()
    numbers = sum(int(np.prod(value.shape)) for value in state)
    assert int(properties["hidden_size"]) == (numbers + 1) // 2
    assert properties["sos_id"] == "1" and properties["model_type"] == "rnnlm"
    # C++ programs read the outputs by position, so the order is fixed.
    outputs = onnx_runs.session(path).get_outputs()
    assert [one.name for one in outputs] == ["scores", "next_h", "next_c"]


def test_rescoring(lm, tmp_path):
    path = tmp_path / "lm.onnx"
    export(lm, path, format="onnx", contract="sherpa_offline")
    engine = onnx_runs.session(path)
    texts = [[3, 9, 4, 4, 11, 5], [7, 3], [], [8]]
    x = np.full((len(texts), 6), -1)
    for row, text in zip(x, texts):
        row[: len(text)] = text
    lengths = np.array([len(text) for text in texts])
    (nll,) = engine.run(None, {"x": x, "x_lens": lengths})
    expected = [-lm.score([[1, *text, 1]]).sum() for text in texts]
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    found = onnx_runs.operators(path)
    assert (found["LSTM"], found["GRU"], found["Loop"]) == (1, 1, 0)
    properties = onnx_runs.metadata(engine)
    assert (properties["eos_id"], properties["vocab_size"]) == ("1", str(V))


def begun():
    """Returns a model with an initial state that is not zero."""
    return memlm.LanguageModel(V, 4, [onnx_runs.CellThatBegins(6)])


def test_what_a_recogniser_cannot_read_is_refused(lm, tokens, tmp_path):
    swapped = tmp_path / "tokens.txt"
    text = tokens.read_text()
    swapped.write_text(text.replace("_1 ", "_x ").replace("_2 ", "_1 "))
    plain, words = begun(), {"vocabulary": lm.vocabulary}
    onnx = {"path": tmp_path / "lm.onnx", "format": "onnx"}
    sherpa = {**onnx, "contract": "sherpa"}
    swapped = {**sherpa, "tokens": swapped}
    for model, arguments, message in (
        (lm, swapped, "`tokens` must list the model's vocabulary"),
        (plain, sherpa, "from_tokens_file.*NoneType"),
        (plain, sherpa | words, "another initial state in recurr"),
        (lm, {**onnx, "tokens": tokens}, "`tokens` needs a `contract`"),
        (lm, {**onnx, "contract": "kaldi"}, "one of 'sherpa', 's.*kaldi"),
    ):
        with pytest.raises(ValueError, match=message):
            export(model, **arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.txt"]


# === Triton ===

# Fields of Triton's model_config.proto that the exports use.
MESSAGES = {
    "ModelConfig": "platform string, max_batch_size int32, input ModelInput*, "
    "output ModelOutput*, sequence_batching ModelSequenceBatching",
    "ModelInput": "name string, data_type DataType, dims int64*",
    "ModelOutput": "name string, data_type DataType, dims int64*, "
    "label_filename string",
    "ModelSequenceBatching": "max_sequence_idle_microseconds uint64, "
    "oldest StrategyOldest, state State*",
    "StrategyOldest": "max_candidate_sequences int32",
    "State": "input_name string, output_name string, data_type DataType, "
    "dims int64*, initial_state InitialState*",
    "InitialState": "data_type DataType, dims int64*, zero_data bool, "
    "data_file string, name string",
}
DATA_TYPES = {"TYPE_INT32": 8, "TYPE_INT64": 9, "TYPE_FP32": 11}
NUMPY = {8: "int32", 9: "int64", 11: "float32"}


def config_of(folder):
    """Parses `config.pbtxt` as the server does."""
    enums = {"DataType": DATA_TYPES}
    return parse(folder / "config.pbtxt", "ModelConfig", MESSAGES, enums)


def by_triton(folder, ids):
    """Computes the answers of a server that keeps states by its
    configuration."""
    config = config_of(folder)
    assert config.platform == "onnxruntime_onnx"
    assert config.max_batch_size >= onnx_runs.ROWS
    assert config.sequence_batching.oldest.max_candidate_sequences > 0
    engine = onnx_runs.session(folder / "1" / "model.onnx")
    (token_ids,), (answer,) = config.input, config.output
    assert list(token_ids.dims) == [1] and NUMPY[token_ids.data_type] == "int64"
    tensors = [*engine.get_inputs(), *engine.get_outputs()]
    declared = {one.name: list(one.dims) for one in (token_ids, answer)}
    carried, next_of = {}, {}
    for state in config.sequence_batching.state:
        (first,) = state.initial_state
        dims = list(state.dims)
        assert list(first.dims) == dims and dims
        declared[state.input_name] = declared[state.output_name] = dims
        value = np.zeros(dims, NUMPY[state.data_type])
        if first.data_file:
            file = folder / "initial_state" / first.data_file
            value = np.fromfile(file, value.dtype).reshape(dims)
        else:
            assert first.zero_data
        carried[state.input_name] = np.stack([value] * onnx_runs.ROWS)
        next_of[state.input_name] = state.output_name
    assert declared == {one.name: one.shape[1:] for one in tensors}
    found = []
    for column in ids:
        names = [answer.name, *next_of.values()]
        scores, *new = engine.run(names, {token_ids.name: column, **carried})
        carried = dict(zip(next_of, new, strict=True))
        found.append(scores)
    return np.array(found)


def require_triton(lm, folder, steps):
    export(lm, folder, format="triton")
    ids = onnx_runs.some_ids(lm, steps)
    expected, _ = onnx_runs.by_step(lm, ids)
    onnx_runs.require_close(by_triton(folder, ids), expected)


def test_a_triton_repository(lm, tmp_path):
    folder = tmp_path / "model_repository" / "lm"
    require_triton(lm, folder, 20)
    labels = folder / config_of(folder).output[0].label_filename
    assert labels.read_text().splitlines() == PIECES
    with pytest.raises(FileExistsError, match="`path` already exists"):
        export(lm, folder, format="triton")
    assert check_path(folder, overwrite=True, format="triton") == folder
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="not an export.*another path.$"):
        check_path(tmp_path / "mine", overwrite=True, format="triton")


def test_a_state_that_does_not_begin_with_zeros_has_a_file(tmp_path):
    require_triton(begun(), tmp_path / "lm", 5)
    assert (tmp_path / "lm" / "initial_state" / "recurrent_0_state_0").exists()
