"""Subcommands of `memlm`: their arguments and flags.

Nothing here imports Keras.
"""

import argparse
import sys

from absl import flags
from absl.flags import argparse_flags

from memlm_keras.experiments import options
from memlm_keras.experiments import settings
from memlm_keras.experiments.options import UsageError

BACKENDS = ("tensorflow", "jax", "torch")
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
        module: string, the module of this folder that has it as a function.
    """

    def __init__(self, name, help, positional=(), groups=(), module="commands"):
        self.name = name
        self.module = module
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
            `(positional, values)`: the positional arguments, and a dict of the
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
            positional, more = parser.parse_known_args(arguments)
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
        return positional, {
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
_OVERRIDES = (settings.READING, settings.SIZES, settings.TRAINING)
_VERBOSE = (settings.RUNNING[-1],)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "presets",
            "Lists the rows of the papers' tables: units, parameters, what "
            "each is.",
            [("pattern", {"nargs": "?", "metavar": "PATTERN"})],
            (
                (
                    settings.OVERRIDES["vocabulary_size"],
                    settings.OVERRIDES["scale"],
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
                settings.RUNNING,
                settings.MEASURES,
                settings.PICTURES,
            ),
        ),
        Command(
            "evaluate",
            "Measures trained models; several of them, by the mean of their "
            "probabilities.",
            [("run", {"nargs": "+", "metavar": "RUN", "help": _RUN})],
            ((_DATASET,), settings.READING, settings.MEASURES, _VERBOSE),
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
            module="run_commands",
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
            module="run_commands",
        ),
        Command(
            "attention",
            "Draws where a model attends, in its run folder.",
            [
                ("run", {"metavar": "RUN", "help": _RUN}),
                (
                    "text",
                    {
                        "nargs": "?",
                        "metavar": "TEXT",
                        "help": "A sentence to draw, or, of models of "
                        "sentences, one of the test text.",
                    },
                ),
            ],
            (
                tuple(o for o in settings.PICTURES if o.name != "sentence"),
                _VERBOSE,
            ),
            module="run_commands",
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
            module="run_commands",
        ),
        Command(
            "predict",
            "Tells whether a hypothesis follows from a premise.",
            [
                ("run", {"metavar": "RUN", "help": _RUN}),
                ("premise", {"metavar": "PREMISE"}),
                ("hypothesis", {"metavar": "HYPOTHESIS"}),
            ],
            module="run_commands",
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
                settings.RUNNING[:-1],
                settings.MEASURES,
                settings.PICTURES[:2],
            ),
        ),
    )
}
