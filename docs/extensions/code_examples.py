"""Programs of `docs/examples` as pages, in the shape of Keras' own examples.

A program opens with a docstring of fields, `Title: ...` first. Strings that
stand by themselves between its statements are prose, in Markdown.
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
    """Parts a program into prose and code.

    Args:
        source: string, the program.

    Returns:
        List of pairs of strings, prose and the code behind it.
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
    """The fields of a program's docstring, as a dict of strings."""
    found = dict(line.split(": ", 1) for line in header.splitlines())
    if tuple(found) != FIELDS:
        raise ValueError(
            f"An example must open with the fields {', '.join(FIELDS)}. "
            f"Received: {', '.join(found)}"
        )
    return found


def page(path):
    """The page of a program, in MyST's Markdown.

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
