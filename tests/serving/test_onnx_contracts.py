"""ONNX files for engines that know no names: sherpa-onnx and Triton."""

import keras
import numpy as np
import onnx_runs
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import message_factory
from google.protobuf import text_format

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
    """A recogniser's `tokens.txt`."""
    path = tmp_path_factory.mktemp("recogniser") / "tokens.txt"
    lines = (f"{piece} {id}\n" for id, piece in enumerate(PIECES))
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def lm(tokens):
    """A model with states of two types and three ranks."""
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


def test_shallow_fusion(lm, tokens, tmp_path):
    path = tmp_path / "lm.onnx"
    export(lm, path, format="onnx", contract="sherpa", tokens=tokens)
    ids = onnx_runs.some_ids(lm, 30)
    ids[0] = 1
    expected, _ = onnx_runs.by_step(lm, ids)
    onnx_runs.require_close(onnx_runs.by_sherpa(path, ids), expected)
    properties = onnx_runs.metadata(onnx_runs.session(path))
    state = lm.initial_state(1).values()
    numbers = sum(int(np.prod(value.shape)) for value in state)
    assert int(properties["hidden_size"]) == (numbers + 1) // 2
    assert properties["sos_id"] == "1" and properties["model_type"] == "rnnlm"
    # Programs in C++ read them by position.
    outputs = onnx_runs.session(path).get_outputs()
    assert [one.name for one in outputs] == ["scores", "next_h", "next_c"]


@pytest.mark.slow
def test_shallow_fusion_with_a_cache(lm, tmp_path):
    cache = memlm.mixtures.NeuralCache(size=4, theta=0.5, weight=0.3)
    cached = lm.with_mixture(cache)
    path = tmp_path / "lm.onnx"
    export(cached, path, format="onnx", contract="sherpa")
    ids = onnx_runs.some_ids(cached, 12)
    ids[0] = 1
    expected, _ = onnx_runs.by_step(cached, ids)
    onnx_runs.require_close(onnx_runs.by_sherpa(path, ids), expected)


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


def test_ids_that_are_not_the_recognisers_are_refused(lm, tokens, tmp_path):
    to = {"path": tmp_path / "lm.onnx", "format": "onnx"}
    swapped = tmp_path / "tokens.txt"
    text = tokens.read_text()
    swapped.write_text(text.replace("_1 ", "_x ").replace("_2 ", "_1 "))
    with pytest.raises(ValueError, match="`tokens` must list the tokens"):
        export(lm, **to, contract="sherpa", tokens=swapped)
    plain = memlm.LanguageModel(V, 4, [keras.layers.GRU(4)])
    with pytest.raises(ValueError, match="from_tokens_file.*NoneType"):
        export(plain, **to, contract="sherpa")
    with pytest.raises(ValueError, match="`tokens` needs a `contract`"):
        export(lm, **to, tokens=tokens)
    with pytest.raises(ValueError, match='must be "sherpa" or'):
        export(lm, **to, contract="kaldi")
    with pytest.raises(ValueError, match='`contract` is an option of .*"onnx"'):
        export(lm, tmp_path / "1", contract="sherpa")
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.txt"]


def begun():
    """A model whose state does not begin with zeros."""
    return memlm.LanguageModel(V, 4, [onnx_runs.CellThatBegins(6)])


def test_a_state_that_does_not_begin_with_zeros_is_refused(tokens, tmp_path):
    words = memlm.data.SubwordVocabulary.from_tokens_file(tokens, unit="words")
    path = tmp_path / "lm.onnx"
    with pytest.raises(
        ValueError, match="another initial state in recurrent_0"
    ):
        export(begun(), path, words, format="onnx", contract="sherpa")


# === Triton ===

