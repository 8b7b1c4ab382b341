"""Equations as MathML, which browsers draw without a script or a network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def _inline(translator, node):
    translator.body.append(str(tex2mathml(node.astext())))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(str(tex2mathml(node.astext(), as_block=True)))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
