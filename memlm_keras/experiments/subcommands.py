"""Subcommands of `memlm`: their arguments and flags.

Nothing here imports Keras.
"""

import argparse
import re
import sys

from absl import flags
from absl.flags import argparse_flags

from memlm_keras.experiments import settings
from memlm_keras.experiments.options import Option
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import nearest

BACKENDS = ("tensorflow", "jax", "torch")
_TYPES = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
}
_EVERYWHERE = (
    Option(
        "backend",
        str,
        "Keras backend; by default the one that Keras is configured for.",
        choices=BACKENDS,
    ),
    Option("traceback", bool, "Show where in the program an error came from."),
)
_RUN = "A run folder, or a .keras file."
# How a place is marked that need not be filled, or not by one thing alone.
_PLACE = re.compile(r"(?P<open>\[?)(?P<name>[A-Z/]+)(?P<more>( \.\.\.)?)\]?")
_NARGS = {
    ("", ""): None,
    ("[", ""): "?",
    ("", " ..."): "+",
    ("[", " ..."): "*",
}


class _Parser(argparse_flags.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message):
        raise UsageError(message)


class Command:
    """A subcommand: its arguments and flags.

    Args:
        name: string.
        help: string, one line.
        places: tuple of its positional arguments, as `--help` shows them:
            `"RUN"`, `"[PROMPT]"` where it may be left out, `"[TEXT ...]"`.
        groups: tuples of `Option`s, its flags.
        module: string, the module of this folder that has it as a function.
        grid: whether it takes `--grid SETTING=VALUE,VALUE ...`.
    """

    def __init__(self, name, help, places, *groups, module, grid=False):
        self.name = name
        self.help = help
        self.places = places
        self.options = [o for group in (_EVERYWHERE, *groups) for o in group]
        self.module = module
        self.grid = grid

    def parser(self):
        """Returns the parser, and the flags that it fills in."""
        values = flags.FlagValues()
        for option in self.options:
            arguments = (option.name, None, option.help)
            if option.choices and option.type is str:
                name, default, help = arguments
                flags.DEFINE_enum(
                    name, default, option.choices, help, flag_values=values
                )
            else:
                _TYPES[option.type](*arguments, flag_values=values)
        for name in values:
            # So that --help tells of them.
            values.register_key_flag_for_module(sys.argv[0], values[name])
        parser = _Parser(
            prog=f"memlm {self.name}",
            usage=" ".join(["memlm", self.name, *self.places, "[flags]"]),
            description=self.help,
            inherited_absl_flags=values,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for text in self.places:
            place = _PLACE.fullmatch(text)
            name = place["name"]
            parser.add_argument(
                name.rpartition("/")[2].lower(),
                nargs=_NARGS[place["open"], place["more"]],
                metavar=name,
                help=_RUN if name == "RUN" else None,
            )
        if self.grid:
            parser.add_argument(
                "--grid",
                nargs="+",
                action="extend",
                metavar="SETTING=VALUE,VALUE",
                help="Train each row with all combinations of values, and "
                "choose by the validation text.",
            )
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
        known = [*values, *(["grid"] if self.grid else [])]
        # A wrong flag is told of before arguments that are missing.
        for argument in arguments:
            name = argument.partition("=")[0]
            if not name.startswith("--") or name in ("--", "--help"):
                continue
            if name[2:] not in known and name.removeprefix("--no") not in known:
                raise UsageError(
                    f"memlm {self.name} has no flag {name}."
                    f"{nearest(name, [f'--{flag}' for flag in known])}"
                )
        more = f"`memlm {self.name} --help` tells more."
        try:
            positional, left = parser.parse_known_args(arguments)
        except flags.Error as error:
            raise UsageError(f"memlm {self.name}: {error}") from None
        except UsageError as error:
            raise UsageError(f"memlm {self.name}: {error}. {more}") from None
        if left:
            raise UsageError(
                f"memlm {self.name} does not know what to do with {left[0]!r}; "
                f"{more}"
            )
        return positional, {
            name: values[name].value
            for name in values
            if values[name].value is not None
        }


def as_flag(name, value):
    """A value as the flag that says it."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return f"--{name}={value}"


_DATASET = Option(
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
_WHERE = (
    _DATASET,
    Option("run_dir", str, "Folder that run folders go in; by default runs."),
    Option("overwrite", bool, "Move an older run aside, and begin anew."),
)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "presets",
            "Lists the rows of the papers' tables: units, parameters, what "
            "each is.",
            ("[PATTERN]",),
            [settings.OVERRIDES[name] for name in ("vocabulary_size", "scale")],
            module="commands",
        ),
        Command(
            "train",
            "Trains a preset in a run folder, or goes on with it.",
            ("PRESET",),
            _WHERE,
            [Option("seed", int, "Seed of weights, dropout and shuffling.")],
            settings.OVERRIDES.values(),
            settings.RUNNING,
            settings.MEASURES,
            settings.PICTURES,
            module="commands",
        ),
        Command(
            "evaluate",
            "Measures trained models; several of them, by the mean of their "
            "probabilities. A .keras file without its run folder needs "
            "--dataset.",
            ("RUN ...",),
            [_DATASET, settings.VERBOSE],
            settings.READING,
            settings.MEASURES,
            module="evaluation_commands",
        ),
        Command(
            "score",
            "Log-probability of each word of sentences, and their perplexity; "
            "without TEXT, of the lines that come in.",
            ("RUN", "[TEXT ...]"),
            module="run_commands",
        ),
        Command(
            "surprisal",
            "Surprisal, entropy and rank of each word of a text file, a "
            "sentence a line, as a table with tabs; of several models, by the "
            "mean of their probabilities.",
            ("RUN ...", "FILE"),
            settings.SURPRISAL,
            module="run_commands",
        ),
        Command(
            "generate",
            "Goes on with a text.",
            ("RUN", "[PROMPT]"),
            [
                Option("max_length", int, "Words in all; by default 50."),
                Option(
                    "sampler",
                    str,
                    "How words are chosen; by default top_k.",
                    choices=("top_k", "top_p", "greedy", "beam", "random"),
                ),
                Option("sentences", int, "How many; by default 3."),
                Option("seed", int, "Seed of what is chosen."),
            ],
            module="run_commands",
        ),
        Command(
            "attention",
            "Draws where a model attends, in its run folder; TEXT is a "
            "sentence to draw, too. With --out, TEXT alone, as a page to "
            "point at.",
            ("RUN", "[TEXT]"),
            [
                *settings.DRAWING,
                Option(
                    "out",
                    str,
                    "HTML file to write instead of pictures: pointing at a "
                    "word of TEXT shows where the model looked back.",
                ),
            ],
            [settings.VERBOSE],
            module="run_commands",
        ),
        Command(
            "export",
            "Writes a model as a SavedModel for TensorFlow Serving, in FOLDER "
            "(saved_models/NAME or saved_models/NAME/VERSION; by default the "
            "next version of the run's name); or as a file or folder of "
            "another format (by default of the run's name).",
            ("RUN", "[FOLDER]"),
            [
                Option(
                    "format",
                    str,
                    "Format; by default tf_saved_model.",
                    choices=("tf_saved_model", "onnx", "triton", "litert"),
                ),
                Option(
                    "overwrite",
                    bool,
                    "Replace what is there of that format.",
                ),
                Option(
                    "quantize",
                    str,
                    "Weights of eight bits, of --format=litert.",
                    choices=("int8",),
                ),
                Option(
                    "for",
                    str,
                    "Server whose model repository to write, with the state "
                    "kept by the server.",
                    choices=("triton",),
                ),
                Option(
                    "contract",
                    str,
                    "Inputs and outputs of --format=onnx: those of "
                    "sherpa-onnx's shallow fusion, or of its rescoring.",
                    choices=("sherpa", "sherpa_offline"),
                ),
                Option(
                    "tokens",
                    str,
                    "The recogniser's tokens.txt, which the model's "
                    "vocabulary must agree with.",
                ),
            ],
            module="run_commands",
        ),
        Command(
            "predict",
            "Tells whether a hypothesis follows from a premise.",
            ("RUN", "PREMISE", "HYPOTHESIS"),
            module="run_commands",
        ),
        Command(
            "table",
            "Trains every row of a table of a paper, and writes the table "
            "beside the paper's numbers.",
            ("PAPER/TABLE",),
            _WHERE,
            [
                Option("rows", str, "Rows, with commas; by default all."),
                Option("seeds", str, "Seeds, such as 0,1,2; by default 0."),
                Option(
                    "finished_only",
                    bool,
                    "Train nothing, and write the table of what is finished.",
                ),
            ],
            settings.OVERRIDES.values(),
            [o for o in settings.RUNNING if o is not settings.VERBOSE],
            settings.MEASURES,
            [settings.PASSAGE, settings.SENTENCE],
            module="commands",
            grid=True,
        ),
        Command(
            "claims",
            "Decides claims of the papers: trains what they compare, and "
            "writes verdicts. CLAIM is a paper, or PAPER/CLAIM as claims.md "
            "names it; by default all.",
            ("[CLAIM ...]",),
            [
                Option("setting", str, "The runs of this setting only."),
                Option(
                    "size",
                    str,
                    "Sizes of models: small (the default), or the paper's.",
                    choices=("small", "paper"),
                ),
                Option("queue", bool, "Show the runs to come, and train none."),
                Option(
                    "finished_only",
                    bool,
                    "Train nothing, and write what finished runs decide, of "
                    "all claims.",
                ),
                Option(
                    "minutes",
                    float,
                    "Interrupt after so long; the same command goes on.",
                    at_least=0,
                ),
                Option(
                    "jobs",
                    int,
                    "How many runs are trained side by side; by default one.",
                    at_least=1,
                ),
                Option(
                    "out",
                    str,
                    "Folder of claims.md and the logs it rests on; by default "
                    "claims.",
                ),
                Option("run_dir", str, "Folder that run folders go in."),
                next(o for o in settings.READING if o.name == "data_dir"),
            ],
            module="claims",
        ),
    )
}
