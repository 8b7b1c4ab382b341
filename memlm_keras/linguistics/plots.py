"""Plots of accuracies and of perplexity by recency, as PNG."""

import itertools
import math

from memlm_keras.analysis import pictures
from memlm_keras.linguistics.minimal_pairs import published_mean


def draw_accuracies(measured, path, published):
    """Draws accuracies by phenomenon, paradigm or circuit of SyntaxGym."""
    first = next(iter(measured.values()))
    level = next(
        level
        for level in ("circuit", "phenomenon", "paradigm")
        if level in first.levels and first.by(level)
    )
    groups = list(first.by(level))
    figure, axes = pictures.subplots(8, 1.5 + 0.4 * len(groups))
    places = range(len(groups))
    for number, (run, result) in enumerate(measured.items()):
        found = [result.by(level)[name] for name in groups]
        middle = [each.accuracy for each in found]
        ends = [
            [m - each.interval[0], each.interval[1] - m]
            for m, each in zip(middle, found)
        ]
        shift = 0.1 * (number - (len(measured) - 1) / 2)
        axes.errorbar(
            middle,
            [place + shift for place in places],
            xerr=list(zip(*ends)),
            fmt="o",
            capsize=3,
            label=str(run),
        )
    paradigms = first.paradigms(level)
    for (model, accuracies), marker in zip(
        published.items(), itertools.cycle("x+^dvs1234")
    ):
        means = [published_mean(accuracies, paradigms[name]) for name in groups]
        axes.plot(
            [math.nan if mean is None else mean for mean in means],
            places,
            marker,
            color="grey",
            label=f"{model}, published",
        )
    axes.axvline(0.5, color="lightgrey", zorder=0)
    axes.set_yticks(places, groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("accuracy")
    figure.legend(loc="outside lower center", ncols=3)
    pictures.save(figure, path)


def draw_recency(results, path, title):
    """Draws the perplexity of each bin, with one line per run; for several
    runs, also the ratios to the first run."""
    first, *others = results.values()
    panels = 2 if others else 1
    figure, grid = pictures.subplots(
        8, 2 + 3 * panels, panels, sharex=True, squeeze=False
    )
    above, *below = grid[:, 0]
    places = range(len(first.bins))
    for name, result in results.items():
        label = f"{name}: {result.total.perplexity:.1f} in all"
        found = result.perplexities
        for axes, values in zip(
            (above, *below), (found, found / first.perplexities)
        ):
            (line,) = axes.plot(places[:-2], values[:-2], "o-", label=label)
            axes.plot(places[-2:], values[-2:], "o", color=line.get_color())
    above.set_yscale("log")
    above.set_title(title)
    above.set_ylabel("perplexity")
    for axes in below:
        axes.set_ylabel("ratio to the first")
    last = [above, *below][-1]
    ticks = [f"{n}\n{share:.1%}" for n, share in zip(first.bins, first.shares)]
    last.set_xticks(places, ticks, rotation=30, ha="right")
    last.set_xlabel("tokens back to the same word, and share of the text")
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", fontsize="small")
    pictures.save(figure, path)
