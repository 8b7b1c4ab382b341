"""Test suites of SyntaxGym, whose formulas compare surprisal of regions."""

import ast
import bisect
import collections
import dataclasses
import functools
import json
import math
import operator
import re

import numpy as np

from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary
from memlm_keras.data import tables
from memlm_keras.linguistics.minimal_pairs import GroupedResults
from memlm_keras.linguistics.minimal_pairs import TokenizedText
from memlm_keras.linguistics.minimal_pairs import mean_accuracy
from memlm_keras.linguistics.minimal_pairs import token_scores
from memlm_keras.models.surprisal import UNITS

# Maps the first part of a test suite's name to the suite's circuit. A circuit
# is a class of syntactic phenomena (Hu et al., 2020).
CIRCUITS = {
    "number": "Agreement",
    "npi": "Licensing",
    "reflexive": "Licensing",
    "mvrr": "Garden-Path Effects",
    "npz": "Garden-Path Effects",
    "subordination": "Gross Syntactic State",
    "center": "Center Embedding",
    "cleft": "Long-Distance Dependencies",
    "fgd": "Long-Distance Dependencies",
}

# === Formulas ===

_TOKEN = re.compile(
    r"\s*(?:\(\s*(?P<region>\d+|\*)\s*;\s*%(?P<condition>[^%]*)%\s*\)"
    r"|(?P<number>\d+(?:\.\d+)?)|(?P<symbol>[-+<>=&|()\[\]]))\s*"
)
# Symbols that are written differently in Python.
_IN_PYTHON = {"=": "==", "&": " and ", "|": " or "}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    # As in SyntaxGym.
    ast.Eq: functools.partial(math.isclose, rel_tol=1e-5, abs_tol=1e-3),
    ast.And: lambda *values: all(values),
    ast.Or: lambda *values: any(values),
}


class Formula:
    """A formula of SyntaxGym, which compares surprisals of sentences' regions.

    In `(5;%a%) + (6;%a%) < (5;%b%)`, `(5;%a%)` is the surprisal of region 5 in
    the sentence of condition `a`. `(*;%a%)` is the surprisal of the whole
    sentence. `+` and `-` bind tighter than `<`, `>` and `=`, which bind tighter
    than `&` and `|`. Round and square brackets group terms. In a formula,
    `a = b` is true if the difference of the two numbers is at most 0.001 bits,
    or at most 1e-5 of the larger number.

    Args:
        text: string.

    Attributes:
        references: list of pairs: a region, which is an integer or `"*"`, and
            the name of a condition.

    Raises:
        ValueError: for a syntax error; the message gives its position.

    Example:

    >>> formula = Formula("(1;%a%) > (1;%b%) & (*;%a%) > 3")
    >>> formula({("a", 1): 4.0, ("a", 2): 1.5, ("b", 1): 3.0})
    True
    """

    def __init__(self, text):
        self.text = text
        self.references = []
        # The formula in Python, and the position of each token in `text`.
        python, self._places, place = "", {}, 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                place += len(text[place:]) - len(text[place:].lstrip())
                self._fail("does not belong to formulas", place)
            token = match["symbol"] or match["number"]
            if token is None:
                token = f"r{len(self.references)}"
                region = match["region"]
                region = region if region == "*" else int(region)
                self.references.append((region, match["condition"]))
            elif match["number"]:
                token = repr(float(token))
            self._places[len(python)] = match.end() - len(match[0].lstrip())
            python += _IN_PYTHON.get(token, token) + " "
            place = match.end()
        self._places[len(python)] = len(text)
        try:
            ast.parse(python, mode="eval")
        except SyntaxError as error:
            starts = [*self._places]
            start = starts[bisect.bisect(starts, error.offset - 1) - 1]
            # Drop the sentences of Python's message that are about Python code.
            what = f"is wrong: {error.msg.split('.')[0]}"
            self._fail(what, self._places[start])
        # Brackets become lists of one element: a Python syntax tree has none.
        python = python.replace("(", "[").replace(")", "]")
        self._tree = ast.parse(python, mode="eval").body
        self._require(self._tree, truth=True)

    def _fail(self, what, place):
        found = self.text[place:].split()
        found = repr(found[0]) if found else "its end"
        raise ValueError(
            f"the formula {self.text!r} has an error at character {place + 1}: "
            f"{found} {what}"
        )

    def _require(self, node, truth):
        """Checks that an expression is boolean if `truth`, or else a number."""
        place = self._places[node.col_offset]
        match node:
            case ast.List(elts=[inner]):
                self._require(inner, truth)
                return
            case ast.Constant() | ast.Name():
                parts = []
            case ast.UnaryOp(op=ast.USub(), operand=part):
                parts = [part]
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                parts = [left, right]
            case ast.Compare(ops=[_], left=left, comparators=[right]):
                parts = [left, right]
            case ast.BoolOp(values=parts):
                if any(isinstance(part, ast.BoolOp) for part in parts):
                    self._fail("needs brackets: & and | are mixed", place)
            case _:
                self._fail("is not expected", place)
        if isinstance(node, (ast.Compare, ast.BoolOp)) != truth:
            what = "compare numbers with <, > or =" if truth else "be a number"
            self._fail(f"must {what}", place)
        for part in parts:
            self._require(part, truth=isinstance(node, ast.BoolOp))

    def __call__(self, sums):
        """Returns whether the formula is true for `sums`, a dict from pairs
        `(condition, region)` to surprisal in bits."""
        return self._value(self._tree, sums)

    def has_tie(self, sums):
        """Returns whether a `<` or `>` of the formula has two equal sides."""
        return any(
            self._value(node.left, sums)
            == self._value(node.comparators[0], sums)
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Compare)
            and not isinstance(node.ops[0], ast.Eq)
        )

    def _value(self, node, sums):
        match node:
            case ast.Constant(value=number):
                return number
            case ast.Name(id=name):
                region, condition = self.references[int(name[1:])]
                if region != "*":
                    return sums[condition, region]
                return sum(v for (n, _), v in sums.items() if n == condition)
            case ast.List(elts=[inner]):
                return self._value(inner, sums)
            case ast.UnaryOp(operand=operand):
                return -self._value(operand, sums)
            case ast.BinOp(op=symbol, left=left, right=right):
                parts = [left, right]
            case ast.Compare(ops=[symbol], left=left, comparators=[right]):
                parts = [left, right]
            case ast.BoolOp(op=symbol, values=parts):
                pass
        values = (self._value(part, sums) for part in parts)
        return _OPERATORS[type(symbol)](*values)


