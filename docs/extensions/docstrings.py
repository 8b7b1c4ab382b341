"""Converts docstrings of this package to reStructuredText for Sphinx.

Docstrings have code between single backticks, indented formulas and tables with
bars, which mean something else in reStructuredText.
"""

import inspect
import re

_CODE = re.compile(r"`([^`]+)`(?=(\w)?)")
_TABLE_RULE = re.compile(r"[\s|:-]+")


def restructured(lines):
    """Returns the lines of a docstring as reStructuredText.

    Args:
        lines: list of strings, a docstring without its common indentation.
    """
    found = []
    for paragraph in _paragraphs(lines):
        before = next((line for line in reversed(found) if line), "")
        indent = _indent(paragraph[0])
        if paragraph[0].lstrip().startswith("|"):
            found += _table(paragraph, indent)
        elif paragraph[0].lstrip().startswith(">>>"):
            found += paragraph
        elif before and indent >= _text_indent(before) + 4:
            margin = " " * _text_indent(before)
            found += [f"{margin}::", "", *paragraph]
        else:
            found += _text(paragraph)
        found.append("")
    return found


def _paragraphs(lines):
    """Yields the paragraphs of a docstring, which empty lines separate."""
    paragraph = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []


def _indent(line):
    return len(line) - len(line.lstrip())


def _text_indent(line):
    """Returns the column at which the text of a line or list item begins."""
    return _indent(line) + 2 * line.lstrip().startswith("* ")


def _text(paragraph):
    def doubled(found):
        # A letter directly after code would hide the end of the markup.
        return f"``{found[1]}``" + ("\\ " if found[2] else "")

    text = _CODE.sub(doubled, "\n".join(paragraph))
    # Napoleon escapes asterisks only before the first argument of a line.
    text = re.sub(r"(?<=, )\*\*(?=\w)", r"\*\*", text)
    return re.sub(r"(?<![`|])\|(?![`|])", r"\\|", text).split("\n")


def _table(lines, indent):
    """Converts a table with bars to a `list-table`."""
    margin = " " * indent
    found = [f"{margin}.. list-table::", f"{margin}   :header-rows: 1", ""]
    for line in lines:
        if _TABLE_RULE.fullmatch(line):
            continue
        cells = line.strip().strip("|").split(" | ")
        for index, cell in enumerate(cells):
            mark = "- " if index else "* - "
            (text,) = _text([cell.strip()])
            found.append(f"{margin}   {mark:>4}{text}")
    return found


def _process(app, what, name, thing, options, lines):
    lines[:] = restructured(lines)


def _sign(app, what, name, thing, options, signature, returned):
    """Returns the signature of a class, which Keras hides for layers."""
    if what != "class":
        return None
    first, *arguments = inspect.signature(thing.__init__).parameters.values()
    del first
    shown = inspect.Signature(
        [one.replace(annotation=one.empty) for one in arguments]
    )
    return str(shown), returned


def setup(app):
    app.connect("autodoc-process-signature", _sign)
    # Priority 400 runs `_process` before `sphinx.ext.napoleon`.
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True}
