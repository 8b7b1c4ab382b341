"""Functions that read the files of analyses and experiments."""

import csv


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def read_csv(path, delimiter=","):
    """Returns the rows of a CSV file as dicts with the header's names."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))
