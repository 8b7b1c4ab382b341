"""Configures Sphinx: `python -m sphinx -W docs build/book` writes the site.

With `-t models`, the trained models run on pages of the site.
"""

import datetime
import importlib.util
import inspect
import os
import pathlib
import re
import sys

if importlib.util.find_spec("torch"):
    # PyTorch starts sooner than TensorFlow.
    os.environ.setdefault("KERAS_BACKEND", "torch")

import memlm_keras  # noqa: E402
from memlm_keras import trained  # noqa: E402

project = "memlm_keras"
author = "The memlm_keras authors"
copyright = f"{datetime.date.today().year}, {author}"
version = release = memlm_keras.__version__

sys.path.append(str(pathlib.Path(__file__).parent / "extensions"))

import code_examples  # noqa: E402

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "sphinx.ext.napoleon",
    "docstrings",
    "sphinx.ext.viewcode",
]
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"memlm_keras {version}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
exclude_patterns = ["results/logs", "pages"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# Docstrings put code between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
napoleon_custom_sections = [("Call arguments", "params_style")]
napoleon_use_ivar = True


DOCS = pathlib.Path(__file__).parent
ROOT = DOCS.parent
# Folder of pages that run trained models. Sphinx copies its contents.
MODEL_PAGES = DOCS / "pages"
if tags.has("models"):  # noqa: F821
    MODEL_PAGES.mkdir(exist_ok=True)
    html_extra_path = [MODEL_PAGES.name]
_REFERENCE = """\
# memlm_keras.{name}

```{{eval-rst}}
.. {directive}:: memlm_keras.{name}
   :members:
```
"""
_INCLUDED = """\
```{{include}} ../../{path}
:relative-docs: docs
:relative-images:
```
"""
# Pages outside `docs/`, and their names on the site.
INCLUDED = {
    "saved_models/README.md": "signatures",
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "contributing",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")


def public_names():
    """Yields public names of the package, and modules of its modules."""
    for name in memlm_keras.__all__:
        yield name
        thing = getattr(memlm_keras, name)
        for member in getattr(thing, "__all__", ()):
            if inspect.ismodule(getattr(thing, member)):
                yield f"{name}.{member}"


def write_pages(app):
    """Writes a page for each public name, included file and code example."""
    pages = {}
    for name in public_names():
        directive = "autoclass" if name[0].isupper() else "automodule"
        page = _REFERENCE.format(name=name, directive=directive)
        pages[f"reference/{name}.md"] = page
    for path, name in INCLUDED.items():
        pages[f"project/{name}.md"] = _INCLUDED.format(path=path)
    for path in (DOCS / "examples").glob("*.py"):
        pages[f"code_examples/{path.stem}.md"] = code_examples.page(path)
    for name, text in pages.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        # An unchanged page is not built again.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def write_model_pages(app):
    """With the tag `models`, writes a page that runs each trained model."""
    if not app.tags.has("models"):
        return
    for name in trained.SOURCES:
        # Trained models of papers have no link on the first page.
        if not name.startswith("memlm/"):
            continue
        metadata = trained.read_metadata(trained.find(name))
        memlm_keras.serving.export(
            memlm_keras.LanguageModel.from_preset(name),
            MODEL_PAGES / name,
            overwrite=True,
            format="web",
            quantize="int8" if metadata["dtype"] == "int8" else None,
        )


def linked_within(text, folder):
    """Returns a text whose links to pages outside `docs/` lead to the site.

    A link to a folder becomes plain text, because a site only has pages. A link
    whose text is the name of a file gets the title of the page.
    """

    def linked(found):
        target = (folder / found[2]).resolve()
        if target.is_dir():
            return found[1]
        if target == ROOT / "README.md" and not found[3]:
            return f"[{found[1]}](/index.md)"
        for path, page in INCLUDED.items():
            if target == ROOT / path:
                return f"[{found[1]}](/project/{page}.md{found[3] or ''})"
        if found[3]:
            return found[0]
        if found[1] == target.name and target.suffix == ".md":
            return f"[]({found[2]})"
        return found[0]

    return _LINK.sub(linked, text)


def _page_is_read(app, name, source):
    folder = pathlib.Path(app.env.doc2path(name)).parent
    source[0] = linked_within(source[0], folder)


def _file_is_included(app, path, name, source):
    source[0] = linked_within(source[0], (DOCS / path).resolve().parent)


def setup(app):
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", write_model_pages)
    app.connect("source-read", _page_is_read)
    app.connect("include-read", _file_is_included)
