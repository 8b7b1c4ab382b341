"""The `memlm` command: its commands, their arguments and flags.

Keras is imported late: wrong use does not wait for it.
"""

import argparse
import dataclasses
import functools
import importlib
import itertools
import os
import re
import shlex
import signal
import sys
import textwrap

from absl import flags

from memlm_keras import children
from memlm_keras import formats
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.options import Option
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

_STATUSES = """\
Exit status: 0 if all is done; 1 if something failed; 2 if the command is wrong,
such as a flag, or a file that is missing or not what it must be; 130 and 143 if
it was interrupted (Ctrl-C, SIGTERM)."""
# Errors of paths that are typed, and what stands before one that is no file,
# and may be any word of a text.
_OF_PATHS = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_CALLED = (
    r"(?:(?:file|folder|archive|directory:|no [\w ]+ at) "
    r"|model (?=\S+ is not installed))"
)
# Characters of an error, which may quote the output of another process.
_LONGEST = 800
_EVERYWHERE = (
    Option(
        "backend",
        str,
        "Keras backend; by default the one that Keras is configured for.",
        choices=process.BACKENDS,
    ),
    Option("traceback", bool, "Show the traceback of an error."),
)
_FLAG = re.compile(r"--?([A-Za-z]\w*)(=.*)?", re.DOTALL)
# How `--help` shows the values of options, and positional arguments.
_VALUES = {str: "TEXT", int: "INTEGER", float: "NUMBER", list: "TEXT"}
_PLACES = {None: "{}", "?": "[{}]", "+": "{} ...", "*": "[{} ...]"}


_RUN = "a run folder, a .keras file, or a trained model by name or folder"


