"""`memlm surprisal`."""

import contextlib
import pathlib
import re
import sys

import memlm_keras as memlm
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.opened import average
from memlm_keras.experiments.opened import open_run

_TABLES = (".csv", ".tsv")
# Options for tables of sentences.
_STIMULI = (
    options.Option(
        "sentence",
        str,
        "For .csv and .tsv files: column with the sentences; by default the "
        "column called sentence.",
    ),
    options.Option(
        "regions",
        str,
        "For .csv and .tsv files: column with positions of words (such as `7` "
        "or `3-4, 7`), or `marked` for words between asterisks.",
    ),
    options.Option(
        "by",
        str,
        "For --regions: a row for each word, or for each region with sums and "
        "means.",
        choices=("word", "region"),
    ),
    options.Option(
        "frequency",
        str,
        "For .csv and .tsv files: text in which to count the frequency of "
        "words: a file, or `train` for the training text of the run.",
    ),
    options.Option(
        "spillover",
        int,
        "For .csv and .tsv files: number of previous words that also have "
        "columns.",
        at_least=1,
    ),
)


@command(
    "Prints a tab-separated table with surprisal, entropy and rank of each "
    "word in a text file with one sentence per line, by a model or the average "
    "of several. Several files, or the .txt files of a folder, are documents, "
    "each read from the initial state. A .csv or .tsv file with a column of "
    "sentences keeps its columns.",
    {"RUN": "+", "FILE": "+"},
    options.Option(
        "unit", str, "Unit of information.", choices=("bits", "nats")
    ),
    options.Option(
        "reset",
        bool,
        "Read each sentence from the initial state, the default for .csv and "
        ".tsv files; in other files, the state is carried on.",
    ),
    options.CACHE,
    options.RATE,
    options.Option(
        "segment_length",
        int,
        "For --rate: words per update; by default 5, or a sentence with "
        "--reset.",
        at_least=1,
    ),
    options.Option(
        "tokens",
        bool,
        "A row for each piece of a word, for models of pieces of words.",
    ),
    options.Option(
        "document_start",
        str,
        "Regular expression that matches the first line of each document; by "
        "default each file is one.",
    ),
    options.Option(
        "shard",
        str,
        "PART/PARTS, such as 3/16: read only this part of the documents, and "
        "write a file named after --out and the part, unless it exists.",
    ),
    options.to_write("out", help="Table to write; by default it is printed."),
    stimuli=_STIMULI,
)
def surprisal(
    run: list,
    file: list,
    stimuli: dict,
    unit: str = "bits",
    reset: bool | None = None,
    cache: bool = False,
    rate: float | None = None,
    segment_length: int | None = None,
    tokens: bool = False,
    document_start: str | None = None,
    shard: str | None = None,
    out: str | None = None,
):
    if segment_length is not None and rate is None:
        raise options.UsageError("--segment_length needs --rate.")
    paths = [*run, *file]
    # The first path is a model. The texts begin at the next file without the
    # suffix `.keras` or, if there is no such file, at the last path.
    first = 1
    while first < len(paths) - 1 and not (
        pathlib.Path(paths[first]).is_file()
        and _suffix(paths[first]) != ".keras"
    ):
        first += 1
    runs, texts = paths[:first], paths[first:]
    has_documents = (
        len(texts) > 1
        or pathlib.Path(texts[0]).is_dir()
        or document_start is not None
    )
    tables = [path for path in texts if _suffix(path) in _TABLES]
    for name in stimuli:
        if not tables:
            raise options.UsageError(f"--{name} needs a .csv or .tsv file.")
    if tables and (has_documents or shard is not None):
        raise options.UsageError(
            "A .csv or .tsv table must be the only FILE, and cannot be divided "
            f"by --document_start or --shard. Received: {tables[0]}, a table"
        )
    part = (1, 1)
    if shard is not None:
        if not has_documents:
            raise options.UsageError(
                "--shard needs several files, a folder of .txt files, or "
                f"--document_start. Received: {texts[0]}, a single document"
            )
        part, out = _shard(shard, out)
        if out.exists():
            print(f"{out} is finished. Delete it to write it again.")
            return
    opened = [*map(open_run, runs)]
    if tables and tokens:
        raise options.UsageError("--tokens needs a text file, not a table.")
    model = average(opened, rate, cache)
    vocabulary = opened[0].vocabulary
    reading = {"unit": unit, "segment_length": segment_length}
    if tables:
        reading["reset"] = True if reset is None else reset
        return _write_stimuli(
            texts[0], opened[0], model, reading, out, **stimuli
        )
    reading["reset"] = bool(reset)
    store = memlm.data.text_store
    with options.wrong_use():
        if has_documents:
            documents = store.read_documents(texts, document_start, *part)
        else:
            # Read the file only once, because it may be a pipe.
            documents = [(texts[0], list(store.read_lines(texts[0])))]
    count = unknown = 0
    entered = store.EnteredText(vocabulary)
    with (
        process.writing(out) as written,
        # Only the table goes to standard output.
        contextlib.redirect_stdout(sys.stderr),
    ):
        for name, lines in documents:
            lines = [*map(entered.line, lines)]
            if not any(map(vocabulary.tokenizer.tokenize, lines)):
                continue
            found = memlm.evaluation.surprisal(
                model, lines, vocabulary, **reading
            )
            if not tokens:
                found = found.by_word(vocabulary)
            columns = found.columns()
            if has_documents:
                columns = {"document": [name] * len(found), **columns}
            table = memlm.data.tables.table_text(columns)
            written.write(table.partition("\n")[2] if count else table)
            count += len(found)
            unknown += found.unknown.sum()
        if not count:
            raise options.UsageError(f"There is no word in {' '.join(texts)}.")
    if unknown:
        process.print_notes(
            f"{unknown} of {count} tokens are read as {vocabulary.unknown}."
        )
    process.print_notes(*entered.notes())


