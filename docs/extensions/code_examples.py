"""Converts programs of `docs/examples` to pages like Keras' own examples.

The docstring of a program has fields, of which `Title: ...` is first. Strings
between the statements of the program are prose in Markdown.
"""

import ast

_PAGE = """\
# {Title}

**Author:** {Author}<br>
**Date created:** {Date created}<br>
**Last modified:** {Last modified}<br>
**Description:** {Description}

{{download}}`{file} <../examples/{file}>` runs from top to bottom.
"""
FIELDS = (
    "Title",
    "Author",
    "Date created",
    "Last modified",
    "Description",
    "Accelerator",
)


def parts(source):
    """Splits a program into prose and code.

    Args:
        source: string, the program.

    Returns:
        List of pairs of strings: prose, and the code that follows.
    """
    lines = source.splitlines()
    prose = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    ends = [node.lineno - 1 for node in prose[1:]] + [len(lines)]
    return [
        (
            node.value.value.strip(),
            "\n".join(lines[node.end_lineno : end]).strip("\n"),
        )
        for node, end in zip(prose, ends)
    ]


def fields(header):
    """Returns the fields of a program's docstring, a dict of strings."""
    found = dict(line.split(": ", 1) for line in header.splitlines())
    if tuple(found) != FIELDS:
        raise ValueError(
            f"An example must open with the fields {', '.join(FIELDS)}. "
            f"Received: {', '.join(found)}"
        )
    return found


def page(path):
    """Returns the page of a program in MyST's Markdown.

    Args:
        path: `pathlib.Path` of the program.

    Returns:
        String.
    """
    (header, first), *others = parts(path.read_text(encoding="utf-8"))
    found = [_PAGE.format(**fields(header), file=path.name)]
    for prose, code in [("", first), *others]:
        found.append(prose)
        if code:
            found.append(f"```python\n{code}\n```")
    return "\n\n".join(filter(None, found)) + "\n"
