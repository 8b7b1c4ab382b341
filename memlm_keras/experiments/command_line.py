"""The `memlm` command: parses arguments and flags, and runs a command.

Keras is imported late, so that usage errors are reported at once."""

import argparse
import collections
import dataclasses
import importlib
import inspect
import itertools
import keyword
import os
import re
import shlex
import signal
import sys
import textwrap
import warnings

from absl import flags

from memlm_keras import children
from memlm_keras import version
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.options import Option
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

_STATUSES = """\
Exit status: 0 on success; 1 if something failed; 2 if the command is wrong,
for example if it has an unknown flag, or names a missing or unsuitable file;
130 or 143 if it was interrupted by Ctrl-C or SIGTERM."""
_EVERYWHERE = (
    Option(
        "backend",
        str,
        "Keras backend; by default the configured or an installed backend.",
        choices=process.BACKENDS,
    ),
    Option(
        "matmul_precision",
        str,
        "Precision of float32 matrix products; by default the backend's.",
        choices=tuple(process.PRECISIONS),
    ),
    Option("traceback", bool, "Show the traceback of an error."),
)
_FLAG = re.compile(r"--?([A-Za-z]\w*)(=.*)?", re.DOTALL)
# Formats of option values and positional arguments in `--help`.
_VALUES = {str: "TEXT", int: "INTEGER", float: "NUMBER", list: "TEXT"}
_PLACES = {None: "{}", "?": "[{}]", "+": "{} ...", "*": "[{} ...]"}
_RUN = "a run folder, a .keras file, or a trained model's name or folder"


class _Positional(argparse.ArgumentParser):
    """Parses positional arguments; raises `UsageError` for invalid ones."""

    def error(self, message):
        raise UsageError(
            f"{self.prog}: {message}. `{self.prog} --help` shows how to use it."
        )


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of `memlm`: a function with its arguments and options."""

    function: object
    help: str
    places: dict  # Maps positional arguments to `nargs` of argparse.
    own: tuple  # Options passed as keyword arguments of `function`.
    groups: dict  # Maps a dict argument of `function` to its options.

    @property
    def name(self):
        return self.function.__name__

    @property
    def options(self):
        """Options of this command, without those that all commands have."""
        return (*self.own, *itertools.chain(*self.groups.values()))

    @property
    def usage(self):
        places = (_PLACES[n].format(name) for name, n in self.places.items())
        return " ".join(["memlm", self.name, *places])

    def parse(self, arguments):
        """Parses a command line; returns an object with the positional
        arguments as attributes, and a dict of the options that have a value."""
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

    def run(self, positional, values, typed):
        """Calls the function, and returns its exit status, which may be `None`.
        `typed` is the command line, which some functions record in files."""
        arguments = dict(vars(positional))
        if "typed" in inspect.signature(self.function).parameters:
            arguments["typed"] = typed
        for name, group in self.groups.items():
            arguments[name] = {
                o.name: values.pop(o.name) for o in group if o.name in values
            }
        arguments |= {_parameter(name): value for name, value in values.items()}
        return self.function(**arguments)

    def describe(self):
        """Returns the text of `--help`."""
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


def command(help, places, *own, **groups):
    """Decorator that makes a `Command` from a function.

    Each option in `own` is passed to the function as a keyword argument of the
    same name. The option's default is the default in the function's signature.
    Each group of options is passed as a dict."""

    def make(function):
        parameters = inspect.signature(function).parameters
        defaults = {o: parameters[_parameter(o.name)].default for o in own}
        options = tuple(
            option
            if default in (None, inspect.Parameter.empty) or default is False
            else dataclasses.replace(option, default=default)
            for option, default in defaults.items()
        )
        return Command(function, help, places, options, groups)

    return make


def _parameter(name):
    """Returns the name of the function argument for an option."""
    return f"{name}_" if keyword.iskeyword(name) else name


class _Commands(collections.UserDict):
    """Maps names to `Command`s; a command's file is imported on access."""

    def __getitem__(self, name):
        file = f"memlm_keras.experiments.commands.{self.data[name]}"
        return getattr(importlib.import_module(file), name)


