"""Tests which preset a text gets, and the comparison of a finished run with
n-gram models."""

import pathlib
import re
import shlex
import shutil
import types
from typing import NamedTuple

import keras
import numpy as np
import pytest
from corpus_files import WORDS
from corpus_files import sentences
from corpus_files import write_documents
from corpus_files import write_lines
from language_models import array

import memlm_keras
from memlm_keras.evaluation.perplexity import token_losses
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import RunFolder
from memlm_keras.experiments import choice as module
from memlm_keras.experiments import choose_preset
from memlm_keras.experiments import command_line
from memlm_keras.experiments import comparison
from memlm_keras.experiments import measurements
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.options import OVERRIDES
from memlm_keras.mixtures import NeuralCache
from memlm_keras.ngrams.mixture import mixture_weights

from .conftest import results_of

LM = memlm_keras.LanguageModel
KVP = "daniluk2017/key_value_predict"
PIECES = ("▁the", "▁old", "▁ma", "n", "▁sa", "w", "▁a", "▁se", "a")


@pytest.fixture
def novel(folder):
    """Writes a text of 80 lines with punctuation, like a novel."""
    path = folder / "novel.txt"
    write_lines(path, [f"{line}, he said." for line in sentences(80)])
    return path


def test_what_is_given_is_kept(novel):
    given = {"dropout": 0.1, "tokenize": "characters", "epochs": 2}
    given["batch_size"] = 3
    choice = choose_preset(str(novel), **given)
    assert not {**choice.options, **choice.running}.keys() & given.keys()
    assert "takes at most 2 epochs" in choice.reasons[-1]
    assert "An update reads 3 rows" in " ".join(choice.reasons)
    given = {"dropout": 0.1, "scale": 0.1}
    choice = choose_preset(str(novel), "key_value_predict", **given)
    assert choice.options and not set(choice.options) & set(given)


class Corpus(NamedTuple):
    """A corpus with only the attributes that `choose_preset` reads."""

    tokens: int
    words: int

    @property
    def train(self):
        return types.SimpleNamespace(
            tokens=range(self.tokens), document_starts=None
        )

    @property
    def vocabulary(self):
        words = [f"word_{index}" for index in range(self.words - 2)]
        return memlm_keras.data.Vocabulary(words)


FALLS = {"linear_decay": 7, "learning_rate": 0.005}
SAMPLED = {"num_sampled": 2000}
LARGE = {**FALLS, **SAMPLED}
PROJECTED = {"units": 248, "embedding_dim": 200}


@pytest.mark.parametrize(
    "tokens, words, row, epochs, expected",
    [
        (60_000, 9000, "small", 40, {"dropout": 0.6, "batch_size": 5}),
        (60_001, 9000, "small", 40, {"dropout": 0.5}),
        (100_001, 9000, "small", 20, {"dropout": 0.5}),
        (300_001, 4000, "small", 7, {"dropout": 0.4, **PROJECTED, **FALLS}),
        (10**6, 4001, "small", 7, {"dropout": 0.3, **PROJECTED, **LARGE}),
        (10**6 + 1, 4001, "small", 7, {"dropout": 0.3, **LARGE}),
        (10**7 + 1, 9000, "medium", 40, {"dropout": 0.3}),
        (5 * 10**7 + 1, 9000, "large", 40, {"dropout": 0.3}),
    ],
)
def test_sizes_of_texts_decide(
    tokens, words, row, epochs, expected, monkeypatch
):
    corpus = Corpus(tokens, words)
    monkeypatch.setattr(module.Dataset, "load", lambda self: corpus)
    choice = choose_preset("embedded")
    assert choice.preset == f"memlm/{row}"
    assert choice.options == {"batch_size": 20, **expected}
    assert choice.running == {"epochs": epochs}
    reasons = " ".join(choice.reasons)
    assert ("memlm/medium is better" in reasons) == (5e5 < tokens <= 1e7)
    for name, said in (
        ("units", "248 outputs are projected"),
        ("linear_decay", "falls linearly to zero"),
        ("num_sampled", "compared with 2,000 of the words"),
    ):
        assert (said in reasons) == (name in expected)
    rate = expected.get("learning_rate", 0.003)
    assert row != "small" or f"at a learning rate of {rate}" in reasons


