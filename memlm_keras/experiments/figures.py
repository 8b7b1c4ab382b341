"""Draws the attention of trained models, learning curves and line plots."""

import math
import pathlib

import numpy as np

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras.experiments import options
from memlm_keras.experiments.datasets import evaluation_batches
from memlm_keras.experiments.tables import report

MEAN_ATTENTION, CURVE = "mean_attention.csv", "curve.png"
_PASSAGE = 24
_COLUMNS = 100
_LONGEST = 20  # Maximum words in an automatically chosen sentence.
# Minimum distance of an attended word ("more than six positions to the left").
_NEAREST = 7
_DEPENDENCIES_DRAWN = 24
# Cells with fewer pairs than this stay white: their means are mostly noise.
_FEWEST_PAIRS = 10


def check_pictures(experiment, pictures):
    """Raises `UsageError` for pictures that the experiment cannot draw."""
    names = analyses_of(pictures)
    for option, name in (("columns", "columns"), ("conllu", "dependencies")):
        if option in pictures and name not in names:
            raise options.UsageError(f"{option} needs analyses={name}.")
    if "sentence" in pictures and not pictures["sentence"].split():
        raise options.UsageError("sentence must hold at least one word.")
    if ("premise" in pictures) != ("hypothesis" in pictures):
        raise options.UsageError("Give both --premise and --hypothesis.")
    if not names:
        return
    memory = experiment.preset.get("model", {}).get("memory")
    if memory is None or "Bidirectional" in memory["class_name"]:
        raise options.UsageError(
            "analyses need a model with a memory that attends to earlier "
            "tokens, such as tran2016/rm_tm_gated. Received: "
            f"preset={experiment.preset_name}"
        )
    window = memory["config"].get("window", _NEAREST)
    if "pairs" in names and window < _NEAREST:
        raise options.UsageError(
            f"analyses=pairs needs a window of at least {_NEAREST}. Received: "
            f"window={window}"
        )
    if "dependencies" in names:
        _parses(experiment, pictures)


def analyses_of(pictures):
    """Returns the names of the requested analyses, or raises `UsageError`."""
    names = [n for n in pictures.get("analyses", "").split(",") if n]
    for name in names:
        if name not in ANALYSES:
            raise options.UsageError(
                f"analyses must be among {', '.join(ANALYSES)}. Received: "
                f"{name!r}.{options.nearest(name, ANALYSES)}"
            )
    return names


def draw_language_model(experiment, model, folder, pictures, verbose=1):
    """Draws a model's attention and the requested analyses; returns the paths.
    Draws nothing if the model is not causal or does not attend to tokens."""
    if model.attending is None or not model.causal:
        return []
    corpus = experiment.corpus
    name = experiment.preset_name.rpartition("/")[2]
    title = f"{name} on {corpus.name}"
    batches = evaluation_batches(experiment, model, "test")
    drawn = [folder / "attention.png"]
    tokens = _passage(corpus, batches, pictures.get("passage", _PASSAGE))
    # Memory slots from before the passage are empty.
    weights = model.attention(tokens[None])[0][:, -len(tokens) :]
    memlm.analysis.plot_attention(
        weights,
        corpus.vocabulary.decode(tokens),
        drawn[0],
        title=title,
        steps_back=model.attending.steps_back,
    )
    drawn += _draw_mean(model, name, corpus, batches, folder)
    if "sentence" in pictures or experiment.preset["data"].get("sentences"):
        path = folder / "sentence_attention.png"
        draw_sentence({name: model}, corpus, path, pictures.get("sentence"))
        drawn.append(path)
    for each in analyses_of(pictures):
        draw, name = ANALYSES[each]
        drawn.append(folder / f"{name}.png")
        draw(experiment, model, title, drawn[-1], pictures, verbose)
    return drawn


def draw_sentence(models, corpus, path, sentence=None):
    """Draws a PNG file of the attention of several models over one sentence.
    `models` maps names to models."""
    words = drawn_words(corpus, sentence)
    found = {
        name: memlm.analysis.sentence_predictions(
            model, words, corpus.vocabulary
        )
        for name, model in models.items()
    }
    memlm.analysis.plot_sentence_attention(found, path)


