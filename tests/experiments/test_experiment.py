"""Tests experiments in Python: datasets, settings, measures and pictures."""

import copy
import pathlib

import keras
import numpy as np
import pytest
from corpus_files import PARSED
from corpus_files import WORDS
from corpus_files import machine_form
from corpus_files import write_documents
from corpus_files import write_file
from corpus_files import write_treebank
from written_files import read_csv

import memlm_keras
from memlm_keras.evaluation.dynamic import RATES
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import comparison
from memlm_keras.experiments import datasets
from memlm_keras.experiments import language_model
from memlm_keras.experiments.options import NoUseError
from memlm_keras.experiments.options import UsageError
from memlm_keras.presets import match_parameters

SMALL = {"scale": 0.02, "batch_size": 4}


def test_an_experiment_is_described_by_plain_values(folder):
    experiment = Experiment(
        "key_value_predict", "text", dropout="0.5", tokenize=None, **SMALL
    )
    assert experiment.preset_name == "daniluk2017/key_value_predict"
    assert experiment.name == (
        "text-daniluk2017-key_value_predict-scale0.02-dropout0.5-batch_size4-"
        "seed0"
    )
    assert experiment.recipe == {
        "preset": "daniluk2017/key_value_predict",
        **{"dataset": "text", "seed": 0, "dropout": 0.5, **SMALL},
    }
    again = Experiment(**experiment.recipe)
    assert again.settings == experiment.settings
    assert copy.copy(experiment).name == experiment.name
    assert experiment.settings["vocabulary_size"] == 2 + len(WORDS)
    assert experiment.settings["learning_rate"] == 0.001


def test_models_are_trained_without_the_cache_chosen_afterwards():
    experiment = Experiment("grave2017/ptb_cache_500", "embedded", scale=0.02)
    model, _ = experiment.make()
    assert experiment.preset["cache"]["size"] == 500 and model.mixture is None


def test_matched_parameters(folder):
    matched = {"match_parameters": True, "scale": 0.05}
    experiment = Experiment("daniluk2017/ngram_3", "text", **matched)
    size = len(experiment.corpus.vocabulary)
    lstm = memlm_keras.LanguageModel.from_preset(
        "daniluk2017/lstm", vocabulary_size=size, scale=0.05
    )
    units = match_parameters(
        lstm.count_params(), "daniluk2017/ngram_3", size, embedding_dim=15
    )
    assert experiment.settings["units"] == units
    model, _ = experiment.make()
    assert model.recurrent[-1].units == units
    larger = Experiment("daniluk2017/rm_tm_gated", "text", **matched)
    assert larger.settings["units"] == 15
    for other in ({"units": 9}, {"memory": "key_value_predict"}):
        with pytest.raises(UsageError, match="of the preset's own model. Rec"):
            Experiment("daniluk2017/lstm", "text", **matched, **other).make()
    with pytest.raises(UsageError, match="models with the same number"):
        Experiment("tran2016/lstm_1", "text", match_parameters=True).make()


def test_one_file_is_split_as_load_text_does(folder, capsys):
    write_file(folder / "mine.txt", 83)
    experiment = Experiment("daniluk2017/lstm", "mine.txt")
    corpus = experiment.corpus
    same = memlm_keras.data.load_text("mine.txt")
    assert corpus.fingerprint == same.fingerprint
    told = capsys.readouterr().out
    assert told.startswith(f"{same.description}\nThe vocabulary has 8 words")
    assert "1 to 75 are train" in told and "80 to 83 are test" in told
    # `whale` is the only word that occurs once.
    assert "whale" not in corpus.vocabulary
    assert corpus.name == "mine"
    kept = Experiment("daniluk2017/lstm", "mine.txt", minimum_count=1)
    assert "whale" in kept.corpus.vocabulary
    assert len(corpus.vocabulary) == len(kept.corpus.vocabulary) - 1
    capsys.readouterr()
    first = Experiment("daniluk2017/lstm", "mine.txt", training_lines=1)
    told, size = capsys.readouterr().out, len(first.corpus.vocabulary)
    told += capsys.readouterr().out
    assert told.count("vocabulary has") == 1 and f"has {size} words" in told


def test_three_files_are_the_three_splits(folder):
    files = [f"text/{name}.txt" for name in ("train", "valid", "test")]
    three = Experiment("daniluk2017/lstm", ",".join(files))
    whole = Experiment("daniluk2017/lstm", "text")
    assert three.corpus.fingerprint == whole.corpus.fingerprint
    assert three.name == whole.name


