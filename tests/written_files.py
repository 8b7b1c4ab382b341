"""Reading the files that analyses and experiments write."""

import csv


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def read_csv(path, delimiter=","):
    """Rows of a CSV file as dicts by the names of its header."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))