def drawn_words(corpus, sentence=None):
    """Returns the words of `sentence`. By default, chooses the longest sentence
    of the test text with at most 20 words, all in the vocabulary."""
    vocabulary = corpus.vocabulary
    unknown = vocabulary.unknown_id
    if sentence is not None:
        given = vocabulary.tokenizer.tokenize(sentence)
        known = vocabulary.encode(given) != unknown
        if not known.all():
            lacking = [word for word, has in zip(given, known) if not has]
            print("Words not in the vocabulary:", " ".join(lacking))
        return given
    tokens = np.asarray(corpus.test.tokens)

    def preference(found):
        short = len(found) <= _LONGEST + 1
        length = len(found) if short else -len(found)
        return short, unknown not in found, length

    ends = np.flatnonzero(tokens == vocabulary.end_of_sentence_id)
    chosen = max(np.split(tokens, ends[:-1] + 1), key=preference)
    return vocabulary.decode(chosen[:-1])


def draw_lines(panels, path, x_label, y_label):
    """Draws line plots, `{title: {label: {x: summary}}}`, in one PNG file."""
    # `pictures` imports Keras, which a finished run does not need.
    from memlm_keras.analysis import pictures

    figure, grid = pictures.subplots(
        5.5 * len(panels), 4, 1, len(panels), squeeze=False
    )
    labels = list(dict.fromkeys(label for p in panels.values() for label in p))
    for axes, (title, lines) in zip(grid[0], panels.items()):
        for label, line in lines.items():
            places, points = zip(*sorted(line.items()))
            deviations = [point.standard_deviation for point in points]
            axes.errorbar(
                places,
                [point.mean for point in points],
                None if None in deviations else deviations,
                label=label,
                # The same model has the same colour in every panel.
                color=f"C{labels.index(label)}",
                marker="o",
                capsize=3,
            )
            axes.set_xticks(sorted(set().union(*lines.values())))
        axes.set_title(title)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if lines:
            axes.legend()
    pictures.save(figure, path)


def draw_curve(log, monitor, path, title):
    """Draws the learning curve of a metric on the training and validation text,
    and marks the best epoch."""
    from memlm_keras.analysis import pictures

    figure, axes = pictures.subplots(6, 4)
    from matplotlib import ticker

    epochs = [1 + int(row["epoch"]) for row in log]
    metric = monitor.removeprefix("val_")
    shown = []
    for label, name in (("training", metric), ("validation", monitor)):
        if name in log[0]:
            values = [row[name] for row in log]
            axes.plot(epochs, values, "o-", markersize=4, label=label)
            shown += filter(math.isfinite, values)
    places = [i for i, row in enumerate(log) if math.isfinite(row[monitor])]
    if places:
        best = report.better(monitor)(places, key=lambda i: log[i][monitor])
        value = log[best][monitor]
        axes.axvline(epochs[best], color="grey", linestyle=":", zorder=0)
        label = f"best: epoch {epochs[best]}, {value:.4g}"
        axes.plot(epochs[best], value, "*k", markersize=12, label=label)
    if shown and min(shown) > 0 and not metric.endswith("accuracy"):
        # On a linear scale, a first perplexity of thousands flattens the rest.
        axes.set_yscale("log")
        narrow = max(shown) < 4 * min(shown)
        axes.yaxis.set_major_locator(
            ticker.MaxNLocator(5)
            if narrow
            else ticker.LogLocator(subs=(1, 2, 5))
        )
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.xaxis.set_major_locator(
        ticker.MaxNLocator(integer=True, min_n_ticks=1)
    )
    axes.set_xlim(epochs[0] - 0.5, epochs[-1] + 0.5)
    axes.set_xlabel(
        "epoch\ntraining: mean over the epoch, with any dropout; validation: "
        "after it, without",
        fontsize=8,
    )
    axes.set_ylabel(metric)
    axes.legend(fontsize=8)
    pictures.save(figure, path, axes, pictures.literal(title))


def _passage(corpus, batches, length):
    """Returns the first tokens of the test text, or of its first sentence."""
    tokens = corpus.test.tokens
    if getattr(batches, "context_of", None) == "sentence":
        # A sentence model reads an end token, then one sentence.
        end = corpus.vocabulary.end_of_sentence_id
        first = tokens[: np.flatnonzero(tokens == end)[0]]
        tokens = np.concatenate([[end], first])
    return np.asarray(tokens[:length])