COMMANDS = _Commands(
    presets="presets",
    train="train",
    evaluate="evaluate",
    score="read",
    surprisal="surprisal",
    pairs="checks",
    certify="checks",
    generate="read",
    attention="read",
    export="export",
    predict="read",
    table="table",
)


def _describe(option):
    """Yields the lines that describe an option in `--help`."""
    text, default = option.help, option.default
    if option.name in options.OF_PRESET and "default" not in text:
        default = "the preset's"
    if default is not None:
        text = f"{text.rstrip('.')}; by default {default}."
    value = "|".join(map(str, option.choices or ()))
    value = value or _VALUES.get(option.type, f"| --no{option.name}")
    yield f"  --{option.name} {value}"
    yield from textwrap.wrap(
        text, 80, initial_indent=" " * 6, subsequent_indent=" " * 6
    )


def main(arguments=None):
    """Runs `memlm`, by default on `sys.argv`; returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Entry points of other packages may import TensorFlow.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    usual = warnings.formatwarning
    warnings.formatwarning = lambda text, *others: f"Warning: {text}\n"
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return _interrupted(arguments, signal.SIGINT)
    except process.Interrupted as error:
        return _interrupted(arguments, error.number)
    except BrokenPipeError:
        return process.closed_pipe()
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if "--traceback" in arguments:
            raise
        options.print_error("memlm", error)
        return _status(error, arguments)
    finally:
        warnings.formatwarning = usual


def _run(arguments):
    """Runs a command; returns the exit status."""
    name = arguments[0] if arguments else None
    if name in (None, "-h", "--help", "help"):
        print(_help())
        return 2 if name is None else 0
    if name == "--version":
        print(version.__version__)
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
    if options.VERBOSE in command.options:
        values.setdefault("verbose", 1 if sys.stdout.isatty() else 2)
    written = _files_to_write(command, positional, values)
    with process.signals_raise():
        if children.PARENT in os.environ:
            children.end_with_parent()
        process.choose_backend(
            values.pop("backend", None), values.pop("matmul_precision", None)
        )
        typed = shlex.join(["memlm", *arguments])
        status = command.run(positional, values, typed) or 0
        process.print_notes(*(f"Wrote {path}" for path in written))
        return status


def _files_to_write(command, positional, values):
    """Returns the paths of the files that a command writes. Raises `UsageError`
    for a folder, a wrong suffix, or a path that the command gets twice."""
    suffixes = {o.name: o.writes for o in command.options}
    written = {k: v for k, v in values.items() if suffixes.get(k) is not None}
    for name, path in written.items():
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
                f"--{name}={path} is already read or written by this command, "
                "and would be overwritten. Choose another file"
            )
        if not path.lower().endswith(suffixes[name]):
            raise UsageError(
                f"--{name} must end in {suffixes[name]}. Received: {path}"
            )
    return written.values()


def _status(error, arguments):
    """Returns the exit status for an error: 2 for a wrong command, such as one
    with a path that does not exist, and 1 otherwise."""
    if isinstance(error, options.OF_PATHS) and error.filename is not None:
        values = (
            a.partition("=")[2] if _FLAG.fullmatch(a) else a for a in arguments
        )
        typed = itertools.chain(*map(options.split_paths, values))
        return 2 if str(error.filename) in typed else 1
    return 2 if isinstance(error, UsageError) else 1


def _interrupted(arguments, number):
    line = "Interrupted."
    if arguments and arguments[0] in ("train", "table"):
        command = [a for a in arguments if a != "--overwrite"]
        line += " To continue, or to start again if there is no checkpoint: "
        line += shlex.join(["memlm", *command])
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