class _Positional(argparse.ArgumentParser):
    """Reads positional arguments; wrong ones are a `UsageError`."""

    def error(self, message):
        raise UsageError(
            f"{self.prog}: {message}. `{self.prog} --help` shows how to use it."
        )


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of `memlm`; a function of its name in `commands` runs it."""

    name: str
    help: str
    places: dict  # how many arguments, as argparse's `nargs`, by their names
    options: tuple

    @property
    def usage(self):
        """The command with its positional arguments."""
        places = (_PLACES[n].format(name) for name, n in self.places.items())
        return " ".join(["memlm", self.name, *places])

    def parse(self, arguments):
        """Returns an object whose attributes are the positional arguments, and
        a dict of the options that have a value."""
        known = {o.name: o for o in (*_EVERYWHERE, *self.options)}
        values = flags.FlagValues()
        for option in known.values():
            define = {
                bool: flags.DEFINE_bool,
                list: flags.DEFINE_multi_string,
            }.get(option.type, flags.DEFINE_string)
            define(option.name, None, option.help, flag_values=values)
        values.set_gnu_getopt()
        try:
            rest = values([self.name, *arguments], known_only=True)[1:]
        except (flags.Error, ValueError) as error:
            raise UsageError(f"memlm {self.name}: {error}") from None
        end = rest.index("--") if "--" in rest else len(rest)
        for argument in rest[:end]:
            if unknown := _FLAG.fullmatch(argument):
                flag = f"--{unknown[1]}"
                raise UsageError(
                    f"memlm {self.name} has no flag {flag}."
                    f"{nearest(flag, [f'--{name}' for name in known])}"
                )
        parser = _Positional(f"memlm {self.name}", add_help=False)
        for name, number in self.places.items():
            attribute = name.rpartition("/")[2].lower()
            default = [] if number == "*" else None
            parser.add_argument(
                attribute, nargs=number, metavar=name, default=default
            )
        positional = parser.parse_args(["--", *rest[:end], *rest[end + 1 :]])
        given = values.flag_values_dict()
        return positional, {
            name: option.default
            if given[name] is None
            else option.read(given[name])
            for name, option in known.items()
            if given[name] is not None or option.default is not None
        }

    def describe(self):
        """The text of `--help`."""
        lines = [f"usage: {self.usage} [flags]", "", *textwrap.wrap(self.help)]
        if "RUN" in self.places:
            lines += ["", f"RUN is {_RUN}."]
        groups, last = {}, ("", options.OF_PAPERS, options.OUTPUT)
        for option in (*_EVERYWHERE, *self.options):
            groups.setdefault(options.group_of(option), []).append(option)
        for title in sorted(groups, key=lambda t: t in last and last.index(t)):
            lines += ["", f"{title}:"] if len(groups) > 1 else [""]
            lines += itertools.chain(*map(_describe, groups[title]))
        return "\n".join(lines)


def _describe(option):
    """Yields the lines of an option."""
    text = option.help
    if option.default is not None:
        text = f"{text.rstrip('.')}; by default {option.default}."
    value = "|".join(map(str, option.choices or ()))
    value = value or _VALUES.get(option.type, f"| --no{option.name}")
    yield f"  --{option.name} {value}"
    yield from textwrap.wrap(
        text, 80, initial_indent=" " * 6, subsequent_indent=" " * 6
    )


_RUN_DIR = Option("run_dir", str, "Folder of run folders.", default="runs")
_OVERWRITE = Option(
    "overwrite", bool, "Move an older run aside, and start again."
)
_seed = functools.partial(Option, "seed", int, at_least=0, at_most=2**32 - 1)
_SEEDED = _seed("Seed of weights, dropout and shuffling.")
_RATE = Option(
    "rate",
    float,
    "Train on the text while reading it, by dynamic evaluation with this rate "
    "of SGD.",
    at_least=0,
)
_CACHE = Option(
    "cache",
    bool,
    "With the neural cache that was chosen for RUN, as `memlm train` does for "
    "your own text, and `memlm evaluate RUN --cache_size=500`.",
)
_FINISHED_ONLY = "Train nothing, and write the results of finished runs."
_COMMANDS_ONLY = (
    "Train nothing, and print the command of each missing run, one a line."
)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "presets",
            "Lists the rows of the papers' tables: units, parameters and a "
            "description; and trained models.",
            {"PATTERN": "?"},
            tuple(options.OVERRIDES[n] for n in ("vocabulary_size", "scale")),
        ),
        Command(
            "train",
            "Trains a model in a run folder, or continues an interrupted run. "
            "Without PRESET, a model that suits the text is chosen. A trained "
            "model, by name or folder, is trained further.",
            {"PRESET": "?"},
            (
                options.DATASET,
                Option(
                    "as_published",
                    bool,
                    "Train a paper's preset on your own text with the paper's "
                    "sizes and rates, which suit millions of words.",
                ),
                _RUN_DIR,
                _OVERWRITE,
                _SEEDED,
                *options.OVERRIDES.values(),
                *options.RUNNING,
                *options.MEASURING,
                *options.PICTURES,
            ),
        ),
        Command(
            "evaluate",
            "Measures a trained model, or the average of several. A .keras "
            "file without its run folder needs --dataset.",
            {"RUN": "+"},
            (
                options.DATASET,
                options.VERBOSE,
                *options.READING,
                *options.MEASURING,
                *options.BY,
            ),
        ),
        Command(
            "score",
            "Prints the log-probability of each token of sentences, and their "
            "perplexity; without TEXT, of the lines of the standard input.",
            {"RUN": None, "TEXT": "*"},
            (_CACHE,),
        ),
        Command(
            "surprisal",
            "Prints surprisal, entropy and rank of each word of a text file "
            "with one sentence a line, as a tab-separated table; for several "
            "models, of their average. Several files, and the .txt files of a "
            "folder, are documents, each read from the initial state. A .csv "
            "or .tsv file with a column of sentences keeps its columns.",
            {"RUN": "+", "FILE": "+"},
            (
                Option(
                    "unit",
                    str,
                    "Unit of information.",
                    default="bits",
                    choices=("bits", "nats"),
                ),
                Option(
                    "reset",
                    bool,
                    "Read each sentence from the initial state; by default so "
                    "in .csv and .tsv files, and in others the state is "
                    "carried through the file.",
                ),
                _CACHE,
                _RATE,
                Option(
                    "segment_length",
                    int,
                    "For --rate: words to train on at once; by default 5, and "
                    "with --reset a sentence.",
                    at_least=1,
                ),
                Option(
                    "tokens",
                    bool,
                    "A line for each piece of a word, for models of pieces.",
                ),
                Option(
                    "document_start",
                    str,
                    "Regular expression that matches the first line of each "
                    "document; by default each file is one.",
                ),
                Option(
                    "shard",
                    str,
                    "PART/PARTS, such as 3/16: read this part of the documents "
                    "alone, and write it to a file named after --out and the "
                    "part; nothing is done if this file exists.",
                ),
                Option(
                    "sentence",
                    str,
                    "For .csv and .tsv files: column of sentences; by default "
                    "the one called sentence.",
                ),
                Option(
                    "regions",
                    str,
                    "For .csv and .tsv files: column of positions of words "
                    "(such as 7, or 3-4, 7), or `marked` for words between "
                    "asterisks.",
                ),
                Option(
                    "by",
                    str,
                    "For --regions: a row for each word, or sum and mean of "
                    "each region.",
                    choices=("word", "region"),
                ),
                Option(
                    "frequency",
                    str,
                    "For .csv and .tsv files: text that words are counted in, "
                    "a file, or `train` for the training text of the run.",
                ),
                Option(
                    "spillover",
                    int,
                    "For .csv and .tsv files: words before each word that have "
                    "columns too.",
                    at_least=1,
                ),
                options.to_write(
                    "out", help="File to write in place of the screen."
                ),
            ),
        ),
        Command(
            "pairs",
            "Prints how often models prefer the good sentence of minimal "
            "pairs, by paradigm, phenomenon and field; or how often "
            "predictions of SyntaxGym's suites hold, by circuit. PATH is a "
            "file (BLiMP's .jsonl; .csv or .tsv with sentence_good and "
            "sentence_bad; a suite as .json), a folder of files, or a .zip "
            "archive.",
            {"RUN": "+", "PATH": None},
            (
                Option(
                    "method",
                    str,
                    "Whole sentences; or, for pairs with the fields of BLiMP, "
                    "two words after one prefix, or one word after two.",
                    default="simple",
                    choices=("simple", "one_prefix", "two_prefix"),
                ),
                Option("eos", bool, "Score the end of the sentence too."),
                Option(
                    "mean",
                    bool,
                    "Compare means over tokens; by default sums.",
                ),
                options.to_write(
                    "out",
                    help="Table to write, a row for each pair, or for each "
                    "region.",
                ),
                options.to_write(
                    "plot",
                    help="PNG picture of phenomena, or of circuits, to write.",
                ),
                Option(
                    "published",
                    str,
                    "File of published accuracies: BLiMP's "
                    "models_summary.jsonl, or a .csv with model, suite, item "
                    "and correct.",
                ),
            ),
        ),
        Command(
            "certify",
            "Checks from outside that a model gives probabilities: causal, "
            "normalised, and more; of several models, their average. RUN may "
            "also be an exported .onnx or .tflite file, or the folder of a "
            "SavedModel. The exit status is 1 if a check fails.",
            {"RUN": "+"},
            (
                Option(
                    "same_as",
                    str,
                    "Another RUN, such as the model of an exported file, which "
                    "must give the same.",
                ),
                _CACHE,
                _RATE,
                Option(
                    "tolerance",
                    float,
                    "Largest difference that passes, in nats.",
                    default=1e-4,
                    above=0,
                ),
                _seed("Seed of the texts to read.", default=0),
                Option(
                    "length",
                    int,
                    "Tokens of a text to read; by default more than the "
                    "longest window and chunk of the model.",
                    at_least=32,
                ),
                options.to_write("out", help="JSON file to write too."),
            ),
        ),
        Command(
            "generate",
            "Continues a text.",
            {"RUN": None, "PROMPT": "?"},
            (
                _CACHE,
                Option(
                    "max_length",
                    int,
                    "Maximum number of words, with those of the prompt.",
                    default=50,
                    at_least=1,
                ),
                Option(
                    "sampler",
                    str,
                    "How words are chosen.",
                    default="top_k",
                    choices=("top_k", "top_p", "greedy", "beam", "random"),
                ),
                Option(
                    "sentences",
                    int,
                    "Number of texts.",
                    default=3,
                    at_least=1,
                ),
                _seed("Seed of the sampler."),
                Option("unknown", bool, "Write the unknown word too."),
            ),
        ),
        Command(
            "attention",
            "Draws where a model attends, in its run folder; TEXT is a "
            "sentence to draw as well. With --out, writes a page of TEXT.",
            {"RUN": None, "TEXT": "?"},
            (
                *options.DRAWING,
                options.to_write(
                    "out",
                    help="HTML file to write in place of pictures: pointing at "
                    "a word of TEXT shows where the model attended.",
                ),
                options.VERBOSE,
            ),
        ),
        Command(
            "export",
            "Writes a model as a SavedModel for TensorFlow Serving, in FOLDER "
            "(saved_models/NAME or saved_models/NAME/VERSION; by default the "
            "next version, with the name of the run), or in another format.",
            {"RUN": None, "FOLDER": "?"},
            (
                Option(
                    "format",
                    str,
                    "Format to write; by default tf_saved_model.",
                    choices=tuple(formats.formats()),
                ),
                _CACHE,
                Option("overwrite", bool, "Replace an older export."),
                Option(
                    "quantize",
                    str,
                    "For --format=litert and web: weights of eight bits.",
                    choices=("int8",),
                ),
                Option(
                    "for",
                    str,
                    "Server whose model repository to write; the server keeps "
                    "the state.",
                    choices=("triton",),
                ),
                Option(
                    "contract",
                    str,
                    "For --format=onnx: inputs and outputs as sherpa-onnx "
                    "expects them, for shallow fusion or rescoring.",
                    choices=("sherpa", "sherpa_offline"),
                ),
                Option(
                    "tokens",
                    str,
                    "The recogniser's tokens.txt, which must agree with the "
                    "model's vocabulary.",
                ),
            ),
        ),
        Command(
            "predict",
            "Prints the probability of each label of a pair; or a table with "
            "those of the pairs of a FILE, a .tsv, .csv or .jsonl with the "
            "columns premise and hypothesis.",
            {"RUN": None, "FILE/PREMISE": None, "HYPOTHESIS": "?"},
            (
                options.to_write(
                    "out", help="Table to write; by default it is printed."
                ),
            ),
        ),
        Command(
            "table",
            "Trains every row of a paper's table, and writes the table with "
            "the paper's numbers. PAPER alone shows its tables, and the "
            "commands of our results, and trains nothing.",
            {"PAPER/TABLE": None, "SETTINGS": "*"},
            (
                options.DATASET,
                _RUN_DIR,
                _OVERWRITE,
                Option("rows", str, "Rows, with commas; by default all."),
                Option("seeds", str, "Seeds, such as 0,1,2.", default="0"),
                Option("finished_only", bool, _FINISHED_ONLY),
                Option("list", bool, _COMMANDS_ONLY),
                Option(
                    "grid",
                    list,
                    "SETTING=VALUE,VALUE ...: train each row with all "
                    "combinations of values, and choose by the validation "
                    "text.",
                ),
                *options.OVERRIDES.values(),
                *(o for o in options.RUNNING if o is not options.VERBOSE),
                *options.MEASURING,
                options.PASSAGE,
                options.SENTENCE,
            ),
        ),
    )
}


def main(arguments=None):
    """Runs `memlm`, by default on `sys.argv`; returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return _interrupted(arguments, signal.SIGINT)
    except process.Interrupted as error:
        return _interrupted(arguments, error.number)
    except BrokenPipeError:
        # The reader closed the pipe.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if "--traceback" in arguments:
            raise
        print(f"memlm: {_one_line(error)}", file=sys.stderr)
        return _status(error, arguments)


