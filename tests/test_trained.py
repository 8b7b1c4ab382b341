"""Trained models: folders, names, and the errors of damaged ones."""

import json
import shutil
import threading

import keras
import numpy as np
import pytest
from keras import ops
from language_models import VOCABULARY
from language_models import V
from language_models import array
from language_models import close
from language_models import make
from language_models import tokens_of

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras import trained

LSTM = "memlm/embedded_lstm"
ATTENTION = "memlm/embedded_attention"
ENGLISH = "memlm/english"
PERSON = "ruth ellis was born in york in 1871"


@pytest.fixture
def folder(tmp_path):
    """Returns the folder of a trained model with the name `mine/small`."""
    path = tmp_path / "presets" / "mine" / "small"
    card = {"perplexity": 12.345, "command": "python build.py", "text": "a|b"}
    make(vocabulary=VOCABULARY).save_to_preset(path, card=card)
    return path


@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize(
    "dtype, difference", [("float32", 1e-6), ("float16", 1e-3), ("int8", 0.02)]
)
def test_round_trip(dtype, difference, tmp_path):
    model, tokens = make("gated_hornn", "attention"), tokens_of(2, 5)
    card = {"perplexity": np.float32(9.5)}
    model.save_to_preset(tmp_path / "a", dtype, card)
    loaded = memlm.LanguageModel.from_preset(tmp_path / "a")
    found, expected = loaded.score(tokens), model.score(tokens)
    assert np.abs(found - expected).max() < difference
    assert (np.abs(found - expected).max() < 1e-6) == (dtype == "float32")
    assert {weight.dtype for weight in loaded.trainable_weights} == {"float32"}
    # Saving a loaded model again does not change its rounded weights.
    loaded.save_to_preset(tmp_path / "b", dtype)
    again = memlm.LanguageModel.from_preset(tmp_path / "b")
    close(again.score(tokens), found)
    again.compile("adam")
    again.fit(tokens[:, :-1], tokens[:, 1:], verbose=0)
    # The file has the same size without and with an optimizer.
    again.save_to_preset(tmp_path / "c", dtype)
    size = (tmp_path / "c" / "model.weights.h5").stat().st_size
    assert size == (tmp_path / "a" / "model.weights.h5").stat().st_size


@pytest.mark.backend
def test_weights_that_a_file_replaces_are_not_drawn():
    def weights(seed=None):
        draw = keras.initializers.GlorotUniform(seed)
        layer = keras.layers.Dense(3, kernel_initializer=draw, dtype="bfloat16")
        layer.build((None, 2))
        return [np.abs(ops.convert_to_numpy(w)).max() for w in layer.weights]

    drawn = []
    with files.blank_weights(), files.blank_weights():
        assert weights() == [0, 0] and weights(seed=7)[0] > 0
        other = threading.Thread(target=lambda: drawn.extend(weights()))
        other.start()
        other.join()
    assert drawn[0] > 0 and weights()[0] > 0


@pytest.mark.backend
def test_trained_classifiers_and_smoothed_models(tmp_path):
    pairs = memlm.EntailmentClassifier.from_preset(
        "weissenborn2016/dual_am_gru_shared",
        vocabulary=VOCABULARY,
        labels=("yes", "no"),
        scale=0.04,
    )
    pairs.save_to_preset(tmp_path / "pairs")
    loaded = memlm.EntailmentClassifier.from_preset(tmp_path / "pairs")
    texts = "w1 w2", "w3"
    found, expected = ([*m.classify(*texts).values()] for m in (loaded, pairs))
    close(found, expected)
    with pytest.raises(ValueError, match="`memlm_keras.EntailmentClassifier`:"):
        memlm.LanguageModel.from_preset(tmp_path / "pairs")


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize("name", [LSTM, ATTENTION])
def test_the_models_of_the_package_know_their_text(name):
    model = memlm.LanguageModel.from_preset(name)
    corpus = memlm.data.load("embedded")
    assert model.vocabulary == corpus.vocabulary
    split = memlm.data.Split(
        corpus.test.tokens[: corpus.test.document_starts[8]],
        corpus.test.document_starts[:8],
    )
    batches = corpus.batches(split, 8, 54, documents=True)
    found = memlm.evaluation.perplexity(model, batches, verbose=0).perplexity
    card = trained.read_metadata(trained.find(name))["card"]
    assert found == pytest.approx(card["perplexity"], rel=0.2)