def test_documents_that_are_read_as_one_text(folder, capsys):
    write_documents(folder / "documents")
    sizes = {"documents": False, "scale": 0.02, "batch_size": 4}
    across = Experiment("daniluk2017/rnn", "documents", **sizes)
    assert across.settings["documents"] is False
    assert "-documentsFalse" in across.name
    across.training_batches(across.make()[0])
    assert "reads them as one text; with --documents" in capsys.readouterr().out


@pytest.mark.parametrize("rows, told", [(4, False), (40, True)])
def test_documents_that_do_not_fill_the_rows(folder, capsys, rows, told):
    write_documents(folder / "documents")
    sizes = {"scale": 0.02, "batch_size": rows}
    experiment = Experiment("daniluk2017/rnn", "documents", **sizes)
    model, _ = experiment.make()
    batches, _ = experiment.training_batches(model)
    weights = np.concatenate([batch[2].ravel() for batch in batches])
    empty = f"so {np.mean(weights == 0):.0%} of an epoch is padding"
    out = capsys.readouterr().out
    assert (f"documents in {rows} rows, {empty}" in out) is told
    assert ("--nodocuments" in out) is told


@pytest.mark.parametrize(
    "preset, dataset, documents",
    [
        ("daniluk2017/lstm", "text", False),
        ("daniluk2017/lstm", "documents", True),
        ("tran2016/lstm_1", "text", None),
        ("tran2016/completion_birm_256", "text", None),
    ],
)
def test_each_split_is_measured_on_its_text(preset, dataset, documents, folder):
    write_documents(folder / "documents")
    experiment = Experiment(preset, dataset, scale=0.02, batch_size=4)
    assert experiment.settings.get("documents") is documents
    model, _ = experiment.make()
    for split in ("validation", "test"):
        batches = datasets.evaluation_batches(experiment, model, split)
        text = getattr(experiment.corpus, split).tokens
        np.testing.assert_array_equal(batches.tokens, text)


@pytest.mark.parametrize("name", ["notes.conllu", "zz-ud-dev.conllu"])
def test_a_folder_that_holds_no_whole_treebank(name, folder):
    write_treebank(folder / "bank")
    dev = folder / "bank" / "xx_y-ud-dev.conllu"
    dev.rename(dev.with_name(name))
    message = f"must hold one treebank.*NAME-ud-dev.conllu.*{name}"
    with pytest.raises(UsageError, match=message):
        Experiment("tran2016/lstm_1", "bank")


def test_all_analyses_of_a_finished_run(memlm, folder):
    flags = "--dataset=text --scale=0.05 --batch_size=4 --verbose=2 --epochs=1"
    flags += " --analyses=columns,pairs --columns=9"
    memlm("train", "tran2016/rm_tm_gated", *flags.split())
    (run,) = (folder / "runs").iterdir()
    assert len(read_csv(run / "attention_columns.csv")) == 9
    means = read_csv(run / "distant_pairs_by_distance.csv")
    assert [row["distance"] for row in means] == [str(d) for d in range(7, 16)]
    trained = (run / "model.keras").read_bytes()
    (folder / "parsed.conllu").write_text(PARSED)
    flags = ("--analyses=predictions,dependencies", "--conllu=parsed.conllu")
    told = memlm("attention", run, "the grey sea", *flags, "--verbose=2")
    assert "Words not in the vocabulary: grey\n" in told.out
    assert "1 sentences, 5 words; 40.0% of them are not in" in told.out
    assert (run / "model.keras").read_bytes() == trained
    read = [row["read"] for row in read_csv(run / "sentence_predictions.csv")]
    assert read == ["<eos>", "the", "<unk>", "sea"]
    pairs = {
        (row["dependency"], row["nearest"]): int(row["pairs"])
        for row in read_csv(run / "dependency_attention.csv")
    }
    assert pairs["det←", "2"] == pairs["amod←", "1"] == 1


