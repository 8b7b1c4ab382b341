"""Trains the models of Daniluk et al. (2017), one or a table of them.

    python recipes/daniluk2017.py --model=key_value_predict --dataset=embedded
    python recipes/daniluk2017.py --model=ngram_4 --dataset=ptb \
        --data_dir=path/to/ptb --scale=0.2 --match_parameters
    python recipes/daniluk2017.py --dataset=path/to/documents --model=attention
    python recipes/daniluk2017.py --table=windows --windows=1,5 --seeds=0,1,2 \
        --dataset=ptb --scale=0.2 --match_parameters

A run folder is written: config.json, log.csv, checkpoint.npz (--resume goes on
from it), model.keras, vocabulary.json, results.json and, for models that
attend, attention.png, mean_attention.png and mean_attention.csv. On the
Children's Book Test (--dataset=cbt) results.json has the accuracies as well.

A table is a run folder for each row and seed, and table.md, table.csv and
pictures in a folder of its own.
"""

import functools
import pathlib

import common
import run_folders
import table_files
import tables
from absl import app
from absl import flags

TABLES = {
    "windows": "Figure 2 (a), perplexity by attention window",
    "ngrams": "Figure 2 (b), N-gram RNNs",
    "models": "Figure 2 (c), all models",
    "cbt": "Figure 2 (d), accuracy on the Children's Book Test",
}
WORD_TYPES = ("NE", "CN", "V", "P")
ACCURACIES = [
    tables.Measure(word_type, ("cbt", word_type, "accuracy"), 3)
    for word_type in WORD_TYPES
]
TABLE_FLAGS = ("windows",)
ROW_FLAGS = ("model", "window")

FLAGS = flags.FLAGS
common.define_flags(run_dir="runs/daniluk2017")
tables.define_flags(TABLES)
# So that --help tells of them.
for module in (common, tables):
    flags.adopt_module_key_flags(module)
flags.DEFINE_list(
    "windows", ["1", "5", "10", "15"], "Windows of --table=windows."
)
flags.DEFINE_string("model", "key_value_predict", "Row of the paper's table.")
flags.DEFINE_float(
    "scale", 1.0, "Factor on the paper's sizes, which keeps their proportions."
)
flags.DEFINE_bool(
    "match_parameters",
    False,
    "Choose the hidden size that gives the parameters of the LSTM row at this "
    "scale and vocabulary, as the paper's sizes do at 77,003 words; but for "
    "rm_tm_gated, which is larger there too.",
)
flags.DEFINE_float(
    "initial_range",
    None,
    "Weights are drawn from U(-r, r) with this r; the preset's: 0.1. With "
    "--scale=s, 0.1 / sqrt(s) begins as the paper's sizes do.",
    lower_bound=0.0,
)
flags.DEFINE_integer("window", None, "Attention window instead of the paper's.")
flags.DEFINE_float("dropout", 0.0, "Dropout rate; the paper states none.")
flags.DEFINE_integer("batch_size", None, "Rows of a batch; the preset's: 64.")
flags.DEFINE_integer(
    "segment_length", None, "Steps of back-propagation; the preset's: 20."
)
flags.DEFINE_float(
    "learning_rate", None, "Learning rate of Adam; the preset's: 0.001."
)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    tables.check_flags(TABLE_FLAGS, ROW_FLAGS)
    common.choose_backend(FLAGS.backend)
    if FLAGS.table is not None:
        return fill_table()
    train_one()


