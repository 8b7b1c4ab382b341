"""PNG and CSV files of all analyses."""

import csv

from memlm_keras import files


def subplots(width, height, *arguments, **options):
    """Makes a figure of `width` by `height` inches, and its axes."""
    # A figure of its own, not pyplot's: no window, no state left behind.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(*arguments, **options)


def save(figure, path):
    """Writes a figure as PNG, whole or not at all."""
    with files.atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


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