def test_a_smoothed_model_with_all_predictions(folder, few_segments):
    parts = {"memory": "key_value_predict", "window": 3, "other_words": "mode"}
    sizes = {"scale": 0.016, "batch_size": 4, "rate": 0.3, "l2": 0.001}
    preset = "kong2019/vs_kneser_ney_512"
    experiment = Experiment(preset, "text", **sizes, **parts)
    measures = {"samples": 2, "dynamic": True, "cache_size": 5}
    found = experiment.run("run", epochs=1, verbose=0, measures=measures)
    assert found["dynamic"]["rate"] in RATES["rms"]
    both, cache = found["dynamic_with_cache"], found["cache"]
    for name in ("size", "theta", "weight"):
        assert both[name] == cache[name]
    assert both["test"]["perplexity"] != found["dynamic"]["test"]["perplexity"]
    for split in ("validation", "test"):
        count, dynamic = found[split]["predicted_tokens"], found["dynamic"]
        assert dynamic[split]["predicted_tokens"] == count
        assert "by the rule rms, rate=" in dynamic[split]["protocol"]
        assert cache[split]["predicted_tokens"] == count
        nats = cache[split]["loss"] / count
        assert cache[split]["perplexity"] == pytest.approx(np.exp(nats))
    assert (found["rate"], found["l2"]) == (0.3, 0.001)
    assert found["segment_length"] == 35 and found["most_epochs"] == 1
    kinds = ("validation", "by_mode", "by_samples")
    assert len({found[kind]["perplexity"] for kind in kinds}) == 3
    model = memlm_keras.experiments.RunFolder("run").model()
    assert model.smoothing.rate == 0.3 and model.memory.window == 3
    assert model.smoothing.other_words == found["other_words"] == "mode"
    assert model.recurrent[-1].cell.units == 3 * model.embedding_dim


def test_l2_of_a_noised_model_and_dropout(folder):
    row = ("kong2019/dn_linear_512", "text")
    plain = Experiment(*row, scale=0.016)
    assert plain.settings["l2"] == 1e-4 and plain.settings["rate"] == 0.2
    changed = Experiment(*row, scale=0.016, l2=0.01, dropout=0.3)
    assert changed.settings["l2"] == 0.01
    model, _ = changed.make()
    assert model.smoothing is None
    found = plain.run("run", epochs=1, verbose=0, measures={"samples": 2})
    validation, by_mode, by_samples = (
        found[kind]["perplexity"]
        for kind in ("validation", "by_mode", "by_samples")
    )
    assert by_mode == validation != by_samples
    assert model.embedding.embeddings_regularizer.l2 == pytest.approx(0.01)
    with pytest.raises(NoUseError, match="zaremba2014/small has no l2.*l2=0.1"):
        Experiment("zaremba2014/small", "text", l2=0.1)
    rates = [layer.rate for layer in model.backbone.dropouts]
    assert rates == [0.3, 0.0, 0.3]


def test_sentence_completion_by_a_bidirectional_model(folder):
    experiment = Experiment(
        "tran2016/completion_birm_256", "text", scale=0.05, batch_size=4
    )
    (example,) = experiment.examples("run")
    assert example.startswith("memlm score run ")
    measures = {n: str(folder / f"{n}.txt") for n in ("questions", "answers")}
    texts = [
        ("the {} sea", ("old", "man", "saw", "a", "the"), 0),
        ("a man {} the sea", ("saw", "old", "sea", "a", "the"), 0),
        # No candidate of this question occurs in the text.
        ("the {} man", ("tall", "wide", "thin", "kind", "mute"), 0),
    ]
    for path, text in zip(measures.values(), machine_form(texts)):
        pathlib.Path(path).write_text(text)
    found = experiment.run("run", epochs=1, verbose=0, measures=measures)
    answered = found["completion"]
    assert answered["accuracy"] == answered["correct"] / 3
    assert answered["questions"] == 3 and answered["unknown_answers"] == 1
    assert "the words before and after it" in answered["protocol"]
    assert "NO PERPLEXITY" in found["validation"]["protocol"]
    assert found["dropout"] == {"between": 0.3, "outputs": 0.3}
    for wrong, message in (
        ({"questions": "x"}, "both --questions and --answers"),
        ({"questions": "x", "answers": "y"}, "no file --questions=x"),
    ):
        with pytest.raises(UsageError, match=message):
            experiment.run("other", measures=wrong)
    assert not (folder / "other").exists()


POINTER = "merity2017/ptb_pointer_sentinel"


@pytest.mark.parametrize(
    "preset, measures, message",
    [
        (POINTER, {"cache_size": 3}, "without a mixture"),
        (POINTER, {"monte_carlo": 3}, "monte_carlo cannot read"),
        ("zaremba2014/small", {"monte_carlo": 3}, "needs a model with dropout"),
        ("kong2019/vanilla_tied_512", {"samples": 3}, "needs a smoothed or a"),
    ],
)
def test_unmeasurable_models_are_not_trained(preset, measures, message, folder):
    experiment = Experiment(preset, "text", **SMALL)
    with pytest.raises(UsageError, match=message):
        experiment.run("run", measures=measures)
    experiment.make = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        experiment.run("run")
    assert not (folder / "run").exists()