def train_one():
    """Trains one model in a run folder, and evaluates it."""
    import keras

    import memlm_keras as memlm

    # Before the corpus is read: a wrong name shows at once.
    preset = get_preset(FLAGS.model, FLAGS.window)
    corpus = common.load_corpus()
    settings = describe(corpus, FLAGS.model, FLAGS.seed, FLAGS.window)
    run_dir = run_folder(FLAGS.model, FLAGS.seed, FLAGS.window)
    documents = settings["documents"]

    def batches(split, batch_size=settings["batch_size"], **kwargs):
        return corpus.batches(
            split,
            batch_size=batch_size,
            segment_length=kwargs.pop(
                "segment_length", settings["segment_length"]
            ),
            documents=documents,
            **kwargs,
        )

    training_batches = batches("train", shuffle=documents, seed=FLAGS.seed)
    run_folders.open_run_dir(run_dir, settings)
    if run_folders.finished_results(run_dir) is not None:
        print(f"{run_dir} is finished: {run_dir / 'results.json'}")
        return
    keras.utils.set_random_seed(FLAGS.seed)
    model = memlm.LanguageModel.from_preset(
        settings["preset"],
        settings["vocabulary_size"],
        dropout=settings["dropout"],
        units=settings["units"],
        embedding_dim=settings["embedding_dim"],
        **_initial_range(),
        **_window(FLAGS.window),
    )
    optimizer = keras.saving.deserialize_keras_object(preset["optimizer"])
    optimizer.learning_rate = settings["learning_rate"]
    model.compile(optimizer)
    # One row reads the text as one stream, as published figures do; documents
    # are independent, so there more rows change nothing.
    evaluation = {
        split: batches(
            split,
            batch_size=min(
                settings["batch_size"],
                len(getattr(corpus, split).document_starts),
            ),
        )
        if documents
        else batches(split, batch_size=1, segment_length=100)
        for split in ("validation", "test")
    }

    measure = None
    if FLAGS.dataset == "cbt":
        read_questions()  # A file that is missing shows before the training.
        measure = functools.partial(answer_questions, model, corpus.vocabulary)
    run_folders.run(
        model,
        corpus,
        training_batches,
        evaluation["validation"] if documents else batches("validation"),
        evaluation,
        run_dir,
        settings,
        measure=measure,
    )


def get_preset(model, window):
    """The preset of a row at the scale that is asked for."""
    import memlm_keras as memlm

    return memlm.presets.get(
        f"daniluk2017/{model}", scale=FLAGS.scale, **_window(window)
    )


def describe(corpus, model, seed, window=None):
    """Returns the settings that say what one run is, as plain values.

    Raises:
        ValueError: if there is no such model, or none of the size asked for.
    """
    from memlm_keras.presets import daniluk2017

    preset = get_preset(model, window)
    embedding_dim = preset["model"]["embedding_dim"]
    units = preset["units"]
    vocabulary_size = len(corpus.vocabulary)
    if FLAGS.match_parameters and model not in daniluk2017.PAPER.unmatched:
        units = matched_units(model, window, vocabulary_size, embedding_dim)
    learning_rate = preset["optimizer"]["config"]["learning_rate"]
    return {
        "preset": preset["name"],
        "units": units,
        "embedding_dim": embedding_dim,
        "dataset": common.dataset_name(),
        "corpus": corpus.fingerprint,
        "vocabulary_size": vocabulary_size,
        "documents": corpus.train.document_starts is not None,
        **common.reading_settings(),
        "scale": FLAGS.scale,
        "match_parameters": FLAGS.match_parameters,
        "window": window,
        **_initial_range(),
        "dropout": FLAGS.dropout,
        "batch_size": common.given("batch_size", preset["data"]["batch_size"]),
        "segment_length": common.given(
            "segment_length", preset["data"]["segment_length"]
        ),
        "learning_rate": common.given("learning_rate", learning_rate),
        "seed": seed,
    }


@functools.cache
def matched_units(model, window, vocabulary_size, embedding_dim):
    """Units with which a model has the parameters of the LSTM row."""
    import memlm_keras as memlm

    lstm = memlm.LanguageModel.from_preset(
        "daniluk2017/lstm", vocabulary_size, scale=FLAGS.scale
    )
    return memlm.presets.match_parameters(
        lstm.count_params(),
        f"daniluk2017/{model}",
        vocabulary_size,
        embedding_dim=embedding_dim,
        **_window(window),
    )


def run_folder(model, seed, window=None):
    parts = [common.dataset_name(), model, *_size_parts()]
    if window is not None:
        parts.append(f"window{window}")
    parts.append(f"seed{seed}")
    return pathlib.Path(FLAGS.run_dir, "-".join(parts))


def read_questions():
    """Dict of the test questions by word type."""
    from memlm_keras.data import cbt_questions

    return {
        word_type: cbt_questions(word_type, "test", data_dir=FLAGS.data_dir)
        for word_type in WORD_TYPES
    }


