"""`memory_limit` is kept, measured in a process of its own by what the system reports."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rkhs import KernelRegressor
from rkhs.features import Nystrom

SCRIPT = """
import numpy as np
from rkhs import KernelRegressor
from rkhs.features import Nystrom, RandomFourier
from rkhs.solvers import EigenPro

def peak():
    # Not getrusage: its peak is inherited from the process that started this one.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

rng = np.random.default_rng(0)
X = rng.normal(size=({rows}, 10)).astype(np.float32)
y = np.sin(X[:, 0])
model = KernelRegressor(features={features}, solver={solver}, max_epochs=3, random_state=0)
model.fit(X[:3000], y[:3000])  # loads libraries and compiles
before = peak()
model.set_params(memory_limit={limit}).fit(X, y)
print(peak() - before, model.score(X[:5000], y[:5000]))
"""


def fit_apart(**values):
    """Bytes by which a fit raised the peak of a fresh process, and its score."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not report the peak memory of a process")
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(**values)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return int(out[0]), float(out[1])


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Loops are on disk before anything is measured: compiling takes memory of its own."""
    for features in ("RandomFourier(50)", "Nystrom(50)"):
        fit_apart(rows=3000, features=features, solver="'conjugate_gradient'", limit=10**9)


@pytest.mark.parametrize(
    ("features", "solver"),
    [
        ("RandomFourier(1000)", "'conjugate_gradient'"),
        ("Nystrom(1000)", "'conjugate_gradient'"),
        ("RandomFourier(1000)", "'sgd'"),
        ("'auto'", "EigenPro(centers=1000)"),
    ],
)
def test_streamed_fit_stays_under_the_limit(features, solver):
    """200,000 x 1,000 features are 800 MB; the limit is an eighth of that."""
    limit = 150_000_000
    used, score = fit_apart(rows=200_000, features=features, solver=solver, limit=limit)
    assert used < limit
    assert score > 0.9


def test_all_rows_as_centres_stay_under_the_limit():
    """The kernel matrix of 30,000 rows is 3.6 GB; the limit is a fourteenth of that."""
    limit = 250_000_000
    used, score = fit_apart(rows=30_000, features=None, solver="'eigenpro'", limit=limit)
    assert used < limit
    assert score > 0.9


def test_memory_is_used_where_it_is_allowed():
    used, _ = fit_apart(
        rows=100_000, features="Nystrom(500)", solver="'conjugate_gradient'", limit=2_000_000_000
    )
    assert used > 150_000_000  # the kept tiles alone are 200 MB


@pytest.mark.parametrize("features", [Nystrom(3000), None], ids=repr)
def test_what_cannot_fit_is_refused_with_the_number(features):
    X = np.random.default_rng(0).normal(size=(3000, 2))
    model = KernelRegressor(features=features, memory_limit="1MB", solver="conjugate_gradient")
    with pytest.raises(MemoryError, match=r"needs about [\d,.]+ MB.*allows 1.0 MB.*fewer"):
        model.fit(X, X[:, 0])
    assert not hasattr(model, "expansion_")