def _run(arguments):
    """Runs a command; returns the exit status."""
    name = arguments[0] if arguments else None
    if name in (None, "-h", "--help", "help"):
        print(_help())
        return 2 if name is None else 0
    if name == "--version":
        import memlm_keras

        print(memlm_keras.__version__)
        return 0
    if name == "claims":
        raise UsageError(
            "memlm claims is now `python recipes/claims.py`, with the same "
            "arguments, in a clone of the repository."
        )
    if name not in COMMANDS:
        raise UsageError(
            f"There is no command {name}.{nearest(name, COMMANDS)} Commands "
            f"are {', '.join(COMMANDS)}."
        )
    command = COMMANDS[name]
    if {"-h", "--help"} & set(arguments):
        print(command.describe())
        return 0
    positional, values = command.parse(arguments[1:])
    values.pop("traceback", None)
    _require_new_files(command, positional, values)
    with process.signals_raise():
        if children.PARENT in os.environ:
            children.end_with_parent()
        process.choose_backend(values.pop("backend", None))
        module = importlib.import_module("memlm_keras.experiments.commands")
        typed = shlex.join(["memlm", *arguments])
        return getattr(module, name)(positional, values, typed) or 0


def _require_new_files(command, positional, values):
    """Refuses to write over a folder, or over a file that is typed as well."""
    written = {o.name for o in command.options if o.writes}
    for name in filter(written.__contains__, values):
        path = values[name]
        if os.path.isdir(path):
            raise UsageError(
                f"--{name}={path} is a folder. Name a file, such as "
                f"--{name}={os.path.join(path, name)}"
            )
        others = [*vars(positional).values()]
        others += [value for key, value in values.items() if key != name]
        texts = itertools.chain(
            *(each if isinstance(each, list) else [each] for each in others)
        )
        typed = itertools.chain(
            *(options.split_paths(t) for t in texts if isinstance(t, str))
        )
        if os.path.realpath(path) in map(os.path.realpath, typed):
            raise UsageError(
                f"--{name}={path} is read or written by this command already, "
                "and would be lost. Choose another file"
            )


