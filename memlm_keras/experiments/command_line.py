"""The `memlm` command.

    memlm presets [PATTERN]
    memlm train PRESET --dataset=NAME|FOLDER|FILE.txt
    memlm evaluate RUN [RUN ...]
    memlm score RUN [TEXT ...]
    memlm generate RUN [PROMPT]
    memlm attention RUN
    memlm export RUN [FOLDER]
    memlm predict RUN PREMISE HYPOTHESIS
    memlm table PAPER/TABLE

RUN is a run folder, or a `.keras` file. Exit status 0: done; 1: failed; 2:
wrong use; 130 and 143: interrupted, with the line that goes on.

Keras is imported once the backend is known, and not at all for what is wrong.
"""

import argparse
import contextlib
import importlib.util
import os
import pathlib
import shlex
import signal
import sys

from absl import flags
from absl.flags import argparse_flags

from memlm_keras.experiments import options
from memlm_keras.experiments.options import UsageError

BACKENDS = ("tensorflow", "jax", "torch")
_INSTALL = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}
_TYPES = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
}
_RUN = "RUN: a run folder, or a .keras file."


class _Parser(argparse_flags.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message):
        raise UsageError(message)


class Command:
    """A subcommand: its arguments and flags.

    Args:
        name: string.
        help: string, one line.
        positional: list of pairs of a name and arguments of `add_argument`.
        groups: tuple of tuples of `Option`s, its flags.
    """

    def __init__(self, name, help, positional=(), groups=()):
        self.name = name
        self.help = help
        self.positional = positional
        self.options = [option for group in groups for option in group]

    @property
    def places(self):
        """Its positional arguments, as `--help` names them."""
        return " ".join(
            f"[{arguments['metavar']}]"
            if arguments.get("nargs") in ("?", "*")
            else arguments["metavar"]
            for name, arguments in self.positional
            if not name.startswith("--")
        )

    def parser(self):
        """Returns the parser, and the flags that it fills in."""
        values = flags.FlagValues()
        flags.DEFINE_enum(
            "backend",
            None,
            BACKENDS,
            "Keras backend; by default the one that Keras is configured for.",
            flag_values=values,
        )
        flags.DEFINE_bool(
            "traceback",
            False,
            "Show where in the program an error came from.",
            flag_values=values,
        )
        for option in self.options:
            if option.choices and option.type is str:
                flags.DEFINE_enum(
                    option.name,
                    None,
                    option.choices,
                    option.help,
                    flag_values=values,
                )
            else:
                _TYPES[option.type](
                    option.name, None, option.help, flag_values=values
                )
        for name in values:
            # So that --help tells of them.
            values.register_key_flag_for_module(sys.argv[0], values[name])
        parser = _Parser(
            prog=f"memlm {self.name}",
            usage=f"memlm {self.name} {self.places} [flags]".replace("  ", " "),
            description=self.help,
            inherited_absl_flags=values,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, arguments in self.positional:
            parser.add_argument(name, **arguments)
        return parser, values

    def parse(self, arguments):
        """Reads the command line of the subcommand.

        Returns:
            `(given, values)`: the positional arguments, and a dict of the
            flags that were given.

        Raises:
            UsageError: for what there is not, with the nearest that there is.
        """
        parser, values = self.parser()
        known = [f"--{name}" for name in values] + [
            f"--{name}" for name, _ in self.positional if name.startswith("--")
        ]
        # A wrong flag is told of before arguments that are missing.
        for argument in arguments:
            name = argument.partition("=")[0]
            plain = name.removeprefix("--no")
            if not name.startswith("--") or name in ("--", "--help"):
                continue
            own = [n.removeprefix("--") for n, _ in self.positional]
            if name[2:] not in [*values, *own] and plain not in values:
                raise UsageError(
                    f"memlm {self.name} has no flag {name}."
                    f"{options.nearest(name, known)}"
                )
        try:
            given, more = parser.parse_known_args(arguments)
        except flags.Error as error:
            raise UsageError(f"memlm {self.name}: {error}") from None
        except UsageError as error:
            raise UsageError(
                f"memlm {self.name}: {error}. `memlm {self.name} --help` tells "
                "more."
            ) from None
        if more:
            raise UsageError(
                f"memlm {self.name} does not know what to do with {more[0]!r}; "
                f"`memlm {self.name} --help` tells more."
            )
        return given, {
            name: values[name].value
            for name in values
            if values[name].value is not None
        }


def _option(name, type, help, **others):
    return options.Option(name, type, help, **others)


_SEED = _option("seed", int, "Seed of weights, dropout and shuffling.")
_DATASET = _option(
    "dataset",
    str,
    "Corpus: embedded, ptb, wikitext-2 or cbt (of sentence pairs: embedded, "
    "snli or sick, and no other); a .txt file, one sentence a line, which is "
    "split; three files with commas between; a folder that holds train, valid "
    "and test (.txt files, or folders of documents); a folder that holds a "
    "treebank in CoNLL-U, as NAME-ud-train.conllu and so on; or documents to "
    "be dealt to the three, as a folder of one .txt file each or as one file "
    "with --document_start.",
)
_RUN_DIR = _option(
    "run_dir", str, "Folder that run folders go in; by default runs."
)
_OVERWRITE = _option(
    "overwrite", bool, "Move an older run aside, and begin anew."
)
_OVERRIDES = (options.READING, options.SIZES, options.TRAINING)
_VERBOSE = (options.RUNNING[-1],)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "presets",
            "Lists the rows of the papers' tables: parameters, units, what "
            "each is.",
            [("pattern", {"nargs": "?", "metavar": "PATTERN"})],
            (
                (
                    options.OVERRIDES["vocabulary_size"],
                    options.OVERRIDES["scale"],
                ),
            ),
        ),
        Command(
            "train",
            "Trains a preset in a run folder, or goes on with it.",
            [("preset", {"metavar": "PRESET"})],
            (
                (_DATASET, _SEED, _RUN_DIR, _OVERWRITE),
                *_OVERRIDES,
                options.RUNNING,
                options.MEASURES,
                options.PICTURES,
            ),
        ),
        Command(
            "evaluate",
            "Measures trained models; several of them, by the mean of their "
            "probabilities.",
            [("run", {"nargs": "+", "metavar": "RUN", "help": _RUN})],
            ((_DATASET,), options.READING, options.MEASURES, _VERBOSE),
        ),
        Command(
            "score",
            "Log-probability of each word of a text, and its perplexity.",
            [
                ("run", {"metavar": "RUN", "help": _RUN}),
                (
                    "text",
                    {
                        "nargs": "*",
                        "metavar": "TEXT",
                        "help": "Sentences; by default the lines that come in.",
                    },
                ),
            ],
        ),
        Command(
            "generate",
            "Goes on with a text.",
            [
                ("run", {"metavar": "RUN", "help": _RUN}),
                ("prompt", {"nargs": "?", "default": "", "metavar": "PROMPT"}),
            ],
            (
                (
                    _option("max_length", int, "Words in all; by default 50."),
                    _option(
                        "sampler",
                        str,
                        "How words are chosen; by default top_k.",
                        choices=("top_k", "top_p", "greedy", "beam", "random"),
                    ),
                    _option("sentences", int, "How many; by default 3."),
                    _option("seed", int, "Seed of what is chosen."),
                ),
            ),
        ),
        Command(
            "attention",
            "Draws where a model attends, in its run folder.",
            [("run", {"metavar": "RUN", "help": _RUN})],
            (options.PICTURES, _VERBOSE),
        ),
        Command(
            "export",
            "Writes a model as a SavedModel for TensorFlow Serving.",
            [
                ("run", {"metavar": "RUN", "help": _RUN}),
                (
                    "folder",
                    {
                        "nargs": "?",
                        "metavar": "FOLDER",
                        "help": "saved_models/NAME or saved_models/NAME/"
                        "VERSION; by default the next version of the run's "
                        "name.",
                    },
                ),
            ],
        ),
        Command(
            "predict",
            "Tells whether a hypothesis follows from a premise.",
            [
                ("run", {"metavar": "RUN", "help": _RUN}),
                ("premise", {"metavar": "PREMISE"}),
                ("hypothesis", {"metavar": "HYPOTHESIS"}),
            ],
        ),
        Command(
            "table",
            "Trains every row of a table of a paper, and writes the table "
            "beside the paper's numbers.",
            [
                ("table", {"metavar": "PAPER/TABLE"}),
                (
                    "--grid",
                    {
                        "nargs": "+",
                        "action": "extend",
                        "metavar": "SETTING=VALUE,VALUE",
                        "help": "Train each row with all combinations of "
                        "values, and choose by the validation text.",
                    },
                ),
            ],
            (
                (
                    _DATASET,
                    _RUN_DIR,
                    _OVERWRITE,
                    _option("rows", str, "Rows, with commas; by default all."),
                    _option(
                        "seeds", str, "Seeds, such as 0,1,2; by default 0."
                    ),
                    _option(
                        "finished_only",
                        bool,
                        "Train nothing, and write the table of what is "
                        "finished.",
                    ),
                ),
                *_OVERRIDES,
                options.RUNNING[:-1],
                options.MEASURES,
                options.PICTURES[:2],
            ),
        ),
    )
}


