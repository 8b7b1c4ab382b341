"""Reads tables of sentences (CSV, TSV, JSON lines), and writes results."""

import contextlib
import csv
import io
import itertools
import json
import os
import pathlib
import re
import warnings
import zipfile

import numpy as np

from memlm_keras import files

SUFFIXES = (".csv", ".tsv")
_DELIMITERS = ",;\t"
# Excel reads the delimiter from a line before the table, such as `sep=;`.
_SEPARATOR = re.compile(r'"?sep=(.)"?\1*', re.IGNORECASE)
# Rows read to decide whether the first row is a header.
_ROWS = 100
_IS_CSV = "In a .tsv, cells have no quotation marks: rename the file to .csv"


@contextlib.contextmanager
def naming(where):
    """Context manager that begins `ValueError` messages with `where`."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


# === Texts ===


def read_texts(path, suffixes):
    """Returns a list of pairs `(path, text)`. `path` is a text file, or a
    folder or `.zip` archive whose files with one of `suffixes` are read."""
    path = pathlib.Path(path)
    remedy = f"Expected {', '.join(suffixes)}, a folder of them, or a .zip."
    found = {}
    if path.suffix.lower() == ".zip":
        with files.reading(path, "archive", remedy), zipfile.ZipFile(path) as z:
            for name in map(pathlib.PurePath, z.namelist()):
                if _is_wanted(name, suffixes):
                    found[name] = z.read(str(name))
    elif path.is_dir():
        for each in path.rglob("*"):
            if _is_wanted(each.relative_to(path), suffixes):
                found[each] = each.read_bytes()
    elif path.suffix.lower() in suffixes or not path.exists():
        found[path] = path.read_bytes()
    if not found:
        raise ValueError(f"{remedy} Received: {path}")
    return [(name, decode(found[name], name)) for name in sorted(found)]


def _is_wanted(name, suffixes):
    """Returns whether `name` has one of `suffixes` and is not hidden."""
    hidden = any(part.startswith((".", "__MACOSX")) for part in name.parts)
    return name.suffix.lower() in suffixes and not hidden


def decode(data, name):
    """Decodes a file as UTF-8, UTF-16 or Windows-1252, which Excel writes.
    All line ends become line feeds."""
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    with naming(name):
        try:
            text = data.decode("utf-16" if marked else "utf-8-sig")
        except UnicodeDecodeError as error:
            # `error.start` is an offset after the byte order mark of UTF-8.
            place = len(data) - len(error.object) + error.start
            line = data.count(b"\n", 0, place) + 1
            reason = (
                f"line {line} has the byte 0x{data[place]:02x}, which is not "
                f"{error.encoding}"
            )
            # If non-ASCII characters before the error are valid UTF-8, the file
            # is damaged UTF-8, not Windows-1252.
            if marked or not data[:place].isascii():
                raise ValueError(f"{reason}. Save the file as UTF-8") from None
            try:
                text = data.decode("cp1252")
            except UnicodeDecodeError:
                raise ValueError(f"{reason}. Save the file as UTF-8") from None
            warnings.warn(
                f"{name} is read as Windows-1252: {reason}. If letters are "
                "wrong, save it as UTF-8.",
                stacklevel=4,
            )
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if (zero := text.find("\0")) >= 0:
            line = text.count("\n", 0, zero) + 1
            raise ValueError(
                f"line {line} has a zero byte, which no text has. Save the "
                "file as UTF-8"
            )
    return text


def names_of(paths):
    """Returns distinct names: stems, or relative paths if stems repeat."""
    root = os.path.commonpath([path.parent for path in paths])
    paths = [path.relative_to(root) for path in paths]
    for name in (lambda p: p.stem, lambda p: str(p.with_suffix("")), str):
        names = [*map(name, paths)]
        if len({*names}) == len(names):
            break
    return names


# === Rows ===


def read_rows(lines, path, fields=None, optional=(), whole=True):
    """Yields `(line number, cells)` for each row of a table; `cells` is a dict.

    A table with as many columns as `fields` needs no header, but a warning
    quotes its first line. Missing and repeated column names are numbered.

    Args:
        lines: Iterable of lines.
        path: Path of the table. With the suffix `.jsonl`, lines are objects;
            with `.csv`, cells may be quoted; otherwise, tabs separate cells.
        fields: Dict from names of columns to lists of other names that files
            may use; case and punctuation are ignored.
        optional: Names in `fields` whose columns may be missing.
        whole: Whether a row with too few cells is an error.

    Raises:
        ValueError: A line is damaged, or a column is missing.
    """
    fields, suffix = fields or {}, pathlib.Path(path).suffix.lower()
    if suffix == ".jsonl":
        yield from _objects(lines, fields, optional)
        return
    if suffix == ".csv":
        table = _split_csv(lines)
    else:
        table = ((at, line.split("\t")) for at, line in enumerate(lines, 1))
    table = (row for row in table if any(map(str.strip, row[1])))
    first, header = next(table, (0, None))
    if header is None:
        raise ValueError("the table has no row")
    others = [*itertools.islice(table, _ROWS)]
    table = itertools.chain(others, table)
    known = {_simple(n) for f, others in fields.items() for n in (f, *others)}
    fits = len(fields) - len(optional) <= len(header) <= len(fields)
    if fits and known.isdisjoint(map(_simple, header)):
        # A column's name is a single word, even if its cells are sentences.
        several = [len(cell.split()) > 1 for cell in header]
        columns = zip(*(cells for _, cells in others))
        if not any(several) and any(
            all(len(cell.split()) > 1 for cell in column) for column in columns
        ):
            raise ValueError(
                f"line {first} looks like a header with unknown names. "
                f"Expected {', '.join(fields)}. Received: {', '.join(header)}"
            )
        cells = " and ".join(repr(cell[:40]) for cell in header)
        warnings.warn(
            f"{path} has no header with the columns {', '.join(fields)}: its "
            f"first line, {cells}, is read as data.",
            stacklevel=2,
        )
        table = itertools.chain([(first, header)], table)
        names, header = [*fields][: len(header)], None
    else:
        if suffix == ".tsv" and any(re.match('".*"$', n) for n in header):
            raise ValueError(f"line {first}: {header[0]}. {_IS_CSV}")
        with naming(f"line {first}"):
            names = _numbered(_named(header, fields, optional))
        if not others:
            raise ValueError("the table has a header but no rows")
    for number, cells in table:
        if header and [*map(_simple, cells)] == [*map(_simple, header)]:
            raise ValueError(f"line {number} repeats the header. Delete it")
        if suffix == ".tsv" and any(map(_is_quoted, cells)):
            cell = next(filter(_is_quoted, cells))
            raise ValueError(f"line {number}: {cell[:40]}. {_IS_CSV}")
        if len(cells) > len(names) or (whole and len(cells) < len(names)):
            raise ValueError(
                f"line {number} has {len(cells)} columns, and line {first} "
                f"has {len(names)}"
            )
        yield number, dict(zip(names, cells))


def _objects(lines, fields, optional):
    """Yields `(line number, cells)` for each JSON object."""
    known = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise ValueError(f"line {number} must be an object: {line[:40]!r}")
        keys = tuple(record)
        if keys not in known:
            with naming(f"line {number}"):
                known[keys] = _named(keys, fields, optional)
        yield number, dict(zip(known[keys], record.values()))


def _split_csv(lines):
    """Returns `(line number, cells)` for each row of a CSV table. The delimiter
    is the first that gives all rows the same number of cells."""
    lines, offset = [*lines], 0
    first = next(filter(str.strip, lines), "")
    delimiters = sorted(_DELIMITERS, key=first.count, reverse=True)
    delimiters = [d for d in delimiters if d in first] or [","]
    if separator := _SEPARATOR.fullmatch(first):
        offset = lines.index(first) + 1
        delimiters = [separator[1]]
    text = "\n".join(lines[offset:])
    tables = [_parsed(text, each, offset) for each in delimiters]
    even = (
        table
        for table in tables
        if isinstance(table, list)
        and len({len(cells) for _, cells in table if any(cells)}) == 1
    )
    table = next(even, tables[0])
    if isinstance(table, ValueError):
        raise table
    return table


def _parsed(text, delimiter, offset):
    """Returns the rows of a CSV text, or a `ValueError` for an invalid row."""
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        skipinitialspace=True,
        strict=True,
    )
    rows, line = [], offset + 1
    limit = csv.field_size_limit(2**31 - 1)
    try:
        for cells in reader:
            rows.append((line, cells))
            line = offset + reader.line_num + 1
    except csv.Error as error:
        return ValueError(
            f"line {line}: {error}. A cell that begins with a quotation mark "
            "must end with one, and double each quotation mark within"
        )
    finally:
        csv.field_size_limit(limit)
    return rows


def _is_quoted(cell):
    """Returns whether a cell looks like `"one ""quoted"" word"`."""
    inner = cell[1:-1]
    return (
        cell[:1] == cell[-1:] == '"'
        and '""' in inner
        and '"' not in inner.replace('""', "")
    )


# === Names of columns ===


def _simple(name):
    """Returns a name in lower case without punctuation."""
    return re.sub(r"[\W_]+", "", name).lower()


def _named(names, fields, optional):
    """Renames the columns of a file to the keys of `fields`."""
    simple, named, missing = [*map(_simple, names)], [*names], []
    for field, others in fields.items():
        own, other = {_simple(field)}, {*map(_simple, others)}
        places = [i for i, name in enumerate(simple) if name in own] or [
            i for i, name in enumerate(simple) if name in other
        ]
        if len(places) > 1:
            raise ValueError(
                f"several columns could be {field}: "
                f"{', '.join(names[i] for i in places)}. Rename all but one"
            )
        if places:
            named[places[0]] = field
        elif field not in optional:
            missing.append(field)
    if missing:
        raise ValueError(
            f"there is no column {' and no column '.join(missing)}. Received: "
            f"{', '.join(names)}"
        )
    return named


def _numbered(header):
    """Adds the column's number to a name that is missing or repeated."""
    names = []
    for number, name in enumerate(header, 1):
        name = name.strip() or "column"
        is_taken = name in names or name == "column"
        names.append(f"{name}_{number}" if is_taken else name)
    return names


# === Results ===


class ResultTable:
    """Base class for results with one row per word or sentence. The method
    `columns()` of a subclass returns a dict from names to columns."""

    def to_tsv(self):
        """Returns the table as tab-separated text with a header."""
        return table_text(self.columns())

    def write(self, path, **options):
        """Writes the table to a file; `options` are arguments of `to_tsv`."""
        files.write_text(path, self.to_tsv(**options))


def table_text(columns):
    """Returns a dict of columns as tab-separated text; NaN is an empty cell."""
    columns = {
        name: ["" if np.isnan(value) else f"{value:.6f}" for value in values]
        if getattr(values, "dtype", None) == "float64"
        else values
        for name, values in columns.items()
    }
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