def _status(error, arguments):
    """Exit status of an error: 2 if it is about what was typed, which is a flag
    or a path that is named in the message, and otherwise 1."""
    if isinstance(error, UsageError):
        return 2
    of_path = isinstance(error, _OF_PATHS)
    if not (of_path or isinstance(error, ValueError)):
        return 1
    text = _one_line(error)
    for argument in arguments:
        flag = _FLAG.fullmatch(argument)
        if flag and f"`{flag[1]}`" in text:
            return 2
        values = argument.partition("=")[2] if flag else argument
        for path in options.split_paths(values):
            called = "" if os.path.isfile(path) else _CALLED
            named = rf"(?<![\w/.-]){called}{re.escape(path)}(?![\w/-])"
            if (of_path or os.path.exists(path)) and re.search(named, text):
                return 2
    return 1


def _one_line(error):
    text = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        # Without the system's number.
        text = f"{error.strerror}: {error.filename}"
    line = " ".join(text.split()) or type(error).__name__
    if len(line) > _LONGEST:
        half = _LONGEST // 2
        line = f"{line[:half]} ... {line[-half:]} (--traceback shows all)"
    return line


def _interrupted(arguments, number):
    line = "Interrupted."
    if arguments[0] in ("train", "table"):
        command = [a for a in arguments if a != "--overwrite"]
        line += f" The same command goes on: {shlex.join(['memlm', *command])}"
    print(f"\n{line}", file=sys.stderr)
    return 128 + number


def _help():
    lines = ["Memory-augmented recurrent language models.", ""]
    for command in COMMANDS.values():
        lines += [f"  {command.usage}", f"      {command.help}"]
    lines += [
        "",
        "memlm COMMAND --help shows the flags of a command. RUN is",
        f"{_RUN}.",
        "",
        *_STATUSES.splitlines(),
        "",
        "Examples:",
        "",
        "  memlm train --dataset=my_text.txt",
        "  memlm train memlm/english --dataset=my_text.txt",
        '  memlm generate memlm/english "She opened the letter and"',
        "  memlm table daniluk2017/models --dataset=ptb --scale=0.2",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
