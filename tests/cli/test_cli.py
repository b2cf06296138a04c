"""Commands answer in plain text, and their errors are one line."""

import re
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

import rkhs
from rkhs.cli import _demo, app
from rkhs.cli._text import one_line, printable, size
from rkhs.features import Nystrom, RandomFourier

X = np.random.default_rng(0).normal(size=(60, 3))


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_help_is_fast_because_it_imports_no_numbers():
    code = (
        "import sys\n"
        "from rkhs.cli import main\n"
        "sys.argv = ['rkhs', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "assert not {'numpy', 'sklearn', 'numba'} & set(sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8"
    )
    assert "demo" in run.stdout
    assert "info" in run.stdout
    assert "\x1b" not in run.stdout


def test_version():
    assert invoke("--version").output == f"rkhs {rkhs.__version__}\n"


@pytest.fixture(scope="module")
def demo_output():
    result = invoke("demo", "--quick")
    assert result.exit_code == 0, result.output
    return result.stdout


def test_demo_is_plain_text(demo_output):
    assert "\x1b" not in demo_output
    assert max(map(len, demo_output.splitlines())) <= 90


@pytest.mark.parametrize("method", ["Exact", "ConjugateGradient", "NewtonCG", "SGD", "Pegasos"])
def test_demo_shows_every_method_on_both_tables(method, demo_output):
    assert len(re.findall(method, demo_output)) >= 2


def test_demo_errors_beat_guessing(demo_output):
    wrong = [float(number) for number in re.findall(r"(\d+\.\d)%", demo_output)]
    assert len(wrong) == 6
    assert max(wrong) < 70  # guessing is wrong on 90 % of the digits
    assert min(wrong) < 15
    rmse = [float(number) for number in re.findall(r" (0\.\d{4}) ", demo_output)]
    assert len(rmse) == 6
    assert max(rmse) < 0.1  # the standard deviation of the distances is 0.107
    assert min(rmse) < 0.03


def test_demo_ends_with_what_to_type_next(demo_output):
    last = demo_output.splitlines()[-1]
    assert last.startswith("Next, in Python:")
    code = last.partition(":")[2].strip()
    exec(compile(code, "demo", "exec"), {"X": X, "y": X[:, 0] > 0})


def test_demo_measures_memory_during_the_fit():
    task = _demo._arm(_demo._QUICK)
    row = task.measure("Exact, 300 rows only")
    # A 300 x 300 matrix of float64 is there at least once, and 20 of them never.
    assert 300 * 300 * 8 <= row.peak_bytes < 20 * 300 * 300 * 8
    assert row.model_bytes == 300 * (8 + 1) * 8


def test_info_of_a_classifier(tmp_path):
    path = tmp_path / "model.safetensors"
    labels = np.array(["no [b]way[/b]", "yes"])[(X[:, 0] > 0).astype(int)]
    model = rkhs.KernelClassifier(features=Nystrom(20), random_state=0).fit(X, labels)
    rkhs.save(model, path)
    result = invoke("info", path)
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "estimator KernelClassifier" in words
    assert "kernel Gaussian(length_scale=array([" in words
    assert "loss LogLoss()" in words
    assert "features Nystrom(n_centers=20" in words
    assert "solver NewtonCG()" in words
    assert f"alpha {1 / 60:.4g}" in words
    assert "classes 2: no [b]way[/b], yes" in words
    assert "20 centres x 1 outputs, float32" in words
    assert f"{model.n_iter_} epochs" in words
    assert model.stop_reason_ in words
    assert f"written by rkhs {rkhs.__version__}" in words
    assert "\x1b" not in result.stdout


def test_info_of_a_regressor_and_of_a_map(tmp_path):
    rkhs.save(rkhs.KernelRegressor().fit(X, X[:, 0]), tmp_path / "regressor")
    words = " ".join(invoke("info", tmp_path / "regressor").stdout.split())
    assert "features none: the kernel's whole space" in words
    assert "60 centres x 1 outputs, float64" in words
    rkhs.save(RandomFourier(50, kernel="cauchy", random_state=0).fit(X), tmp_path / "map")
    words = " ".join(invoke("info", tmp_path / "map").stdout.split())
    assert "estimator RandomFourier" in words
    assert "kernel Cauchy" in words
    assert words.endswith("columns 3 features 50")


def test_info_tells_how_rows_spread_over_cells(tmp_path):
    model = rkhs.KernelRegressor(
        kernel="laplacian", features=rkhs.features.RandomBinning(8), random_state=0
    ).fit(X, X[:, 0])
    for thing in (model, model.features_):
        rkhs.save(thing, tmp_path / "model")
        words = " ".join(invoke("info", tmp_path / "model").stdout.split())
        assert f"cells {model.features_.n_outputs / 8:,.1f} a grid in use" in words
        assert f"kappa {np.mean(1 / model.features_.largest_cell_):,.1f}" in words


def test_info_writes_out_control_codes_of_a_file(tmp_path):
    model = rkhs.KernelRegressor().fit(X, X[:, 0])
    model.stop_reason_ = "\x1b[2Jgone"
    rkhs.save(model, tmp_path / "model")
    output = invoke("info", tmp_path / "model").stdout
    assert "\x1b" not in output
    assert "\\x1b[2Jgone" in output


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"nonsense", "no safetensors file"), ("other", "rkhs.save")],
)
def test_errors_are_one_line_and_exit_code_1(content, reason, tmp_path):
    path = tmp_path / "model"
    if content == "other":
        save_file({"a": np.zeros(2)}, path)
    elif content is not None:
        path.write_bytes(content)
    result = invoke("info", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.fullmatch(rf"Error: .*{reason}.*\n", result.stderr)


def test_demo_errors_are_one_line_too(monkeypatch):
    def fail(quick):
        raise MemoryError("This fit needs\n  too much \x1b[2J.")

    monkeypatch.setattr(_demo, "run_demo", fail)
    result = invoke("demo")
    assert result.exit_code == 1
    assert result.stderr == "Error: This fit needs too much \\x1b[2J.\n"


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1234, "1.23 kB"),
        (56_700, "56.7 kB"),
        (999_600, "1 MB"),
        (130_400_000, "130 MB"),
        (2_500_000_000, "2.5 GB"),
    ],
)
def test_size(n_bytes, text):
    assert size(n_bytes) == text


def test_printable_keeps_what_people_read():
    assert printable("größer → 1") == "größer → 1"
    assert one_line(" a\n\tb ") == "a b"
