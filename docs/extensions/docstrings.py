"""Docstrings of this package as Sphinx reads them.

They are written to be read as they stand: code between single backticks,
formulas indented, tables with bars. Sphinx takes those for something else.
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
    """Parts lines at those that are empty."""
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
    """Where the text of a line begins, behind the mark of a list."""
    return _indent(line) + 2 * line.lstrip().startswith("* ")


def _text(paragraph):
    def doubled(found):
        # Behind code, a letter is no markup's end.
        return f"``{found[1]}``" + ("\\ " if found[2] else "")

    text = _CODE.sub(doubled, "\n".join(paragraph))
    # Napoleon minds the first name of an argument only.
    text = re.sub(r"(?<=, )\*\*(?=\w)", r"\*\*", text)
    return re.sub(r"(?<![`|])\|(?![`|])", r"\\|", text).split("\n")


def _table(lines, indent):
    """A table with bars as a list of lists."""
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
    """Arguments of a class: Keras hides those of layers behind its own."""
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
    # Before `sphinx.ext.napoleon`, which reads the sections.
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True}
