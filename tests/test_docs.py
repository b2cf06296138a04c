"""What the documentation says is run, and what it cites and lists exists."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from rkhs.features import FEATURES
from rkhs.kernels import KERNELS
from rkhs.losses import LOSSES
from rkhs.solvers import SOLVERS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SECTIONS = ["Add a kernel", "Add a loss", "Add a feature map", "Add a solver"]


def read(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_give_what_it_shows(page):
    result = doctest.testfile(
        str(page),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE,
        encoding="utf-8",
        globs={},
    )
    assert result.failed == 0
    assert result.attempted == len(re.findall("^>>> ", read(page), re.MULTILINE))


@pytest.mark.parametrize("title", SECTIONS)
def test_code_in_contributing_passes_its_own_test(title):
    text = read(ROOT / "CONTRIBUTING.md")
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    names: dict = {"__name__": "contributing"}
    exec("\n".join(blocks), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()


def test_every_citation_is_in_the_bibliography_and_every_entry_is_cited():
    cited = set()
    for path in (ROOT / "src").rglob("*.py"):
        cited.update(re.findall(r"\[([a-z]+[0-9]{4})\]_", read(path)))
    for path in PAGES:
        for keys in re.findall(r"\{cite:[a-z]+\}`([^`]+)`", read(path)):
            cited.update(key.strip() for key in keys.split(","))
    entries = re.findall(r"^@\w+\{([^,]+),", read(ROOT / "docs/references.bib"), re.MULTILINE)
    assert sorted(entries) == sorted(cited)


@pytest.mark.parametrize(
    "module", ["", ".kernels", ".features", ".losses", ".solvers", ".datasets", ".plots"]
)
def test_every_public_name_is_in_the_reference(module):
    text = read(ROOT / "docs/reference.rst")
    sections = re.split(r"^\.\. currentmodule:: (\S+)$", text, flags=re.MULTILINE)
    listed = {
        line.strip()
        for name, body in zip(sections[1::2], sections[2::2], strict=True)
        if name == f"rkhs{module}"
        for line in body.splitlines()
    }
    assert set(importlib.import_module(f"rkhs{module}").__all__) <= listed


@pytest.mark.parametrize("registry", [KERNELS, FEATURES, LOSSES, SOLVERS])
@pytest.mark.parametrize("page", ["docs/axes.md", "README.md"])
def test_every_registered_name_is_on_the_page_of_the_axes(registry, page):
    text = read(ROOT / page)
    missing = [name for name in registry if f"`{name}`" not in text and f'`"{name}"`' not in text]
    assert missing == []