def main(arguments=None):
    """Runs `memlm`; returns the exit status.

    Args:
        arguments: list of strings; `None` are those of the process.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    traceback = False
    before = signal.getsignal(signal.SIGTERM)
    try:
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            print(_help())
            return 0 if arguments else 2
        if arguments[0] == "--version":
            import memlm_keras

            print(memlm_keras.__version__)
            return 0
        command = _command(arguments[0])
        given, values = command.parse(arguments[1:])
        traceback = values.pop("traceback", False)
        signal.signal(signal.SIGTERM, _terminated)
        import_keras(values.pop("backend", None))
        from memlm_keras.experiments import commands

        typed = shlex.join(["memlm", *arguments])
        return getattr(commands, command.name)(given, values, typed) or 0
    except UsageError as error:
        return _failed(error, 2, traceback)
    except KeyboardInterrupt:
        return _interrupted(arguments, 130)
    except _Terminated:
        return _interrupted(arguments, 143)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        return _failed(error, 1, traceback)
    finally:
        signal.signal(signal.SIGTERM, before)


class _Terminated(BaseException):
    """The process was told to end."""


def _terminated(number, frame):
    raise _Terminated


def _command(name):
    if name in COMMANDS:
        return COMMANDS[name]
    raise UsageError(
        f"There is no command {name}.{options.nearest(name, COMMANDS)} "
        f"Commands are {', '.join(COMMANDS)}."
    )


def import_keras(backend):
    """Imports Keras and this package on a backend, without TensorFlow's lines.

    Raises:
        UsageError: if Keras runs on another one already.
        ImportError: if the backend is not installed.
    """
    loaded = sys.modules.get("keras")
    if loaded is not None and backend not in (None, loaded.config.backend()):
        raise UsageError(
            f"Keras runs on {loaded.config.backend()} in this process already. "
            f"Received: --backend={backend}"
        )
    if backend is not None:
        os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    wanted = os.environ.get("KERAS_BACKEND") or _configured_backend()
    if importlib.util.find_spec(wanted) is None:
        raise ImportError(
            f"The backend {wanted} is not installed: pip install "
            f"{_INSTALL.get(wanted, wanted)}, or choose another with --backend."
        )
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    with _quiet():
        import memlm_keras

        memlm_keras.load_all()
        # Keras imports it on every backend, sooner or later.
        importlib.import_module("tensorflow").zeros(1)


@contextlib.contextmanager
def _quiet():
    """Keeps from the screen what libraries say while they are imported.

    TensorFlow writes some lines before it knows how much is wanted of it, and
    not through Python. Errors come as exceptions.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _configured_backend():
    """The backend that Keras is configured for, without importing it."""
    import json

    home = os.environ.get("KERAS_HOME")
    folder = pathlib.Path(home) if home else pathlib.Path.home() / ".keras"
    try:
        return json.loads((folder / "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError):
        return "tensorflow"


def _failed(error, status, traceback):
    if traceback:
        raise error
    line = " ".join(str(error).split()) or type(error).__name__
    print(f"memlm: {line}", file=sys.stderr)
    return status


def _interrupted(arguments, status):
    told = "Interrupted."
    if arguments[0] in ("train", "table"):
        again = shlex.join(
            ["memlm", *(a for a in arguments if a != "--overwrite")]
        )
        told += f" The same command goes on: {again}"
    print(f"\n{told}", file=sys.stderr)
    return status


def _help():
    lines = ["Memory-augmented recurrent language models.", ""]
    for command in COMMANDS.values():
        lines.append(f"  memlm {command.name} {command.places}".rstrip())
        lines.append(f"      {command.help}")
    lines += [
        "",
        "memlm COMMAND --help tells the flags of a command. RUN is a run "
        "folder,",
        "or a .keras file. For instance:",
        "",
        "  memlm train key_value_predict --dataset=my_text.txt --scale=0.3",
        "  memlm table daniluk2017/models --dataset=ptb --scale=0.2",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
