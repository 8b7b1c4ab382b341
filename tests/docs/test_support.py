"""Makes the table of each kind of model's features by running them."""

import contextlib
import pathlib
import re

import keras
import numpy as np
import pytest
from language_models import array
from language_models import close
from preset_families import V
from preset_families import families
from preset_families import inputs_of
from preset_families import small
from scipy.special import log_softmax

import memlm_keras as memlm

pytestmark = pytest.mark.backend

BACKEND = keras.backend.backend()
DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = DOCS / "support.md"
FORMATS_PAGE = DOCS / "how_to" / "formats.md"
# Compiling takes most of a minute per kind on other backends.
FEW = ["daniluk2017/key_value_predict"]

TOKENS = np.random.default_rng(5).integers(1, V, size=(2, 6)).astype("int32")
TEXT = "word_3 word_9\nword_7 word_4"
SENTENCES = np.array([3, 4, 0, 5, 6, 0, 9, 0])
# Notes of the page, each with parts of matching errors or formats.md's cells.
NOTES = {
    "The model reads whole sentences in both directions and has no state. "
    "`fit` and `score` work.": (
        "needs a causal model",
        "cannot follow a memory that is not causal",
        "no: reads whole sentences",
    ),
    "The model has no attention weights.": (
        "Attention needs a memory that attends",
    ),
    "The cache replaces the mixture of the model.": (),
    "Quantize `with_fixed_matrices()`, a copy with the same predictions.": (
        "`quantize` needs a model that is not smoothed",
    ),
    "The model reads two sentences: export it as a SavedModel.": (
        "no: reads two sentences",
    ),
    "Autoencoders run only in Keras.": ("no: an autoencoder",),
}
REPLACED = list(NOTES)[2]
# Columns of the page, by their first preset.
KINDS = {
    "daniluk2017/rnn": "plain",
    "daniluk2017/rm_tm_gated": "attends",
    "grave2017/ptb_cache_500": "mixture",
    "kong2019/vs_linear_512": "smoothed",
    "tran2016/completion_birm_256": "both ways",
    "weissenborn2016/gru_shared": "pairs",
    "weissenborn2016/lstm_attention": "pairs, attends",
    "weissenborn2016/gru_autoencoder": "autoencoder",
}


def noted(mark, note):
    """Returns a cell's mark with the number of a note."""
    return mark + " " + "⁰¹²³⁴⁵⁶⁷⁸⁹"[1 + list(NOTES).index(note)]


def refused(message):
    """Returns the cell for an error message or for a cell of formats.md, or
    `None`."""
    for note, messages in NOTES.items():
        if any(each in message for each in messages):
            return noted("no", note)
    return None


class Absent(Exception):
    """Raised if a kind of model lacks a method."""


def require_close(actual, expected):
    close(actual, expected, 1e-4)


def method(model, name):
    if not hasattr(model, name):
        raise Absent
    return getattr(model, name)


# === Data of each kind ===


def text_batches():
    return memlm.data.Batches(np.arange(23) % V, 2, 6, document_starts=[0, 7])


def batches_of(model):
    """Returns batches for training a model, by their names on the page."""
    if isinstance(model, memlm.EntailmentClassifier):
        pairs = [[4, 9, 2], [7, 1]], [[9, 3], [8, 8, 5]], [0, 2]
        return {"pairs": memlm.data.PairBatches(*pairs, 2)}
    if isinstance(model, memlm.SequenceAutoencoder):
        return {"sentences": memlm.data.AutoencodingBatches(SENTENCES, 3)}
    sentences = {"sentences": memlm.data.SentenceBatches(SENTENCES, 1)}
    return {"text": text_batches(), **sentences} if model.causal else sentences


def outputs(model):
    """Returns a language model's scores of tokens, or another model's
    logits."""
    if isinstance(model, memlm.LanguageModel):
        return model.score(TOKENS)
    return array(model.predict_on_batch(inputs_of(model)))


