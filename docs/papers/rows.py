"""Writes the tables of presets into the pages of this folder.

    python docs/papers/rows.py

A table is between the lines `<!--rows PATTERN V-->` and
`<!--end of rows-->`. The first line has a pattern of preset names and the
vocabulary size for the parameter counts. With `without embeddings` after V, the
counts do not include embeddings.
"""

import fnmatch
import pathlib
import re

from memlm_keras import files
from memlm_keras import presets

FOLDER = pathlib.Path(__file__).parent
_TABLE = re.compile(
    r"(<!--rows (\S+) ([\d,]+)( without embeddings)?-->\n).*?"
    r"(<!--end of rows-->)",
    re.DOTALL,
)
_NUMBERS = {
    "validation_perplexity": "dev",
    "test_perplexity": "test",
    "monte_carlo_test_perplexity": "Monte Carlo",
    "test_accuracy": "accuracy",
    "completion_accuracy": "accuracy",
}


def with_rows(page):
    """Returns the Markdown `page` with its tables written again."""
    return _TABLE.sub(
        lambda match: (
            match[1]
            + "\n".join(
                _table(
                    fnmatch.filter(presets.names(), match[2]),
                    int(match[3].replace(",", "")),
                    include_embeddings=not match[4],
                )
            )
            + "\n"
            + match[5]
        ),
        page,
    )


def _table(names, vocabulary_size, include_embeddings):
    rows = {name: _row(name) for name in names}
    columns = _published_columns(rows.values())
    what = "parameters"
    if not include_embeddings:
        what += " without embeddings"
    headings = [
        "preset",
        "units",
        f"{what}, V = {vocabulary_size:,}",
        *(
            f"{corpus}: {' / '.join(dict.fromkeys(_NUMBERS[k] for k in keys))}"
            for corpus, keys in columns.items()
        ),
    ]
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for name, row in rows.items():
        count = presets.count_params(name, vocabulary_size, include_embeddings)
        cells = [
            f"`{name}`",
            str(row.units),
            f"{count:,}",
            *(_cell(row, corpus, keys) for corpus, keys in columns.items()),
        ]
        yield f"| {' | '.join(cells)} |"


def _row(name):
    paper, _, row = name.partition("/")
    return presets.papers()[paper].rows[row]


def _published_columns(rows):
    """Keys of the published numbers of all rows, by corpus."""
    columns = {}
    for row in rows:
        for published in row.published:
            for key, value in published.numbers.items():
                if value is not None:
                    columns.setdefault(published.corpus, []).append(key)
    return {
        corpus: [key for key in _NUMBERS if key in keys]
        for corpus, keys in columns.items()
    }


def _cell(row, corpus, keys):
    for published in row.published:
        if published.corpus == corpus:
            numbers = [published.numbers.get(key) for key in keys]
            texts = ["" if n is None else str(n) for n in numbers]
            return " / ".join(texts).strip() if any(texts) else ""
    return ""


def main():
    """Writes the tables of all pages in this folder."""
    for path in sorted(FOLDER.glob("*.md")):
        page = with_rows(path.read_text(encoding="utf-8"))
        with files.atomic_path(path) as temporary:
            temporary.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