def _suffix(path):
    return pathlib.Path(path).suffix.lower()


def _shard(text, out):
    """Returns `--shard` as `(part, parts)`, and the path of the output."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= part <= parts:
        raise options.UsageError(
            "--shard must be a part and the number of parts, such as 3/16. "
            f"Received: {text!r}"
        )
    if out is None:
        raise options.UsageError(
            "--shard needs --out. With --out=words.tsv, --shard=3/16 writes "
            "words-03-of-16.tsv."
        )
    out = pathlib.Path(out)
    name = f"{out.stem}-{part:0{len(str(parts))}}-of-{parts}{out.suffix}"
    return (part, parts), out.with_name(name)


def _write_stimuli(
    path,
    opened,
    model,
    reading,
    out,
    sentence=None,
    regions=None,
    by="word",
    frequency=None,
    spillover=0,
):
    """Writes the surprisal of words or regions in a table of sentences."""
    vocabulary = opened.vocabulary
    if by != "word" and regions is None:
        raise options.UsageError("--by needs --regions.")
    linguistics = memlm.linguistics
    with options.wrong_use():
        rows = linguistics.read_stimuli(path)
    if sentence is None:
        names = (name for name in rows[0] if name.lower() == "sentence")
        sentence = next(names, None)
    if sentence is None:
        raise options.UsageError(
            f"{path} has no column called sentence: name one with --sentence. "
            f"Received: {', '.join(rows[0])}"
        )
    counts = None
    if frequency is not None:
        text = _counted_text(frequency, opened)
        counts = linguistics.count_words(text, vocabulary)
    with options.wrong_use(), memlm.data.tables.naming(path):
        result = linguistics.stimulus_surprisal(
            model,
            rows,
            vocabulary,
            sentence=sentence,
            regions=regions,
            counts=counts,
            spillover=spillover,
            **reading,
        )
    with process.writing(out) as file:
        file.write(result.to_tsv(by=by))
    if unknown := result.words.unknown.sum():
        process.print_notes(
            f"{unknown} of {len(result.words)} words have unknown tokens."
        )


def _counted_text(frequency, opened):
    if frequency != "train":
        with options.wrong_use():
            return [*memlm.data.text_store.read_lines(frequency)]
    if opened.folder is None:
        raise options.UsageError(
            "--frequency=train needs a run folder. Received: "
            f"{opened.path}. Give --frequency=FILE"
        )
    # Only the table goes to standard output.
    with contextlib.redirect_stdout(sys.stderr):
        return opened.experiment.corpus.train
