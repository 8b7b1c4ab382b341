"""PNG and CSV files of all analyses."""

import csv
import re
import warnings

import numpy as np

from memlm_keras import files

# What matplotlib warns of, once for each glyph and each pass over the text.
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .*missing from")


def subplots(width, height, *arguments, **options):
    """Makes a figure of `width` by `height` inches, and its axes."""
    # A figure of its own, not pyplot's: no window, no state left behind.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(*arguments, **options)


def label_cells(axes, grid, label, dark, fontsize=7):
    """Writes into the cells of a picture.

    Args:
        axes: axes that show `grid`.
        grid: float array `(rows, columns)`.
        label: function of row and column: the text, or `None` for none.
        dark: float, above which a cell is dark, and its text white.
        fontsize: number.
    """
    for row, column in np.ndindex(*grid.shape):
        text = label(row, column)
        if text is not None:
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
    """Writes a figure as PNG, whole or not at all.

    Args:
        figure: what `subplots` made.
        path: path of the file.
        axes: axes that get `title` and a bar of the colours of `image`, if
            there are such, named `label`.
        title, image, label: as above.
    """
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


def literal(text):
    """Returns a word as matplotlib draws it: a dollar begins no formula."""
    return text.replace("$", r"\$")


def write_rows(path, names, rows):
    """Writes a CSV file of one header and rows, whole or not at all.

    Args:
        path: path of the file.
        names: list of strings, the header.
        rows: iterable of sequences as long as `names`.
    """
    with files.atomic_path(path) as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(rows)


def distance_names(distances):
    """Returns a column's name for the attention at each distance."""
    return [f"attention_{distance}" for distance in distances]