def test_the_english_model(memlm_command, tmp_path):
    path = trained.find(ENGLISH)
    assert sum(f.stat().st_size for f in path.iterdir()) < 8_000_000
    model = memlm.LanguageModel.from_preset(ENGLISH)
    sense, disorder = model.score(
        [
            "She looked out of the window, and saw her father in the garden.",
            "Out garden her she of, the looked father. window saw and the in",
        ]
    )
    assert sense.sum() > disorder.sum() + 20
    (tmp_path / "garden.txt").write_text("The horse raced past the barn fell.")
    status, out, err = memlm_command("surprisal", ENGLISH, "garden.txt")
    assert status == 0, err
    header, *rows = (line.split("\t") for line in out.splitlines())
    words = [row[header.index("word")] for row in rows]
    assert words == [*"The horse raced past the barn fell.".split(), "</s>"]
    bits = [float(row[header.index("surprisal_bits")]) for row in rows]
    assert max(bits) == bits[6] and min(bits[:7]) == bits[4]
    _, out, _ = memlm_command("surprisal", ENGLISH, "garden.txt", "--tokens")
    assert "\u2581horse" in out and len(out.splitlines()) > len(rows) + 1


def test_the_larger_english_model_of_a_clone():
    folder = trained.find("memlm/english_large")
    large = memlm.LanguageModel.from_preset("memlm/english_large")
    assert large.count_params() == trained.read_metadata(folder)["parameters"]
    texts = [
        "It is a truth that a single man must be in want of a wife.",
        "The key that she had found in the garden was of no use to her.",
    ]
    small = memlm.LanguageModel.from_preset(ENGLISH)
    for better, worse in zip(large.score(texts), small.score(texts)):
        assert better.sum() > worse.sum()


def test_matrices_of_int8_have_a_scale_for_each_row_or_column():
    values = np.random.default_rng(0).normal(size=(50, 4)).astype("float32")
    values[3] = 0
    values[7] *= 100
    stored, scale = trained.narrow(values, "int8")
    assert stored.dtype == "int8" and scale.shape == (50, 1)
    assert (np.abs(stored * scale - values) <= scale / 2 + 1e-6).all()
    assert trained.narrow(values.T, "int8")[1].shape == (1, 50)
    for small in (values[0], values.astype("int64")):
        assert trained.narrow(small, "int8")[0] is small


def test_names_and_paths(folder, monkeypatch):
    assert "mine/small" not in memlm.presets.trained_names()
    assert trained.find("mine/small") is None
    roots = f"nowhere:{folder.parents[1]}"
    monkeypatch.setenv("MEMLM_PRESETS", roots)
    names = memlm.presets.trained_names()
    assert {"mine/small", LSTM, ATTENTION} <= set(names)
    assert not set(names) & set(memlm.presets.names())
    for name in ("mine/small", folder, str(folder)):
        assert len(memlm.LanguageModel.from_preset(name).vocabulary) == V
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# small\n") and "| text | a/b |" in page


@pytest.mark.parametrize("name", [LSTM, ATTENTION])
def test_a_trained_model_with_dropout(name):
    model = memlm.LanguageModel.from_preset(name)
    dropped = memlm.LanguageModel.from_preset(name, dropout=0.5)
    assert (model.dropout, dropped.dropout) == (0.0, 0.5)
    tokens = model.vocabulary.encode_sentence(PERSON)[None]
    close(dropped.score(tokens), model.score(tokens))
    # Training drops.
    trained_on, expected = dropped(tokens, training=True), model(tokens)
    assert np.abs(array(trained_on) - array(expected)).max() > 0.1