def test_a_part_of_a_long_text_is_validated_on(folder, capsys):
    experiment = Experiment("memlm/small", "text", **SMALL)
    assert experiment.preset["validation_tokens"] == 50_000
    _, validation = experiment.training_batches(None)
    tokens = experiment.corpus.validation.tokens
    count = sum(int(weights.sum()) for *_, weights in validation)
    assert count == len(tokens) > 43
    assert "After each epoch" not in capsys.readouterr().out

    experiment.preset["validation_tokens"] = 43
    _, validation = experiment.training_batches(None)
    assert f"40 of the {len(tokens)} validation" in capsys.readouterr().out
    ((_, targets, weights),) = validation
    assert weights.sum() == 40
    for row, found in enumerate(targets):
        place = row * (len(tokens) // 4)
        np.testing.assert_array_equal(found[:10], tokens[place : place + 10])


def test_a_rate_that_falls_from_batch_to_batch(folder, monkeypatch):
    made, schedules = [], keras.optimizers.schedules
    original = schedules.PolynomialDecay

    def decay(*arguments, **named):
        made.append(original(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(schedules, "PolynomialDecay", decay)
    experiment = Experiment("memlm/small", "text", linear_decay=2, **SMALL)
    whole = experiment.run("whole", epochs=2, verbose=0)
    assert experiment.run("parts", epochs=1, verbose=0)["epochs"] == 1
    parts = experiment.run("parts", epochs=2, verbose=0)
    assert parts["test"]["loss"] == pytest.approx(whole["test"]["loss"])
    rates = [float(row["learning_rate"]) for row in read_csv("parts/log.csv")]
    assert rates == pytest.approx([0.0015, 0.0])
    steps = experiment.corpus.batches("train", 4, 35).batches_per_epoch
    assert len(made) == 3
    for schedule in made:
        rates = [float(schedule(step)) for step in (0, steps, 2 * steps)]
        assert rates == pytest.approx([0.003, 0.0015, 0.0])
    for other in ({"halve_after": 1}, {"halve": True}):
        with pytest.raises(UsageError, match="Give only one of"):
            Experiment("memlm/small", "text", linear_decay=2, **other)


@pytest.mark.parametrize(
    "preset", ["salton2017/ptb_single", "daniluk2017/key_value_predict"]
)
def test_any_row_halves_its_rate(folder, preset):
    experiment = Experiment(preset, "text", halve=True, **SMALL)
    model, callbacks = experiment.make()
    (halving,) = callbacks
    assert isinstance(halving, keras.callbacks.ReduceLROnPlateau)
    assert (halving.factor, halving.monitor) == (0.5, "val_perplexity")
    rate = experiment.settings["learning_rate"]
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)
    assert experiment.name.endswith("-halveTrue-seed0")
    adam = Experiment(preset, "text", optimizer="adam", **SMALL)
    model, _ = adam.make()
    assert type(model.optimizer).__name__ == "FusedAdam"
    assert adam.settings["learning_rate"] == 0.003
    own = Experiment("memlm/small", "text", halve=False, **SMALL)
    assert own.make()[1] == []


def test_a_monte_carlo_average_and_a_rate_that_is_halved(folder):
    experiment = Experiment("gal2016/medium", "text", halve_after=1, **SMALL)
    measures = {"monte_carlo": 3}
    found = experiment.run("run", epochs=2, verbose=0, measures=measures)
    model = memlm_keras.experiments.RunFolder("run").model()
    batches = experiment.corpus.batches("test", 1, 100)
    measure = memlm_keras.evaluation.monte_carlo_perplexity
    expected = measure(model, batches, samples=3, verbose=0)
    assert found["monte_carlo"]["test"]["perplexity"] == pytest.approx(
        expected.perplexity, rel=1e-4
    )
    rates = [float(row["learning_rate"]) for row in read_csv("run/log.csv")]
    assert rates[1] < rates[0]


def test_how_often_a_run_is_kept(folder, monkeypatch):
    saved = []
    save = memlm_keras.training.Checkpoint.save

    def counted(self, epoch, batch):
        saved.append((epoch, batch))
        save(self, epoch, batch)

    monkeypatch.setattr(memlm_keras.training.Checkpoint, "save", counted)
    experiment = Experiment("lstm_1", "text", length_multiple=3, **SMALL)
    experiment.run("run", epochs=1, verbose=0, checkpoint_frequency=2)
    assert saved[:2] == [(0, 2), (0, 4)] and saved[-1] == (1, 0)
    validation = datasets.sentence_batches(experiment, "validation")
    assert {batch[1].shape[1] % 3 for batch in validation} == {0}


def test_an_autoencoder(folder):
    sizes = {"scale": 0.06, "batch_size": 8}
    experiment = Experiment("dual_am_gru_autoencoder", "text", **sizes)
    found = experiment.run("run", epochs=1, verbose=0, measures={"beams": 2})
    assert found["longest"] == 30 and found["test"]["sequences"] == 20
    for split in ("validation", "test"):
        text = getattr(experiment.corpus, split)
        assert found[split]["tokens"] == len(text.tokens)
    assert found["test_by_beams"]["beams"] == 2
    again = experiment.run("run", verbose=0, measures={"beams": 3})
    assert again["test_by_beams"]["beams"] == 3
    assert again["test"] == found["test"]
    rows = read_csv("run/associations.csv")
    assert list(rows[0])[-1] == "<eos>" and rows[0]["read at"] == "<eos>"


@pytest.mark.filterwarnings("ignore:Counts of counts")
def test_a_model_of_frequencies_is_told_of(folder, capsys):
    experiment = Experiment("daniluk2017/lstm", "text", **SMALL)
    corpus = experiment.corpus
    experiment.run("run", epochs=1, verbose=2)
    told = capsys.readouterr().out
    counts = memlm_keras.ngrams.KneserNey(len(corpus.vocabulary), order=1)
    counts.fit(corpus.train, verbose=0)
    frequencies = counts.perplexity(corpus.test, verbose=0).perplexity
    assert f"that of the frequencies is {frequencies:.1f}." in told
    # The options include `batch_size`, and the last epoch is the best.
    flags = "--halve, a larger --initial_range"
    assert f"Try {flags} or more --epochs." in told
    for share, said in ((0.5, ""), (0.9, "little better"), (1.1, "worse")):
        found = {"test": {"perplexity": share * frequencies}}
        found |= {"epochs": 2, "best_epoch": 1}
        given = "memlm train --initial_range=0.5 --batch_size=2"
        comparison.warn_if_little_is_learned(experiment, found, given)
        told = capsys.readouterr().out
        assert said in told and bool(told) == bool(said)
        assert not said or told.endswith("Try --halve.\n")


OWN, MEMN, ADAM = "memlm/small", "tran2016/memn", "--optimizer=adam"
FIXED = {"halve": False, "batch_size": 5}


@pytest.mark.filterwarnings("ignore:Counts of counts")
@pytest.mark.parametrize(
    "preset, chosen, typed, best, compared, advice",
    [
        # The preset uses Adam, and the command chose `halve`, so only more
        # epochs can help.
        ("daniluk2017/lstm", {"halve": True}, "", 2, False, "more --epochs"),
        ("daniluk2017/lstm", {"halve": True}, "", 2, True, None),
        (OWN, {}, "", 1, False, "a smaller --batch_size or a larger"),
        (OWN, {}, "--learning_rate=9", 2, False, "a larger --learning_rate or"),
        (MEMN, {}, "--halve", 1, True, "--optimizer=adam, a smaller"),
        # The user gave both settings, so the command chose neither.
        (MEMN, FIXED, "--nohalve --batch_size=5", 2, True, f"{ADAM} or a larg"),
    ],
)
def test_advice_is_of_what_was_not_tried(
    folder, capsys, preset, chosen, typed, best, compared, advice
):
    experiment = Experiment(preset, "text", **chosen)
    found = {"test": {"perplexity": 99.0}, "epochs": 2, "best_epoch": best}
    command = f"memlm train {typed}"
    comparison.warn_if_little_is_learned(experiment, found, command, compared)
    told = capsys.readouterr().out
    assert "worse than word frequencies" in told
    assert f"Try {advice}" in told if advice else "Try" not in told


@pytest.mark.parametrize("limit, said", [(2**30, False), (99, True)])
def test_long_sentences_are_warned_of(limit, said, folder, capsys, monkeypatch):
    monkeypatch.setattr(language_model, "LARGE_LOGITS", limit)
    experiment = Experiment("tran2016/lstm_1", "text", scale=0.05)
    model, _ = experiment.make()
    experiment.training_batches(model)
    assert ("logits of 20 such rows" in capsys.readouterr().out) == said