def _draw_mean(model, name, corpus, batches, folder):
    try:
        mean = memlm.analysis.mean_attention(model, batches)
    except ValueError as error:
        print(f"There is no picture of mean attention. {error}")
        return []
    rows = ((n - len(mean), f"{share:.8f}") for n, share in enumerate(mean))
    files.write_csv(folder / MEAN_ATTENTION, ["position", "weight"], rows)
    path = folder / "mean_attention.png"
    memlm.analysis.plot_mean_attention(
        {name: mean}, path, title=f"Mean attention, test text of {corpus.name}"
    )
    return [path]


def _draw_columns(experiment, model, title, path, pictures, verbose):
    corpus = experiment.corpus
    end = corpus.vocabulary.end_of_sentence_id
    words = np.count_nonzero(corpus.test.tokens != end)
    columns = memlm.analysis.attention_columns(
        model,
        corpus.test,
        corpus.vocabulary,
        samples=min(pictures.get("columns", _COLUMNS), words),
        seed=experiment.seed,
        verbose=int(verbose == 1),
    )
    memlm.analysis.plot_attention_columns(columns, path, title)
    memlm.analysis.write_attention_columns(columns, path.with_suffix(".csv"))


def _draw_predictions(experiment, model, title, path, pictures, verbose):
    corpus = experiment.corpus
    words = drawn_words(corpus, pictures.get("sentence"))
    found = memlm.analysis.sentence_predictions(model, words, corpus.vocabulary)
    memlm.analysis.plot_sentence_predictions(found, path, title)
    memlm.analysis.write_sentence_predictions(found, path.with_suffix(".csv"))


def _draw_pairs(experiment, model, title, path, pictures, verbose):
    corpus = experiment.corpus
    pairs = memlm.analysis.distant_pairs(
        model,
        corpus.test,
        corpus.train,
        corpus.vocabulary,
        minimum_distance=_NEAREST,
        verbose=int(verbose == 1),
    )
    memlm.analysis.plot_distant_pairs(pairs, path, title)
    memlm.analysis.write_distant_pairs(pairs, path.with_suffix(".csv"))
    by_distance = path.with_name(f"{path.stem}_by_distance.csv")
    memlm.analysis.write_counts_by_distance(pairs, by_distance)


def _draw_dependencies(experiment, model, title, path, pictures, verbose):
    vocabulary = experiment.corpus.vocabulary
    name, parses = _parses(experiment, pictures)
    words = [word for sentence in parses for word in sentence.words]
    unknown = np.mean(vocabulary.encode(words) == vocabulary.unknown_id)
    print(
        f"{name}: {len(parses):,} sentences, {len(words):,} words; "
        f"{unknown:.1%} of them are not in the vocabulary."
    )
    attention = memlm.analysis.dependency_attention(
        model, parses, vocabulary, verbose=int(verbose == 1)
    )
    memlm.analysis.plot_dependency_attention(
        attention,
        path,
        attention.most_frequent(_DEPENDENCIES_DRAWN),
        f"{title}, {name}",
        minimum_pairs=_FEWEST_PAIRS,
    )
    memlm.analysis.write_dependency_attention(
        attention, path.with_suffix(".csv")
    )


def _parses(experiment, pictures):
    """Returns the name and parsed sentences of a treebank or CoNLL-U file."""
    treebank = experiment.dataset.treebank
    if "conllu" in pictures:
        paths = [pathlib.Path(pictures["conllu"])]
        if not paths[0].is_file():
            raise options.UsageError(f"There is no file conllu={paths[0]}.")
    elif treebank is not None:
        paths = treebank[-1]
    else:
        raise options.UsageError(
            "analyses=dependencies needs parsed sentences. Give a treebank as "
            "--dataset, or a file, such as --conllu=de_gsd-ud-test.conllu."
        )
    read = memlm.analysis.read_conllu
    with options.wrong_use():
        return paths[0].stem, [each for path in paths for each in read(path)]


# Maps each analysis (Tran et al., 2016, Section 5) to a function, and to the
# name of the PNG and CSV files that the function writes.
ANALYSES = {
    "columns": (_draw_columns, "attention_columns"),
    "predictions": (_draw_predictions, "sentence_predictions"),
    "pairs": (_draw_pairs, "distant_pairs"),
    "dependencies": (_draw_dependencies, "dependency_attention"),
}