@pytest.mark.parametrize(
    ("preset", "given", "message"),
    [
        (LSTM, {"vocabulary_size": 9}, "Leave.*vocabulary_size"),
        (LSTM, {"window": 5}, "Leave.*window"),
        (LSTM, {"weights": True}, "no argument `weights`.*=True"),
        ("memlm/embeded_lstm", {}, f"nearest is '{LSTM}'"),
        ("memlm/small", {"weights": None}, "no argument `weights`"),
        ("memlm/small", {}, "None with a `vocabulary_size`"),
        (".", {}, "model.keras"),
    ],
)
def test_what_the_error_names(preset, given, message):
    with pytest.raises(ValueError, match=message):
        memlm.LanguageModel.from_preset(preset, **given)


def test_names_that_are_no_preset_or_not_installed(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="a trained model, which `from_preset"):
        memlm.presets.get(LSTM)
    monkeypatch.setattr(trained, "_OWN", tmp_path)
    sources = {"": "recipes/english.py", "_large": "`pip install -e .`"}
    for size, how in sources.items():
        with pytest.raises(FileNotFoundError, match=f"MEMLM_PR.*{how}"):
            memlm.LanguageModel.from_preset(f"memlm/english{size}")


@pytest.mark.parametrize("file", ["model.weights.h5", "config.json"])
def test_damaged_and_missing_files(file, folder):
    expected = trained.read_metadata(folder)["sha256"][file]
    with open(folder / file, "ab") as damaged:
        damaged.write(b" ")
    with pytest.raises(ValueError, match=f"{expected}.*`python build.py`") as e:
        memlm.LanguageModel.from_preset(folder)
    assert str(folder / file) in str(e.value)
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"{file} with SHA.*{expected}"):
        memlm.LanguageModel.from_preset(folder)


def test_damaged_and_missing_facts(folder):
    path = folder / "metadata.json"
    facts = json.loads(path.read_text())
    others = ({**facts, "format": 99}, {**facts, "sha256": {}})
    for text in ("{", *map(json.dumps, others)):
        path.write_text(text)
        with pytest.raises(ValueError, match="metadata.json is damaged"):
            memlm.LanguageModel.from_preset(folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="metadata.json"):
        memlm.LanguageModel.from_preset(folder)


def test_saving_replaces_trained_models_only(folder, tmp_path):
    model = make()
    model.save_to_preset(folder, "float16")
    assert trained.read_metadata(folder)["dtype"] == "float16"
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="with other files"):
        model.save_to_preset(tmp_path / "letters")
    with pytest.raises(ValueError, match="dtype='int4'"):
        model.save_to_preset(tmp_path / "new", dtype="int4")
    model.quantize("int8", verbose=False)
    with pytest.raises(ValueError, match="quantized model cannot become a tr"):
        model.save_to_preset(tmp_path / "new")
    assert not (tmp_path / "new").exists()


# === The command ===


@pytest.mark.slow
def test_evaluation_and_export_take_trained_models(memlm_command, tmp_path):
    flags = ("--dataset=embedded", "--documents", "--verbose=0")
    status, out, err = memlm_command("evaluate", LSTM, *flags)
    assert status == 0 and "test: perplexity 3." in out, err
    status, out, err = memlm_command("export", LSTM)
    assert status == 0, err
    version = tmp_path / "saved_models" / "embedded_lstm" / "1"
    page = (version / "assets.extra" / "model_card.md").read_text()
    assert "* command: python recipes/trained.py" in page


def test_presets_list_trained_models(memlm_command, folder, monkeypatch):
    monkeypatch.setenv("MEMLM_PRESETS", str(folder.parents[1]))
    status, out, err = memlm_command("presets", "mine/*")
    assert status == 0, err
    assert out.splitlines()[-1].startswith("mine/small")
    assert "Trained models" in out and "MB, perplexity 12.35, a|b" in out
    monkeypatch.setattr(trained, "_OWN", folder)
    shutil.rmtree(folder)
    status, out, _ = memlm_command("presets", "memlm/english")
    assert "not installed. Build it in a clone with `python" in out
