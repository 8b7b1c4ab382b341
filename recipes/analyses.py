"""Analyses of Tran et al. (2016, Section 5), as pictures and CSV files."""

import functools
import itertools
import pathlib

import common
import drawn_sentence
import numpy as np
from absl import app
from absl import flags

FLAGS = flags.FLAGS

# What --analyses may list, and the names of its files in the run folder.
ANALYSES = {
    "columns": ("attention_columns.png", "attention_columns.csv"),
    "predictions": ("sentence_predictions.png", "sentence_predictions.csv"),
    "pairs": (
        "distant_pairs.png",
        "distant_pairs.csv",
        "distant_pairs_by_distance.csv",
    ),
    "dependencies": ("dependency_attention.png", "dependency_attention.csv"),
}
_NEEDS = {
    "samples": "columns",
    "sentence": "predictions",
    "conllu": "dependencies",
}
_NEAREST = 7  # "More than six positions to the left."
_DEPENDENCIES_DRAWN = 24
# Of fewer, the mean is as good as that of one.
_FEWEST_PAIRS = 10


def define_flags():
    """Defines the flags of recipes that have these analyses."""
    flags.DEFINE_list(
        "analyses",
        [],
        "Analyses of the paper to draw when the model is trained; a finished "
        "run is not trained again. Any of: columns (where the model attends "
        "after sampled words, Figure 4), predictions (a sentence with the most "
        "probable next words, Figure 5), pairs (words joined by distant "
        "attention, Table 3), dependencies (attention by dependency in the "
        "sentences of --conllu, Figure 6). Mean attention (Figure 3) is always "
        "drawn.",
    )
    flags.DEFINE_integer(
        "samples",
        100,
        "With --analyses=columns: words to sample of the test text, or all if "
        "it has fewer.",
        lower_bound=1,
    )
    drawn_sentence.define_flags("With --analyses=predictions: ")
    flags.DEFINE_string(
        "conllu",
        None,
        "With --analyses=dependencies: file of parsed sentences, in CoNLL-U; "
        "by default the test text, where --dataset is a treebank.",
    )


def check_flags():
    """Refuses flags that contradict each other.

    Raises:
        app.UsageError: if there are such.
    """
    wrong = [name for name in FLAGS.analyses if name not in ANALYSES]
    if wrong:
        raise app.UsageError(
            f"--analyses must list some of {', '.join(ANALYSES)}. Received: "
            f"{','.join(FLAGS.analyses)!r}"
        )
    if FLAGS.analyses and FLAGS.table is not None:
        raise app.UsageError(
            "--analyses contradicts --table; choose one run with --model."
        )
    for flag, analysis in _NEEDS.items():
        if FLAGS[flag].present and analysis not in FLAGS.analyses:
            raise app.UsageError(f"--{flag} needs --analyses={analysis}.")
    drawn_sentence.check_flags()
    if "dependencies" in FLAGS.analyses:
        _parsed_files()


def check_run(memory):
    """Refuses what a model cannot show, and parses that cannot be read.

    Called before anything is trained.

    Args:
        memory: the memory of the preset, as a plain value, or `None`.

    Raises:
        app.UsageError: if the model does not attend, or not so far.
        ValueError: of `memlm_keras.analysis.read_conllu`.
    """
    if not FLAGS.analyses:
        return
    if memory is None or _reads_ahead(memory):
        raise app.UsageError(
            "--analyses needs a model with a memory that attends to what was "
            f"read before, such as rm_tm_gated. Received: --model={FLAGS.model}"
        )
    window = memory["config"]["window"]
    if "pairs" in FLAGS.analyses and window < _NEAREST:
        raise app.UsageError(
            f"--analyses=pairs needs a --window of at least {_NEAREST}: its "
            f"words are so far apart. Received: --window={window}"
        )
    if "dependencies" in FLAGS.analyses:
        _parses()