@pytest.mark.parametrize(
    "typed, left",
    [
        ({"scale": 0.5}, {"linear_decay": 7, **SAMPLED}),
        ({"halve_after": 9}, {**PROJECTED, **SAMPLED}),
        ({"epochs": 5}, {**PROJECTED, **SAMPLED}),
        ({"learning_rate": 0.1}, {**PROJECTED, **SAMPLED, "linear_decay": 7}),
        ({"num_sampled": 0}, {**PROJECTED, **FALLS}),
    ],
)
def test_what_is_typed_changes_what_is_chosen(typed, left, monkeypatch):
    corpus = Corpus(500_000, 9000)
    monkeypatch.setattr(module.Dataset, "load", lambda self: corpus)
    choice = choose_preset("embedded", dropout=0.4, batch_size=20, **typed)
    assert choice.options == left


def test_chosen_options_are_of_the_model(novel, monkeypatch):
    monkeypatch.setattr(module, "_EPOCHS", {7: float("inf")})
    monkeypatch.setattr(module, "_PROJECTS", (9, float("inf")))
    monkeypatch.setattr(module, "_NUM_SAMPLED", 3)
    choice = choose_preset(str(novel))
    experiment = Experiment(choice.preset, str(novel), **choice.options)
    head = experiment.preset["model"]["head"]["config"]
    assert head["num_sampled"] == choice.options["num_sampled"] == 3
    model, _ = experiment.make()
    assert model.memory.units == model.embedding.output_dim == 200
    assert model.recurrent[0].units == 248
    assert model.count_params() == 495_008 + 201 * model.vocabulary_size


def test_the_script_of_a_text_decides_how_words_are_split(folder):
    write_lines(folder / "plain.txt", sentences(80))
    choice = choose_preset(str(folder / "plain.txt"))
    assert "tokenize" not in choice.options
    text = "今天天气很好，我们去公园散步。\n他说明天会下雨。\n" * 20
    (folder / "notes.txt").write_text(text, encoding="utf-8")
    choice = choose_preset(str(folder / "notes.txt"))
    assert choice.options["tokenize"] == "characters"
    assert "few spaces" in choice.reasons[0]
    # With a paper's preset, the user must set the tokenization.
    with pytest.raises(ValueError, match="--tokenize=characters"):
        choose_preset(str(folder / "notes.txt"), "key_value_predict")


def test_the_training_text_decides_how_words_are_split(tmp_path):
    """Blank lines and the test text, whose name comes first, are ignored."""
    for split, line in {"test": "a , b .", "train": "今天天气很好。"}.items():
        (tmp_path / split).mkdir()
        text = "\n" * 1200 + f"{line}\n" * 9
        (tmp_path / split / "a.txt").write_text(text, encoding="utf-8")
    assert module._tokenize(tmp_path)[0] == "characters"


def test_a_papers_row_is_fitted_to_a_text(novel):
    choice = choose_preset(str(novel), "key_value_predict")
    assert choice.preset == KVP and not choice.is_own
    assert "(--tokenize=unicode_script suits this text)" in choice.reasons[0]
    experiment = Experiment(KVP, str(novel), **choice.options)
    published = Experiment(KVP, str(novel))
    assert experiment.preset["units"] < published.preset["units"]
    assert experiment.settings["batch_size"] < published.settings["batch_size"]
    assert choice.options["learning_rate"] == 0.003
    # The presets already use Adam, so `choose_preset` sets no optimizer.
    other = choose_preset(str(novel), "weissenborn2016/gru_language_model")
    assert not {"optimizer"} & {*choice.options, *other.options}


@pytest.mark.parametrize(
    "preset, rows",
    [("kong2019/vs_kneser_ney_512", 5), (KVP, 9), ("tran2016/memn", 5)],
)
def test_rows_of_papers_have_our_updates(novel, monkeypatch, preset, rows):
    assert choose_preset(str(novel), preset).options["batch_size"] == rows
    monkeypatch.setattr(module, "_BATCH_SIZE", {5: 9, 20: float("inf")})
    assert choose_preset(str(novel), preset).options["batch_size"] == 20


@pytest.mark.parametrize(
    "given, documents",
    [({}, False), ({"batch_size": 2}, None), ({"documents": True}, None)],
)
def test_documents_that_are_too_few_for_a_papers_row(folder, given, documents):
    write_documents(folder / "books")
    choice = choose_preset("books", KVP, **given)
    assert choice.options.get("documents") is documents
    few = "are read as one text" in " ".join(choice.reasons)
    assert few is (documents is False)


