"""Draws and writes PNG pictures for all analyses, atomically."""

import re
import warnings

import numpy as np

from memlm_keras import files

# matplotlib repeats its warning about a missing glyph several times per text.
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .*missing from")


def subplots(width, height, *arguments, **options):
    """Makes a figure of `width` by `height` inches; returns it and its axes."""
    # Do not use pyplot, which keeps figures and may open windows.
    name = "matplotlib"
    module = files.import_package(f"{name}.figure", "A picture", name)
    figure = module.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(*arguments, **options)


def label_cells(axes, grid, dark, label=None, fontsize=7):
    """Writes a text into each cell of a picture of the array `grid`, by default
    the cell's value. The text is white in cells with values above `dark`."""
    for row, column in np.ndindex(*grid.shape):
        if label is not None:
            text = label(row, column)
        else:
            number = grid[row, column]
            text = "" if np.isnan(number) else f"{number:.2f}"
        if text:
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                fontsize=fontsize,
                color="white" if grid[row, column] > dark else "black",
            )


def save(figure, path, axes=None, title=None, image=None, label=None):
    """Writes a figure as a PNG file; adds a title and a color bar to `axes`."""
    if image is not None:
        figure.colorbar(image, ax=axes, label=label)
    if title:
        axes.set_title(title)
    with (
        files.atomic_path(path) as temporary,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        figure.savefig(temporary, format="png", dpi=150)
    missing = {}
    for warning in caught:
        glyph = _MISSING_GLYPH.match(str(warning.message))
        if glyph:
            missing[chr(int(glyph[1]))] = None
        else:
            warnings.warn_explicit(
                warning.message,
                warning.category,
                warning.filename,
                warning.lineno,
            )
    if missing:
        warnings.warn(
            f"The font of {path} lacks {len(missing)} characters, which are "
            f"drawn as boxes: {' '.join([*missing][:10])}. Add a font that has "
            "them to `matplotlib.rcParams['font.family']`.",
            stacklevel=3,
        )


def label_words(axes, columns=(), rows=()):
    """Labels the columns and rows of a picture with words."""
    if columns:
        axes.set_xticks(
            range(len(columns)),
            [literal(word) for word in columns],
            rotation=90,
            fontsize=8,
        )
    if rows:
        labels = [literal(word) for word in rows]
        axes.set_yticks(range(len(rows)), labels, fontsize=8)


def literal(text):
    """Escapes dollar signs, which begin formulas in matplotlib."""
    return text.replace("$", r"\$")