def draw(model, corpus, run_dir, settings):
    """Draws the analyses asked for in a run folder.

    Args:
        model: `LanguageModel` with a memory that attends.
        corpus: `Corpus`.
        run_dir: `pathlib.Path` of the run folder.
        settings: dict of plain values that say what the run is.
    """
    name = settings["preset"].rpartition("/")[2]
    for each in ANALYSES:
        if each in FLAGS.analyses:
            paths = [run_dir / file for file in ANALYSES[each]]
            _DRAW[each](model, corpus, f"{name} on {corpus.name}", *paths)
            print(f"{each}: see {', '.join(ANALYSES[each])}")


def _reads_ahead(memory):
    from memlm_keras import memory as memories

    return not getattr(memories, memory["class_name"]).causal


def remove(run_dir):
    """Removes the files of all analyses: they are not of the model to come."""
    for files in ANALYSES.values():
        for file in files:
            (run_dir / file).unlink(missing_ok=True)


def _draw_columns(model, corpus, title, picture, table):
    from memlm_keras import analysis

    end = corpus.vocabulary.end_of_sentence_id
    columns = analysis.attention_columns(
        model,
        corpus.test,
        corpus.vocabulary,
        samples=min(FLAGS.samples, np.count_nonzero(corpus.test.tokens != end)),
        seed=FLAGS.seed,
        verbose=_verbose(),
    )
    analysis.plot_attention_columns(columns, picture, title)
    analysis.write_attention_columns(columns, table)


def _draw_predictions(model, corpus, title, picture, table):
    from memlm_keras import analysis

    words = drawn_sentence.words(corpus)
    found = analysis.sentence_predictions(model, words, corpus.vocabulary)
    analysis.plot_sentence_predictions(found, picture, title)
    analysis.write_sentence_predictions(found, table)


def _draw_pairs(model, corpus, title, picture, table, by_distance):
    from memlm_keras import analysis

    pairs = analysis.distant_pairs(
        model,
        corpus.test,
        corpus.train,
        corpus.vocabulary,
        minimum_distance=_NEAREST,
        verbose=_verbose(),
    )
    analysis.plot_distant_pairs(pairs, picture, title)
    analysis.write_distant_pairs(pairs, table)
    analysis.write_counts_by_distance(pairs, by_distance)


def _draw_dependencies(model, corpus, title, picture, table):
    from memlm_keras import analysis

    vocabulary, parses = corpus.vocabulary, _parses()
    words = [word for sentence in parses for word in sentence.words]
    unknown = np.mean(vocabulary.encode(words) == vocabulary.unknown_id)
    name = _parsed_files()[0].stem
    print(
        f"{name}: {len(parses):,} sentences, {len(words):,} words, of which "
        f"the vocabulary lacks {unknown:.1%}."
    )
    attention = analysis.dependency_attention(
        model, parses, vocabulary, verbose=_verbose()
    )
    analysis.plot_dependency_attention(
        attention,
        picture,
        attention.most_frequent(_DEPENDENCIES_DRAWN),
        f"{title}, {name}",
        minimum_pairs=_FEWEST_PAIRS,
    )
    analysis.write_dependency_attention(attention, table)


_DRAW = {
    "columns": _draw_columns,
    "predictions": _draw_predictions,
    "pairs": _draw_pairs,
    "dependencies": _draw_dependencies,
}


@functools.cache
def _parses():
    from memlm_keras import analysis

    parses = map(analysis.read_conllu, _parsed_files())
    return list(itertools.chain.from_iterable(parses))


def _parsed_files():
    if FLAGS.conllu is not None:
        path = pathlib.Path(FLAGS.conllu)
        if not path.is_file():
            raise app.UsageError(f"There is no file --conllu={path}.")
        return [path]
    treebank = common.find_treebank()
    if treebank is None:
        raise app.UsageError(
            "--analyses=dependencies needs --conllu, the path of a file of "
            "parsed sentences, such as de_gsd-ud-test.conllu, where --dataset "
            "is no treebank."
        )
    return treebank[-1]


def _verbose():
    # A progress bar, or none: lines would come out once all is done.
    return int(FLAGS.verbose == 1)
