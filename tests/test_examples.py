"""The example scripts run, and what they print holds."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
# What a script prints last of all is a score: the least that it has to be.
LEAST_SCORE = {
    "compare_solvers.py": 0.75,
    "large_table.py": 0.85,
    "reach_of_gradient_descent.py": 0.93,
}


def run(name, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_is_tested():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(LEAST_SCORE)


@pytest.mark.parametrize("name", LEAST_SCORE)
def test_an_example_runs_and_its_last_model_is_good(name, capsys, monkeypatch):
    last = run(name, capsys, monkeypatch).splitlines()[-1]
    assert float(re.search(r"0\.\d{3}", last)[0]) >= LEAST_SCORE[name]