def test_training_without_the_name_of_a_preset(
    memlm, novel, folder, few_segments
):
    command = ("train", "--dataset=novel.txt", "--epochs=1", "--verbose=2")
    told = memlm(*command)
    run = folder / "runs" / "novel-memlm-small-seed0"
    chosen = "memlm/small --dataset=novel.txt --tokenize=unicode_script"
    assert f"Chosen: memlm train {chosen}" in told.out
    for said in (
        *("Punctuation is attached", "memlm/small suits a text of"),
        "5 rows of 35 tokens, at a learning rate of 0.003",
        *("Kneser-Ney with a cache", "dynamic evaluation", "It writes:"),
    ):
        assert said in told.out
    # The line of the comparison already has this result.
    assert "dynamic, test:" not in told.out
    # An LSTM without a memory has no attention.
    assert "memlm generate" in told.out and "memlm attention" not in told.out
    # The text has too few English words for advice on the English model.
    assert "memlm/english" not in told.out
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    again = memlm(*command)
    assert "finished, and is not trained again" in again.out
    assert "Kneser-Ney with a cache" in again.out
    # The recipe in the run folder has the options that were chosen.
    experiment = Experiment(**RunFolder(run).recipe())
    assert experiment.settings["dropout"] == results_of(run)["dropout"]


ENGLISH = "the old man and the sea, of the man in the land to the sea."


@pytest.mark.parametrize(
    "flags", ["", "--halve --patience=1", "--units=9 --tokenize=characters"]
)
def test_commands_that_are_proposed_are_accepted(
    memlm, folder, few_segments, flags
):
    write_lines(folder / "my text.txt", [ENGLISH] * 60)
    command = ("train", "--dataset=my text.txt", "--epochs=1", "--verbose=2")
    told = memlm(*command, *flags.split())
    commands = re.findall(r"^(?:.*: |  |)(memlm .*)$", told.out, re.M)
    assert len(commands) > 2
    for typed in commands:
        _, name, *arguments = shlex.split(typed)
        place, values = command_line.COMMANDS[name].parse(arguments)
        if name == "train":
            overrides = {k: v for k, v in values.items() if k in OVERRIDES}
            Experiment(place.preset, values["dataset"], **overrides)


@pytest.mark.parametrize("preset", [[], ["daniluk2017/lstm"]])
@pytest.mark.parametrize(
    "flag",
    "--window=3 --vectors=a --rate=1 --premise=a --beams=2 --devices=2 "
    "--analyses=pairs --samples=2".split(),
)
def test_wrong_flags_are_refused_before_a_choice(memlm, novel, flag, preset):
    told = memlm("train", *preset, "--dataset=novel.txt", flag, status=2)
    assert "Chosen" not in told.out
    # All flags except `--samples` are checked before the text is read.
    assert not told.out or flag == "--samples=2"
    assert flag.strip("-").partition("=")[0] in told.err


def test_a_suggested_prompt_has_known_words(novel):
    lines = novel.read_text(encoding="utf-8").splitlines()
    lines = [f'name{i} "so {line}' for i, line in enumerate(lines)]
    write_lines(novel, lines)
    experiment = Experiment("memlm/small", str(novel))
    generate = experiment.examples("RUN")[0]
    prompt = generate.removeprefix('memlm generate RUN "').removesuffix('"')
    known = experiment.corpus.vocabulary
    assert known.unknown_id not in known.encode(prompt)
    assert len(prompt.split()) == 3


# === Trained models that are trained further ===


def test_a_trained_model_is_named_where_the_text_is_english(memlm, folder):
    lines = sentences(80, ("The", "of", "and", "to", "in", "ship"))
    write_lines(folder / "ships.txt", [f"{line}." for line in lines])
    flags = ("--epochs=1", "--verbose=2", "--nocompare")
    told = memlm("train", "--dataset=ships.txt", *flags)
    assert "memlm train memlm/english --dataset=ships.txt" in told.out
    # Without punctuation, the text differs from the English model's text.
    write_lines(folder / "ships.txt", lines)
    assert not choose_preset("ships.txt").is_english


@pytest.fixture
def mine(folder):
    """Saves a model with the text's vocabulary to `presets/mine/small`."""
    words = memlm_keras.data.load_text(folder / "text/train.txt").vocabulary
    sizes = {"units": 8, "embedding_dim": 6, "dropout": 0.2}
    model = LM.from_preset("memlm/small", vocabulary=words, **sizes)
    model.save_to_preset(folder / "presets" / "mine" / "small")
    return model