def answer_questions(model, vocabulary):
    """Accuracy on the test questions of each word type, as plain values."""
    accuracies = {}
    for word_type, questions in read_questions().items():
        if FLAGS.verbose:
            print(f"Questions of {word_type}:")
        accuracies[word_type] = run_folders.answer(model, questions, vocabulary)
    return {"cbt": accuracies}


def fill_table():
    """Trains the rows of a table; returns the exit status."""
    if FLAGS.table == "cbt" and FLAGS.dataset != "cbt":
        raise app.UsageError(
            "--table=cbt needs --dataset=cbt, whose questions it asks. "
            f"Received: --dataset={FLAGS.dataset}"
        )
    table = tables.Table(
        title=f"Daniluk et al. (2017), {TABLES[FLAGS.table]}",
        folder=tables.folder(_size_parts()),
        rows=table_rows(),
        measures=ACCURACIES if FLAGS.table == "cbt" else tables.PERPLEXITIES,
        settings=(
            *("dataset", "vocabulary_size", "documents", "scale"),
            *("match_parameters", "dropout", "batch_size", "segment_length"),
            *("initial_range", "learning_rate", "patience"),
        ),
        draw=draw_table,
    )
    return tables.fill(table, describe, run_folder, left_out=TABLE_FLAGS)


def table_rows():
    """Rows of the table that is asked for, of all that the presets have."""
    from memlm_keras.presets import daniluk2017

    presets = {name: get_preset(name, None) for name in daniluk2017.ROWS}
    spans = {
        name: (preset["model"]["memory"] or {"config": {}})["config"]
        for name, preset in presets.items()
    }
    belongs = {
        "windows": lambda name: name in daniluk2017.BY_WINDOW,
        "ngrams": lambda name: "order" in spans[name],
        # What differs from key_value_predict by its parameters alone.
        "models": lambda name: (
            not (FLAGS.match_parameters and name == "key_value_predict_786")
        ),
        "cbt": lambda name: name in daniluk2017.CLOZE,
    }[FLAGS.table]
    by_window = FLAGS.table == "windows"
    rows = []
    for name in tables.selected([name for name in presets if belongs(name)]):
        own = spans[name].get("window")
        published = presets[name]["published"]
        for window in tables.integers("windows", 1) if by_window else [own]:
            numbers = {}
            if FLAGS.table == "cbt":
                numbers = daniluk2017.CLOZE[name]
            elif window == own:
                numbers["dev"] = published["validation_perplexity"]
                numbers["test"] = published["test_perplexity"]
            else:
                by_own = daniluk2017.BY_WINDOW[name]
                numbers["test"] = by_own.get(window)
            # Named as the paper's window is, so that tables share their runs.
            changed = {} if window == own else {"window": window}
            rows.append(
                tables.Row(
                    label=f"{name}, window {window}" if by_window else name,
                    flags={"model": name, **changed},
                    details={"preset": name, "window": window or ""},
                    published=numbers,
                )
            )
    return rows


def draw_table(table, progress):
    """Draws the mean attention and, by window, the perplexities of a table."""
    pictures = table_files.draw_mean_attention(table, progress)
    if FLAGS.table == "windows":
        ours, papers = {}, {}
        test = tables.PERPLEXITIES[1]
        for row in table.rows:
            name, window = row.details["preset"], row.details["window"]
            measured = [test.of(r) for r in progress.results(row)]
            published = row.published.get("test")
            for lines, values in (
                (ours, measured),
                (papers, [] if published is None else [published]),
            ):
                if values:
                    line = lines.setdefault(name, {})
                    line[window] = table_files.summarize(values)
        if ours:
            table_files.draw_lines(
                {common.dataset_name(): ours, "paper, Wikipedia": papers},
                table.folder / "windows.png",
                x_label="attention window",
                y_label="test perplexity",
            )
            pictures.append("windows.png")
    return pictures


def _window(window):
    return {} if window is None else {"window": window}


def _initial_range():
    """As a dict, empty where the preset's is kept."""
    if FLAGS.initial_range is None:
        return {}
    return {"initial_range": FLAGS.initial_range}


def _size_parts():
    return [*common.size_parts(), *(["matched"] * FLAGS.match_parameters)]


if __name__ == "__main__":
    app.run(main)