# === Suites ===


@dataclasses.dataclass(frozen=True)
class Suite:
    """A test suite: sentences in regions, and predictions about them.

    Attributes:
        name, circuit: strings.
        predictions: tuple of `Formula`s; an item is correct if all are true.
        items: nested dicts from the number of an item, the name of a condition
            and the number of a region to a text.
        region_names: dict from the number of a region to its name.
    """

    name: str
    circuit: str
    predictions: tuple
    items: dict = dataclasses.field(repr=False)
    region_names: dict = dataclasses.field(repr=False)


def read_suites(path):
    """Reads test suites in the JSON format of SyntaxGym.

    Args:
        path: path of a `.json` file, of a folder of such files, or of a `.zip`
            archive. A circuit is a class of phenomena. The circuit of a suite
            is its `meta.circuit`, or follows from its name (Hu et al., 2020),
            or is `"other"`. If suites have equal names, the files' names are
            added.

    Returns:
        List of `Suite`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a file in another format, and for a formula with a
            syntax error, or with a condition or region that an item lacks.

    Example:

    >>> suite = {
    ...     "meta": {"name": "number_mine", "metric": "sum"},
    ...     "region_meta": {"1": "subject", "2": "verb"},
    ...     "predictions": [
    ...         {"type": "formula", "formula": "(2;%same%) < (2;%other%)"}
    ...     ],
    ...     "items": [
    ...         {
    ...             "item_number": 1,
    ...             "conditions": [
    ...                 {
    ...                     "condition_name": name,
    ...                     "regions": [
    ...                         {"region_number": 1, "content": "the man"},
    ...                         {"region_number": 2, "content": verb},
    ...                     ],
    ...                 }
    ...                 for name, verb in (("same", "was"), ("other", "were"))
    ...             ],
    ...         }
    ...     ],
    ... }
    >>> with open("number_mine.json", "w") as file:
    ...     json.dump(suite, file)
    >>> [suite.circuit for suite in read_suites("number_mine.json")]
    ['Agreement']
    """
    suites, texts = {}, tables.read_texts(path, (".json",))
    for file, text in texts:
        with tables.naming(file):
            try:
                suites[file] = _suite(json.loads(text))
            except (KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    "the file is not a SyntaxGym suite, with meta, "
                    "predictions, and items with conditions and regions: "
                    f"{type(error).__name__} {error}"
                ) from error
    count = collections.Counter(suite.name for suite in suites.values())
    names = dict(zip(suites, tables.names_of(suites)))
    return [
        suite
        if count[suite.name] == 1
        else dataclasses.replace(suite, name=f"{suite.name} ({names[file]})")
        for file, suite in suites.items()
    ]


