"""Options: one thing each that can be told to an experiment or a command.

Nothing here imports Keras: the command line reads these before it knows on
which backend Keras is to be imported.
"""

import dataclasses
import difflib

CLASSIFIER = "EntailmentClassifier"
AUTOENCODER = "SequenceAutoencoder"
LANGUAGE_MODEL = "LanguageModel"
KNESER_NEY = "KneserNey"
# As sentences have them.
KINDS = {
    LANGUAGE_MODEL: "language models",
    CLASSIFIER: "classifiers",
    AUTOENCODER: "autoencoders",
    KNESER_NEY: "n-gram models, which count and have no weights",
}
# Kinds of models that have a recurrent layer.
NEURAL = (LANGUAGE_MODEL, CLASSIFIER, AUTOENCODER)


class UsageError(ValueError):
    """A name, a flag or a path is wrong: nothing was tried."""


class MissingTextError(UsageError):
    """There is no text at a path."""


class NoUseError(UsageError):
    """A preset has no use for an override that others have.

    Args:
        option: string, name of the override.
        message: string.
    """

    def __init__(self, option, message):
        super().__init__(message)
        self.option = option


def nearest(name, names):
    """End of a message that an unknown name has: the one that was meant.

    Args:
        name: string, what was received.
        names: names that there are.

    Returns:
        `" Did you mean NAME?"`, or an empty string if no name is alike.
    """
    found = difflib.get_close_matches(str(name), list(names), 1, 0.5)
    return f" Did you mean {found[0]}?" if found else ""


@dataclasses.dataclass(frozen=True)
class Option:
    """One thing that can be told.

    Attributes:
        name: string, name of the argument and of the flag.
        type: `str`, `int`, `float` or `bool`.
        help: string.
        choices: tuple of the values that there are, or `None`.
        at_least, at_most: numbers, or `None`.
        kinds: tuple of the kinds of model that have a use for it.
    """

    name: str
    type: type
    help: str
    choices: tuple | None = None
    at_least: float | None = None
    at_most: float | None = None
    kinds: tuple = (*NEURAL, KNESER_NEY)

    def read(self, value):
        """Returns a value, or a text of it, as what it should be.

        Raises:
            UsageError: if it cannot be.
        """
        found = self._converted(value)
        if (
            found is None
            or (self.choices is not None and found not in self.choices)
            or (self.at_least is not None and found < self.at_least)
            or (self.at_most is not None and found > self.at_most)
        ):
            hint = nearest(value, self.choices) if self.choices else ""
            raise UsageError(
                f"{self.name} must be {self._expected()}. Received: "
                f"{value!r}{hint and '.'}{hint}"
            )
        return found

    def _converted(self, value):
        """The value as `type`, or `None`."""
        if self.type is bool and isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        if isinstance(value, bool) and self.type in (int, float):
            return None
        if self.type is int and isinstance(value, float) and value % 1:
            return None
        try:
            return self.type(value)
        except (TypeError, ValueError):
            return None

    def _expected(self):
        if self.choices is not None:
            return f"one of {', '.join(map(str, self.choices))}"
        names = {int: "an integer", float: "a number", bool: "true or false"}
        text = names.get(self.type, "a text")
        if self.at_least is not None:
            text += f" of at least {self.at_least:g}"
        if self.at_most is not None:
            text += f", at most {self.at_most:g}"
        return text


def read_options(options, values, kind=None):
    """Checks values by the options that they are of.

    Args:
        options: tuple of `Option`s.
        values: dict by name; those that are `None` count as not given.
        kind: string, the kind of model that they are for, or `None`.

    Returns:
        Dict of the values that are given, in the order of the options, so
        that the same ones are the same experiment in whatever order.

    Raises:
        UsageError: for a name that there is not, a value that cannot be, and
            one that the kind of model has no use for.
    """
    known = {option.name: option for option in options}
    found = {}
    for name, value in values.items():
        if name not in known:
            raise UsageError(
                f"There is no setting {name!r}.{nearest(name, known)}"
            )
        if value is None:
            continue
        option = known[name]
        if kind is not None and kind not in option.kinds:
            raise NoUseError(
                name,
                f"{name} has no meaning for {KINDS[kind]}. Received: "
                f"{name}={value}",
            )
        found[name] = option.read(value)
    return {name: found[name] for name in known if name in found}


def take(options, values, kind=None):
    """Takes the values of a group of options out of `values`, and checks them.

    Returns:
        Dict, as of `read_options`.
    """
    taken = {o.name: values.pop(o.name) for o in options if o.name in values}
    return read_options(options, taken, kind)
