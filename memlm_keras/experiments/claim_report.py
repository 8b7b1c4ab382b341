"""The document of the papers' claims and our verdicts."""

import statistics

import numpy as np

from memlm_keras import files
from memlm_keras import presets
from memlm_keras.experiments.claim_settings import SETTINGS
from memlm_keras.experiments.claims import NOT_DECIDED
from memlm_keras.experiments.claims import NOT_RUN
from memlm_keras.experiments.claims import SEEN
from memlm_keras.experiments.claims import difference
from memlm_keras.experiments.claims import verdict
from memlm_keras.experiments.claims_of_papers import CLAIMS

_INTRODUCTION = """# Claims

Each claim of the five papers about which model is better, what it rests on
there, and what our runs say of it. A difference is in per cent of the
perplexity of the second model (of pairs, in points of accuracy), positive
where the claim is right, with an interval of 95%: seeds of both models are
drawn anew, and so are the sentences of the test text, the same for both. A
claim *holds* where the whole interval is on its side, and *does not hold*
where none of it reaches half a per cent, or half a point, on its side; of
equal models (*as good as*) the interval must lie within 2%. With fewer seeds
than a setting asks for, nothing is decided; of two seeds an interval knows
little of their spread, and is mostly that of the sentences. A setting of which
nothing has run is left out where another tests the claim, and its commands
stand below. The papers' numbers are of other texts or sizes, and stand beside
ours to be compared with each other only. In brackets are parameters.
"""
_COLUMNS = (
    "claim",
    "theirs",
    "setting",
    "ours",
    "difference",
    "seeds",
    "verdict",
)


def write(path, models, losses, size, command):
    """Writes the document, whole.

    Args:
        path: path of a Markdown file.
        models: dict of `Model`s by setting and text.
        losses: dict of their `Losses`, or `None` where there are none yet.
        size: `"small"` or `"paper"`.
        command: string, what was typed.
    """
    lines = [_INTRODUCTION, f"    {command}", ""]
    for name in dict.fromkeys(claim.paper for claim in CLAIMS):
        lines += [f"## {presets.papers()[name].citation}", ""]
        lines += _row(_COLUMNS) + ["|" + "---|" * len(_COLUMNS)]
        for claim in CLAIMS:
            if claim.paper == name:
                lines += _of_claim(claim, losses, size)
        lines.append("")
    lines += ["## Settings and runs", ""]
    lines += _of_settings(models, losses, size)
    with files.atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _of_claim(claim, losses, size):
    stated = f"`{claim.paper}/{claim.name}`: {claim.statement} ({claim.where})"
    if not claim.settings:
        told = claim.seen or claim.missing
        verdict_of_none = f"*{SEEN if claim.seen else NOT_DECIDED}*"
        return _row(
            (stated, claim.published, "", told, "", "", verdict_of_none)
        )
    lines = []
    of_settings = {
        name: [losses[name, text] for text in (claim.better, claim.than)]
        for name in claim.settings
    }
    tested = {
        name: both for name, both in of_settings.items() if both != [None] * 2
    }
    for name, both in (tested or of_settings).items():
        setting = SETTINGS[name]
        found = None if None in both else difference(*both)
        is_pairs = claim.paper == "weissenborn2016"
        told = f"*{verdict(claim, found, setting.seeds)}*"
        if claim.caution and found is not None and size == "small":
            told += f", but {claim.caution}"
        cells = (
            stated,
            claim.published,
            name,
            f"{claim.better} {_level(both[0], is_pairs)}, "
            f"{claim.than} {_level(both[1], is_pairs)}",
            "" if found is None else _in_percent(found, is_pairs),
            _seeds(found, setting.seeds),
            told if tested else f"*{NOT_RUN}*",
        )
        lines += _row(cells)
    return lines


def _level(losses, is_pairs):
    """Mean and standard deviation of a perplexity, or of an accuracy."""
    if losses is None:
        return "?"
    found = losses.by_seed
    values = 100 * (1 - found) if is_pairs else np.exp(found)
    text = f"{values.mean():.1f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.1f}"
    if losses.parameters is not None:
        text += f" ({losses.parameters / 1e6:.2f}M)"
    return text


def _seeds(found, wanted):
    seeds = 0 if found is None else found.seeds
    return f"{seeds} of {wanted}" if seeds < wanted else str(seeds)


def _in_percent(found, is_pairs):
    """A `Difference` as people read it."""
    numbers = found.mean, found.low, found.high
    if is_pairs:
        shown = [100 * number for number in numbers]
    else:
        shown = [100 * (1 - np.exp(-number)) for number in numbers]
    return "{:.1f} ({:.1f} to {:.1f})".format(*shown)


def _of_settings(models, losses, size):
    lines = []
    for name, setting in SETTINGS.items():
        lines += [f"### {name}", "", f"{setting.description}.", ""]
        if size == "paper":
            lines[-2] = "At the paper's size."
        for (of, _), model in models.items():
            if of != name:
                continue
            lines.append(f"    {model.run(0).command}")
        found = [
            min(found.seeds, setting.seeds)
            for (of, _), found in losses.items()
            if of == name and found
        ]
        wanted = setting.seeds * sum(of == name for of, _ in models)
        lines += ["", f"{sum(found)} of {wanted} runs are finished.", ""]
    return lines


def _row(cells):
    return ["| " + " | ".join(cells) + " |"]