# Fields of messages in Triton's model_config.proto, as far as they are used.
MESSAGES = {
    "ModelConfig": {
        "platform": "string",
        "max_batch_size": "int32",
        "input": "repeated ModelInput",
        "output": "repeated ModelOutput",
        "sequence_batching": "ModelSequenceBatching",
    },
    "ModelInput": {
        "name": "string",
        "data_type": "DataType",
        "dims": "repeated int64",
    },
    "ModelOutput": {
        "name": "string",
        "data_type": "DataType",
        "dims": "repeated int64",
        "label_filename": "string",
    },
    "ModelSequenceBatching": {
        "max_sequence_idle_microseconds": "uint64",
        "oldest": "StrategyOldest",
        "state": "repeated State",
    },
    "StrategyOldest": {"max_candidate_sequences": "int32"},
    "State": {
        "input_name": "string",
        "output_name": "string",
        "data_type": "DataType",
        "dims": "repeated int64",
        "initial_state": "repeated InitialState",
    },
    "InitialState": {
        "data_type": "DataType",
        "dims": "repeated int64",
        "zero_data": "bool",
        "data_file": "string",
        "name": "string",
    },
}
DATA_TYPES = {"TYPE_INT32": 8, "TYPE_INT64": 9, "TYPE_FP32": 11}
NUMPY = {8: "int32", 9: "int64", 11: "float32"}


def config_of(folder):
    """`config.pbtxt`, parsed as the server parses it."""
    file = descriptor_pb2.FileDescriptorProto(name="triton", syntax="proto3")
    enum = file.enum_type.add(name="DataType")
    enum.value.add(name="TYPE_INVALID", number=0)
    for name, number in DATA_TYPES.items():
        enum.value.add(name=name, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for number, (name, kind) in enumerate(fields.items(), 1):
            *repeated, kind = kind.split()
            field = descriptor.field.add(name=name, number=number)
            field.label = 3 if repeated else 1
            if kind in MESSAGES or kind == "DataType":
                field.type_name = kind
            else:
                field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    config = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("ModelConfig")
    )()
    return text_format.Parse((folder / "config.pbtxt").read_text(), config)


def by_triton(folder, ids):
    """Answers of a server that keeps the state by the configuration."""
    config = config_of(folder)
    assert config.platform == "onnxruntime_onnx"
    assert config.max_batch_size >= onnx_runs.ROWS
    assert config.sequence_batching.oldest.max_candidate_sequences > 0
    engine = onnx_runs.session(folder / "1" / "model.onnx")
    (token_ids,), (answer,) = config.input, config.output
    assert list(token_ids.dims) == [1] and NUMPY[token_ids.data_type] == "int64"
    shapes = {one.name: one.shape[1:] for one in engine.get_inputs()}
    shapes |= {one.name: one.shape[1:] for one in engine.get_outputs()}
    declared = {one.name: list(one.dims) for one in (token_ids, answer)}
    carried = {}
    for state in config.sequence_batching.state:
        (first,) = state.initial_state
        assert list(first.dims) == list(state.dims) and len(first.dims) > 0
        declared[state.input_name] = declared[state.output_name] = list(
            state.dims
        )
        value = np.zeros(first.dims, NUMPY[state.data_type])
        if first.data_file:
            file = folder / "initial_state" / first.data_file
            value = np.frombuffer(file.read_bytes(), value.dtype)
            value = value.reshape(first.dims)
        else:
            assert first.zero_data
        carried[state.input_name] = np.stack([value] * onnx_runs.ROWS)
    assert declared == shapes
    names = {
        s.input_name: s.output_name for s in config.sequence_batching.state
    }
    found = []
    for column in ids:
        scores, *new = engine.run(
            [answer.name, *names.values()], {token_ids.name: column, **carried}
        )
        carried = dict(zip(names, new, strict=True))
        found.append(scores)
    return np.array(found)


def test_a_triton_repository(lm, tmp_path):
    folder = tmp_path / "model_repository" / "lm"
    export(lm, folder, format="triton")
    ids = onnx_runs.some_ids(lm, 20)
    expected, _ = onnx_runs.by_step(lm, ids)
    onnx_runs.require_close(by_triton(folder, ids), expected)
    labels = folder / config_of(folder).output[0].label_filename
    assert labels.read_text().splitlines() == PIECES
    with pytest.raises(FileExistsError, match="something at `path`"):
        export(lm, folder, format="triton")
    assert check_path(folder, overwrite=True, format="triton") == folder
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="no export.*another path.$"):
        check_path(tmp_path / "mine", overwrite=True, format="triton")


def test_a_state_that_does_not_begin_with_zeros_has_a_file(tmp_path):
    lm = begun()
    export(lm, tmp_path / "lm", format="triton")
    ids = onnx_runs.some_ids(lm, 5)
    expected, _ = onnx_runs.by_step(lm, ids)
    onnx_runs.require_close(by_triton(tmp_path / "lm", ids), expected)
    assert (tmp_path / "lm" / "initial_state" / "recurrent_0_state_0").exists()