def test_a_trained_model_is_trained_further(memlm, mine, folder):
    flags = ("--dataset=text", "--epochs=2", "--batch_size=2", "--verbose=2")
    told = memlm("train", "presets/mine/small", *flags)
    assert "presets/mine/small is trained further" in told.out
    assert f"{folder}/presets/mine/small as it was" in told.out
    run = folder / "runs" / "text-mine-small-batch_size2-seed0"
    further = keras.saving.load_model(run / "model.keras")
    assert further.vocabulary.tokens == mine.vocabulary.tokens
    assert further.dropout == 0.2
    results = results_of(run)
    assert results["learning_rate"] < 0.003
    experiment = Experiment("presets/mine/small", "text")
    batches = experiment.corpus.batches("test", 1, 100)
    before = results["comparison"]["before"]
    for model, found in ((mine, before["test"]), (further, results["test"])):
        expected = memlm_keras.evaluation.perplexity(model, batches, verbose=0)
        assert found["perplexity"] == pytest.approx(expected.perplexity, 1e-5)
    told = memlm("evaluate", run, "--verbose=0")
    assert f"test: perplexity {results['test']['perplexity']:.3f}" in told.out


def test_a_trained_model_is_no_worse_than_it_was(memlm, mine, folder):
    flags = ("--dataset=text", "--learning_rate=1", "--verbose=2")
    told = memlm("train", "presets/mine/small", *flags)
    assert "No epoch improved the model" in told.out
    run = folder / "runs" / "text-mine-small-learning_rate1-seed0"
    kept = keras.saving.load_model(run / "model.keras")
    pairs = zip(kept.trainable_weights, mine.trainable_weights, strict=True)
    for weight, expected in pairs:
        np.testing.assert_array_equal(array(weight), array(expected))
    assert results_of(run)["best_epoch"] == 0
    told = memlm("train", "presets/mine/small", *flags)
    assert "is finished, and is not trained again" in told.out


def test_a_smoothed_model_is_trained_further(memlm, mine, folder):
    words, size = mine.vocabulary, len(mine.vocabulary)
    preset = "kong2019/vs_linear_512"
    model = LM.from_preset(preset, vocabulary=words, scale=0.02)
    counts = memlm_keras.smoothing.StreamStatistics.count(range(size), size)
    model.smoothing.adapt(counts)
    model.save_to_preset("presets/theirs")
    flags = ("--dataset=text", "--epochs=1", "--verbose=2")
    told = memlm("train", "presets/theirs", *flags)
    assert "presets/theirs as it was" in told.out


TWO_WORDS = memlm_keras.data.Vocabulary(["the", "sea"])
WORDS_OF_IT = {"vocabulary": TWO_WORDS, "scale": 0.02}


@pytest.mark.parametrize(
    ("kind", "preset", "arguments", "message"),
    [
        (LM, "memlm/small", {"vocabulary_size": 9}, "has no vocabulary"),
        (LM, "tran2016/completion_birm_256", WORDS_OF_IT, "from both sides"),
        (
            memlm_keras.EntailmentClassifier,
            "weissenborn2016/lstm_attention",
            {**WORDS_OF_IT, "labels": ("yes", "no")},
            "a trained EntailmentClassifier",
        ),
    ],
)
def test_what_is_not_trained_further(
    memlm, refused, folder, kind, preset, arguments, message
):
    kind.from_preset(preset, **arguments).save_to_preset("presets/other")
    refused(message, "train", "presets/other", "--dataset=text")
    assert not (folder / "runs").exists()


def test_a_run_knows_its_first_weights(memlm, refused, mine, folder):
    flags = ("--dataset=text", "--epochs=1", "--verbose=2", "--nocompare")
    memlm("train", "presets/mine/small", *flags)
    mine.trainable_weights[0].assign(mine.trainable_weights[0] + 1.0)
    mine.save_to_preset(folder / "presets" / "mine" / "small")
    refused("other settings: weights", "train", "presets/mine/small/", *flags)
    shutil.rmtree(folder / "presets")
    refused("no preset presets/mi", "train", "presets/mine/small", *flags)