def _suite(content):
    meta = content["meta"]
    name = meta["name"]
    if meta.get("metric", "sum") != "sum":
        raise ValueError(
            f"`meta.metric` must be 'sum'. Received: metric={meta['metric']!r}"
        )
    items = {}
    for item in content["items"]:
        conditions = _new(items, item["item_number"], "item", {})
        with tables.naming(f"item {item['item_number']}"):
            for condition in item["conditions"]:
                name_of = condition["condition_name"]
                regions = _new(conditions, name_of, "condition", {})
                for region in condition["regions"]:
                    text, number = region["content"], region["region_number"]
                    if not isinstance(text, str):
                        raise ValueError(
                            f"the content of region {number} of {name_of} must "
                            f"be a string, which may be empty. Received: {text}"
                        )
                    _new(regions, number, "region", text.strip())
    predictions = tuple(
        Formula(prediction["formula"]) for prediction in content["predictions"]
    )
    if not items or not predictions:
        raise ValueError("a suite must have items and predictions")
    for number, conditions in items.items():
        for formula in predictions:
            for region, condition in formula.references:
                where = f"({region};%{condition}%) of the formula"
                if condition not in conditions:
                    raise ValueError(
                        f"{where} names no condition of item {number}, which "
                        f"has {', '.join(conditions)}"
                    )
                regions = conditions[condition]
                if region != "*" and region not in regions:
                    raise ValueError(
                        f"{where} names no region of item {number}, which has "
                        f"{', '.join(map(str, regions))}"
                    )
    names = content.get("region_meta") or {}
    return Suite(
        name=name,
        circuit=meta.get("circuit")
        or CIRCUITS.get(re.split("[_-]", name)[0], "other"),
        predictions=predictions,
        items=items,
        region_names={int(number): each for number, each in names.items()},
    )


def _new(known, name, what, value):
    """Adds a value to a dict and returns it; raises if the name is taken."""
    if name in known:
        raise ValueError(f"{what} {name} occurs twice")
    known[name] = value
    return value


# === Measuring ===