def check_training(model, batches):
    """Asserts that training changes weights and has a finite loss."""
    before = [array(weight) for weight in model.trainable_variables]
    model.compile("sgd", run_eagerly=BACKEND == "tensorflow")
    history = model.fit(batches, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    pairs = zip(model.trainable_variables, before)
    assert any(np.any(array(weight) != old) for weight, old in pairs)


# === One function per row, which returns the cell for a model ===


def fit(model):
    kinds = batches_of(model)
    for batches in kinds.values():
        check_training(model, batches)
    if not getattr(model, "causal", True):
        with pytest.raises(ValueError, match="must hold whole sentences"):
            model.fit(text_batches())
    return ", ".join(kinds)


def step(model):
    read = method(model, "step")
    state = model.initial_state(2)
    logits = []
    for part in np.split(TOKENS, 2, axis=1):
        outputs, state = read(part, state)
        logits.append(array(outputs))
    scores = log_softmax(np.concatenate(logits, axis=1), axis=-1)
    scores = np.take_along_axis(scores[:, :-1], TOKENS[:, 1:, None], axis=2)
    require_close(scores[..., 0], model.score(TOKENS))


def generate(model):
    if isinstance(model, memlm.SequenceAutoencoder):
        assert isinstance(model.generate(TEXT.splitlines())[0], str)
        return
    write = method(model, "generate")
    tokens = write(TOKENS[:, :2], max_length=4, sampler="greedy")
    assert tokens.shape == (2, 4) and (tokens[:, :2] == TOKENS[:, :2]).all()


def score(model):
    scores = method(model, "score")(TOKENS)
    assert scores.shape == (2, 5) and np.isfinite(scores).all()
    assert np.ptp(scores) > 0


def surprisal(model):
    words = method(model, "surprisal")(TEXT, unit="nats", reset=True)
    expected = model.score(TEXT.splitlines())
    require_close(words.surprisal, -np.concatenate(expected))


def attention(model):
    weights = method(model, "attention")(inputs_of(model))
    assert np.isfinite(weights).all() and 0 < weights.sum(axis=-1).max() < 1.001


def positions(model):
    if not isinstance(model, memlm.LanguageModel):
        raise Absent
    positions = np.array([[1, 3], [0, 4]], "int32")
    inputs = {"token_ids": TOKENS, "positions": positions}
    logits = array(model.predict_on_batch({"token_ids": TOKENS}))
    expected = np.take_along_axis(logits, positions[..., None], axis=1)
    require_close(model.predict_on_batch(inputs), expected)


def dynamic_evaluation(model):
    if not isinstance(model, memlm.LanguageModel):
        with pytest.raises(ValueError, match="must be a single"):
            memlm.evaluation.DynamicEvaluator(model, rate=0.1)
        raise Absent
    evaluator = memlm.evaluation.DynamicEvaluator(model, rate=0.1)
    batches = memlm.data.Batches(np.arange(1, 9), 1, 4)
    scores, _ = evaluator.score_batches(batches)
    assert np.isfinite(scores).all()
    assert any(
        np.any(array(now) != array(weight))
        for now, weight in zip(evaluator.weights, model.trainable_variables)
    )


def cache(model):
    cached = method(model, "with_mixture")(
        memlm.mixtures.NeuralCache(3, theta=0.1, weight=0.4)
    )
    scores = cached.score(TOKENS)
    assert np.isfinite(scores).all()
    assert np.abs(scores - model.score(TOKENS)).max() > 1e-3
    return noted("✓", REPLACED) if model.mixture is not None else "✓"


def bfloat16(model, name):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = small(name)
    finally:
        keras.config.set_dtype_policy("float32")
    assert any(layer.compute_dtype == "bfloat16" for layer in model.layers)
    # JAX warns, because bfloat16 is slow on a CPU.
    with pytest.warns() if BACKEND == "jax" else contextlib.nullcontext():
        check_training(model, [*batches_of(model).values()][0])


def saved(model, folder):
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    require_close(outputs(loaded), outputs(model))


def int8(model):
    """Tests quantization in the last row, since the model stays quantized."""
    before = outputs(model)
    model.quantize("int8")
    assert 0 < np.abs(outputs(model) - before).max() < 0.2


FEATURES = {
    "`fit` on": fit,
    "`step`": step,
    "`generate`": generate,
    "`score`": score,
    "`surprisal`": surprisal,
    "`attention`": attention,
    "positions": positions,
    "dynamic": dynamic_evaluation,
    "cache": cache,
    "bfloat16": bfloat16,
    "saved": saved,
    "int8": int8,
}
FORMATS = ("SavedModel", "ONNX", "LiteRT", "LiteRT, int8")


def cell(feature, *arguments):
    """Returns the table's text for a feature; raises unexpected errors."""
    try:
        return feature(*arguments) or "✓"
    except Absent:
        return ""
    except ValueError as error:
        text = refused(str(error))
        if text is None:
            raise
        return text


def exported(name):
    """Returns the cells of a kind of model in formats.md."""
    page = FORMATS_PAGE.read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{name}` \| (.+) \|$", page, re.MULTILINE)
    return [
        "✓" if text.startswith("works") else refused(text)
        for text in row.split(" | ")[-len(FORMATS) :]
    ]


def cells_of_page():
    """Returns the page's cells of each kind of model, by the first preset."""
    rows = [
        line.strip("|").split("|")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    rows = [[each.strip() for each in cells] for cells in rows]
    start = next(
        i for i, cells in enumerate(rows) if cells[1:] == [*KINDS.values()]
    )
    columns = list(zip(*rows[start + 2 :][: len(FEATURES) + len(FORMATS)]))
    return {
        cells[0].strip("`"): [
            *columns[1 + list(KINDS.values()).index(cells[1])]
        ]
        for cells in rows
        if cells[1] in KINDS.values() and cells[0].startswith("`")
    }


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        every = BACKEND == "torch" or metafunc.config.getoption("--every-kind")
        metafunc.parametrize("name", families() if every else FEW)


def test_every_kind(name, tmp_path):
    model = small(name)
    more = {saved: tmp_path, bfloat16: name}
    found = [
        cell(feature, model, *([more[feature]] if feature in more else []))
        for feature in FEATURES.values()
    ]
    assert [*found, *exported(name)] == cells_of_page()[name]


def test_the_page_has_the_notes_and_each_preset_with_its_kind():
    page = PAGE.read_text(encoding="utf-8")
    for number, note in enumerate(NOTES, start=1):
        assert f"\n{number}. {note}\n" in page
    for first, (_, *others) in families().items():
        (cells,) = re.findall(rf"^\| `{first}` \|.*\| (.*) \|$", page, re.M)
        assert cells == ", ".join(f"`{other}`" for other in others)
