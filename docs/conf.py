"""How the documentation is built."""

import re

import rkhs

project = "rkhs"
author = "The rkhs developers"
version = release = rkhs.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"rkhs {version}"
nitpicky = False

autosummary_generate = True
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]

_CITATION = re.compile(r"\[([a-z]+[0-9]{4})\]_")


def cite(app, what, name, obj, options, lines):
    """Let ``[rahimi2007]_`` in a docstring cite the entry of that key in references.bib."""
    lines[:] = [_CITATION.sub(r":cite:p:`\1`", line) for line in lines]


def setup(app):
    # Before numpydoc, which treats such marks as footnotes of the docstring.
    app.connect("autodoc-process-docstring", cite, priority=400)