@dataclasses.dataclass(frozen=True)
class SuiteAccuracy:
    """Share of items whose predictions are all true, averaged over suites.

    Attributes:
        items, suites: integers, the numbers of items and suites.
        accuracy: float.
        ties: integer, number of items with a `<` or `>` between equal numbers.
        unknown: integer, number of items with unknown words.
        interval: two floats, 95% interval over items, as in `PairAccuracy`.
    """

    items: int
    suites: int
    accuracy: float
    ties: int
    unknown: int
    interval: tuple

    def __str__(self):
        low, high = self.interval
        return (
            f"accuracy {self.accuracy:.4f}, 95% interval over items {low:.4f} "
            f"to {high:.4f}; {self.ties} of {self.items} items with ties, "
            f"{self.unknown} with unknown words"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class SuiteResults(GroupedResults):
    """Surprisal of the regions of test suites, and whether formulas are true.

    Attributes:
        regions: tuple of dicts, one per region of a sentence: `suite`,
            `circuit`, `item`, `condition`, `region`, `region_name`, `content`,
            `surprisal_bits`, `unknown` and `correct` (whether all predictions
            about the item are true).
        items: tuple of dicts, one per item: `suite`, `circuit`, `item`,
            `predictions` (a tuple of bools), `correct`, `tie` and `unknown`.
        protocol: string, how the numbers were computed.
    """

    regions: tuple = dataclasses.field(repr=False)
    items: tuple = dataclasses.field(repr=False)
    protocol: str

    levels = ("circuit", "suite")

    def __len__(self):
        return len(self.items)

    def _value(self, place, name):
        return self.items[place][name]

    def _accuracy(self, places):
        items = [self.items[place] for place in places]
        suites = [
            np.array([float(self.items[place]["correct"]) for place in group])
            for group in self._groups("suite", places).values()
        ]
        accuracy, interval = mean_accuracy(suites)
        return SuiteAccuracy(
            items=len(items),
            suites=len(suites),
            accuracy=accuracy,
            ties=sum(item["tie"] for item in items),
            unknown=sum(item["unknown"] for item in items),
            interval=interval,
        )

    def columns(self):
        """Returns a dict of columns by name, with one row per region."""
        columns = {
            name: [region[name] for region in self.regions]
            for name in self.regions[0]
        }
        bits = np.array(columns["surprisal_bits"])
        return {**columns, "surprisal_bits": bits}


def suite_results(model, suites, vocabulary=None, batch_size=128, verbose=1):
    """Evaluates the predictions of test suites.

    Regions are joined by spaces into a sentence, which is read from the initial
    state. The surprisal of a region is the sum over its tokens, in bits, and 0
    if it is empty. The end of the sentence belongs to no region.

    Args:
        model, vocabulary, batch_size, verbose: as for `minimal_pairs`.
        suites: list of `Suite`s, as from `read_suites`.

    Returns:
        `SuiteResults`.

    Raises:
        ValueError: for no suites, two suites with one name, a vocabulary that
            is missing or has another size, a token that spans two regions,
            and a model that is not causal or has no probabilities.

    Example:

    >>> conditions = {"a": {1: "the man", 2: "was"}, "b": {1: "man", 2: "was"}}
    >>> formula = Formula("(2;%a%) < (2;%b%)")
    >>> suite = Suite("mine", "other", (formula,), {1: conditions}, {})
    >>> results = suite_results(lm, [suite], verbose=0)
    >>> results.by("suite")["mine"].items
    1
    """
    require_streaming("`suite_results`", model)
    vocabulary = require_vocabulary(model, vocabulary)
    if not suites:
        raise ValueError("`suites` must hold a suite. Received: none")
    names = [suite.name for suite in suites]
    if len({*names}) < len(names):
        raise ValueError(
            "`suites` must have different names. Received: "
            f"{', '.join(sorted(names))}"
        )
    texts = [
        TokenizedText(vocabulary, [*regions.values()])
        for suite in suites
        for conditions in suite.items.values()
        for regions in conditions.values()
    ]
    scores = token_scores(
        model, [text.ids for text in texts], vocabulary, batch_size, verbose
    )
    measured = zip(texts, scores)
    evaluated = [
        _evaluate(suite, number, {name: next(measured) for name in conditions})
        for suite in suites
        for number, conditions in suite.items.items()
    ]
    results = SuiteResults(
        regions=tuple(row for _, regions in evaluated for row in regions),
        items=tuple(item for item, _ in evaluated),
        protocol=(
            "sums of surprisal in bits over regions, without <eos>, state "
            "reset before each sentence"
        ),
    )
    if verbose:
        print(f"{results.accuracy}; {results.protocol}")
    return results


def _evaluate(suite, number, measured):
    """Returns a dict for an item and dicts for its regions. `measured` maps
    each condition to a `TokenizedText` and the scores of its tokens."""
    sums = {}
    for condition, (text, scores) in measured.items():
        bits = -scores / UNITS["bits"]
        names = suite.items[number][condition]
        ends = [*text.starts[1:], len(bits)]
        for region, begin, end in zip(names, text.starts, ends):
            sums[condition, region] = float(bits[begin:end].sum())
    common = {"suite": suite.name, "circuit": suite.circuit, "item": number}
    holds = tuple(bool(formula(sums)) for formula in suite.predictions)
    unknown = {
        name: " ".join(text.unknown) for name, (text, _) in measured.items()
    }
    item = {
        **common,
        "predictions": holds,
        "correct": all(holds),
        "tie": any(formula.has_tie(sums) for formula in suite.predictions),
        "unknown": any(unknown.values()),
    }
    regions = [
        {
            **common,
            "condition": condition,
            "region": region,
            "region_name": suite.region_names.get(region, ""),
            "content": suite.items[number][condition][region],
            "surprisal_bits": bits,
            "unknown": unknown[condition],
            "correct": int(all(holds)),
        }
        for (condition, region), bits in sums.items()
    ]
    return item, regions