def test_a_trained_model_has_its_sizes_and_its_vocabulary(memlm, refused, mine):
    train = ("train", "presets/mine/small", "--dataset=text")
    for flag in ("--units=9", "--rate=0.5", "--training_lines=3"):
        told = memlm(*train, flag, status=2)
        assert "keeps its sizes and vocabulary" in told.err
        assert flag.strip("-") in told.err
    refused("needs a paper's preset", *train, "--as_published")
    refused("a vocabulary of its own", *train[:2], "--dataset=embedded")
    experiment = Experiment("presets/mine/small", "text", dropout=0.5)
    assert experiment.make()[0].dropout == 0.5
    assert experiment.recipe["dropout"] == 0.5


def test_texts_that_cannot_be_read(refused, folder):
    (folder / "latin.txt").write_bytes(b"caf\xe9\n" * 9)
    latin = ("latin.txt is not UTF-8", "train", "--dataset=latin.txt")
    refused(*latin)
    refused(*latin, "daniluk2017/lstm")
    lines = ("--dataset=text", "--training_lines=9999")
    refused("`lines` must be from 1 to", "train", "daniluk2017/lstm", *lines)


def test_pieces_that_cannot_be_counted(memlm, refused, folder):
    words = memlm_keras.data.SubwordVocabulary(["<unk>", "</s>", *PIECES])
    sizes = {"units": 8, "embedding_dim": 6}
    model = LM.from_preset("memlm/small", vocabulary=words, **sizes)
    model.save_to_preset("presets/pieces")
    train = ("train", "presets/pieces", "--dataset=text", "--epochs=1")
    refused("the id 0. Received: the id 1", *train, "--compare")
    memlm(*train, "--verbose=2")
    run = folder / "runs" / "text-presets-pieces-seed0"
    assert "comparison" not in results_of(run)


# === The comparison ===


@pytest.fixture
def compared(folder):
    """Returns an experiment, its model, and their comparison."""
    write_lines(folder / "text.txt", sentences(120))
    experiment = Experiment(
        "daniluk2017/lstm", str(folder / "text.txt"), scale=0.02, batch_size=4
    )
    model, _ = experiment.make()
    return experiment, model, comparison.compare(experiment, model, {}, 0, {})


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_comparison_with_counting(compared):
    experiment, model, found = compared
    corpus = experiment.corpus
    counted = memlm_keras.ngrams.KneserNey(len(corpus.vocabulary), order=5)
    counted.fit(corpus.train, verbose=0)
    for split in ("validation", "test"):
        expected = counted.perplexity(getattr(corpus, split), verbose=0)
        assert found["kneser_ney"][split]["perplexity"] == pytest.approx(
            expected.perplexity
        )
    assert found["unigram"]["test"]["perplexity"] < len(corpus.vocabulary)
    # The cache reads the running text, also if the model reads sentences.
    cached = memlm_keras.ngrams.with_cache(counted, corpus.validation)
    by_sentence = Experiment(
        "tran2016/lstm_1", experiment.dataset.name, scale=0.02
    )
    reader, _ = by_sentence.make()

    def scores(split):
        batches = evaluation_batches(by_sentence, reader, split)
        by_counts = cached.score(getattr(corpus, split))
        return [-token_losses(reader, batches), by_counts]

    share, _ = mixture_weights(scores("validation"))
    logs = np.log([share, 1 - share])[:, None] + scores("test")
    mean = np.logaddexp(*logs).mean()
    compared = comparison.compare(by_sentence, reader, {}, 0, {})
    found_again = compared["averaged"]["test"]["perplexity"]
    assert found_again == pytest.approx(np.exp(-mean), rel=1e-5)
    averaged = found["averaged"]["test"]["perplexity"]
    assert averaged < 1.1 * found["kneser_ney_with_cache"]["test"]["perplexity"]


def test_bits_of_words_and_characters(compared):
    experiment, model, _ = compared
    found = experiment.measure(model)["test"]
    lines = pathlib.Path("text.txt").read_text().splitlines(keepends=True)
    text = "".join(lines[-6:])
    spelling = found["spelling_bits_per_word"] * len(text.split())
    assert spelling == 0
    bits = found["loss"] / np.log(2) + spelling
    assert found["bits_per_word"] == pytest.approx(bits / len(text.split()))
    assert found["bits_per_character"] == pytest.approx(bits / len(text))


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_pieces_of_words(folder):
    write_lines(folder / "text.txt", sentences(120))
    experiment = Experiment("memlm/small", str(folder / "text.txt"), scale=0.02)
    vocabulary = memlm_keras.data.SubwordVocabulary(["</s>", "<unk>", *PIECES])
    experiment = experiment.with_corpus(experiment.dataset.load(vocabulary))
    generate = experiment.examples("RUN")[0]
    assert "▁" not in generate
    assert set(generate.split('"')[1].split()) <= {*WORDS, "ma", "sa", "se"}
    model, _ = experiment.make()
    found = comparison.compare(experiment, model, {}, 0, {})
    results = {"preset": "memlm/small", "test": {"perplexity": 9.0}}
    head, *lines = comparison.describe({**results, "comparison": found})
    assert "over pieces of words (if vocabularies differ, compare bits" in head
    assert not any(line.startswith("Words") for line in lines)


def test_the_output_layer_reads_a_text_once(compared, monkeypatch):
    experiment, model, _ = compared
    monkeypatch.setattr(type(model), "score_batches", None)
    monkeypatch.setattr(type(model.head), "token_losses", None)
    measured = experiment.measure(model)["test"]["loss"]
    asked = {"cache_size": 5}
    found = measurements._with_cache(experiment, model, asked, 0, {})
    monkeypatch.undo()
    cache = NeuralCache(5, found["theta"], found["weight"])
    cached = model.with_mixture(cache)
    for split in ("validation", "test"):
        batches = experiment.corpus.batches(split, 1, 100)
        expected = memlm_keras.evaluation.perplexity(cached, batches, verbose=0)
        for name in ("perplexity", "loss", "predicted_tokens"):
            value = getattr(expected, name)
            assert found[split][name] == pytest.approx(value, rel=1e-5)
    plain = memlm_keras.evaluation.perplexity(model, batches, verbose=0)
    assert measured == pytest.approx(plain.loss, rel=1e-5)
    # `scores` does not return the stored scores of another model.
    scores, weights = experiment.scores(cached, "test")
    assert -np.sum(scores * weights) == pytest.approx(expected.loss, rel=1e-5)


def test_words_that_were_gained_most():
    vocabulary = memlm_keras.data.Vocabulary(["sea", "man", "old", "the"])
    sea, man, old, the = vocabulary.encode(["sea", "man", "old", "the"])
    words = np.array([sea] * 4 + [man] * 3 + [old] * 2 + [the] * 9)
    bits = np.array([1.0] * 4 + [2.0] * 3 + [9.0] * 2 + [0.04] * 9)
    found = comparison._gained(vocabulary, words, np.log(2) * bits)
    # The list omits `old`, which is too rare, and `the`, which gains little.
    assert [word for word, *_ in found] == ["man", "sea"]
    assert [count for _, count, _ in found] == [3, 4]
    assert [bits for *_, bits in found] == pytest.approx([2.0, 1.0])


@pytest.mark.parametrize(
    ("alone", "cached", "best_epoch", "said", "not_said"),
    [
        (90, 0, 9, "behind Kneser-Ney (|later ones were no", "more --epochs"),
        (90, 0, 12, "Its last epoch was the best: more --epochs", "no better"),
        (90, 50, 9, "with a cache is ahead of Kneser-Ney with a", "epochs"),
        (90, 75, 9, "behind Kneser-Ney with a cache (75.0|no better", "ahead"),
        (60, 50, 9, "", "behind|epochs"),
    ],
)
def test_advice_where_it_can_help(alone, cached, best_epoch, said, not_said):
    said, not_said = said.split("|"), not_said.split("|")

    def perplexity(value):
        return {"test": {"perplexity": float(value)}}

    results = {
        "preset": "memlm/small",
        **perplexity(alone),
        "epochs": 12,
        "best_epoch": best_epoch,
        "cache": perplexity(cached) if cached else None,
        "comparison": {
            "unigram": perplexity(300.0),
            "kneser_ney": perplexity(80.0),
            "kneser_ney_with_cache": perplexity(70.0),
            "averaged": perplexity(75.0),
            "gained": [["sea", 4, 1.0]],
            "generated": [],
        },
    }
    text = "\n".join(comparison.describe(results))
    assert "the bits saved each time: 'sea' (1.0, 4 times)" in text
    text = text.partition("averaged")[2].partition("Words")[0]
    assert all(each in text for each in said), text
    assert not any(each in text for each in not_said), text
    assert "without a preset" not in text
    results["preset"] = "daniluk2017/lstm"
    text = "\n".join(comparison.describe(results))
    assert ("without a preset" in text) == (len(said) == 2 or not cached)
