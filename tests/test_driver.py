"""The one loop: why it stops, what it records, whom it tells."""

import numpy as np
import pytest
from helpers import make_problem, table
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import ConvergenceWarning

from rkhs import KernelClassifier, KernelRegressor
from rkhs.driver import run
from rkhs.losses import SquaredError
from rkhs.monitor import Monitor, Result
from rkhs.solvers import SGD, ConjugateGradient


def test_converged():
    fit = run(make_problem(SquaredError(), "kernel"), ConjugateGradient())
    assert fit.result is Result.CONVERGED
    assert [row["epoch"] for row in fit.history] == list(range(1, len(fit.history) + 1))
    assert np.all(np.diff([row["objective"] for row in fit.history]) < 0)
    assert np.all(np.diff([row["seconds"] for row in fit.history]) > 0)


def test_max_epochs_warns_where_a_tolerance_was_sought():
    problem = make_problem(SquaredError(), "random_fourier")
    with pytest.warns(ConvergenceWarning, match=r"after 2 epochs.*Raise max_epochs"):
        fit = run(problem, ConjugateGradient(preconditioner=None), max_epochs=2)
    assert fit.result is Result.MAX_EPOCHS
    assert len(fit.history) == 2
    assert run(problem, SGD(tol=0.0), max_epochs=2).result is Result.MAX_EPOCHS


def test_time_budget_ends_after_the_step_under_way():
    fit = run(make_problem(SquaredError(), "random_fourier"), SGD(tol=0.0), time_budget=1e-9)
    assert fit.result is Result.TIME_BUDGET
    assert len(fit.history) == 1


def test_a_callback_stops_the_loop():
    monitor = Monitor(after_step=lambda state: True)
    fit = run(make_problem(SquaredError(), "random_fourier"), SGD(tol=0.0), monitor)
    assert fit.result is Result.CALLBACK
    assert len(fit.history) == 1


def noisy(n_rows=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 2))
    return X, np.sin(3 * X[:, 0]) + rng.normal(size=n_rows)


def test_early_stopping_keeps_the_best_epoch():
    X, y = noisy()
    model = KernelRegressor(
        length_scale=0.1, features="random_fourier", alpha=1e-9, early_stopping=True,
        solver=ConjugateGradient(tol=1e-12, preconditioner=None), random_state=0,
    )  # fmt: skip
    model.fit(X, y)
    losses = [row["validation_loss"] for row in model.history_]
    assert model.stop_reason_ == Result.EARLY_STOPPING.value
    assert len(losses) == np.argmin(losses) + 1 + 5
    late = KernelRegressor(
        length_scale=0.1, features="random_fourier", alpha=1e-9, random_state=0,
        solver=ConjugateGradient(tol=1e-4),
    )  # fmt: skip
    grid = np.random.default_rng(1).uniform(-1, 1, size=(500, 2))
    truth = np.sin(3 * grid[:, 0])
    late.fit(X, y)
    assert np.mean((model.predict(grid) - truth) ** 2) < np.mean((late.predict(grid) - truth) ** 2)


class Recorder:
    """A callback of scikit-learn's protocol that counts, and stops after some epochs."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.calls = []
        self.scores = []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.calls.append(f"end {context.task_name}")
        if context.task_name == "epoch":
            self.scores.append(fitted_estimator.score(X, y))
            return self.stop_after is not None and len(self.scores) >= self.stop_after
        return False

    def teardown(self, estimator, context):
        self.calls.append("teardown")


def test_scikit_learn_callbacks_see_every_epoch_and_can_stop():
    X, _, codes = table(300)
    recorder = Recorder(stop_after=3)
    model = KernelClassifier(features="random_fourier", solver=SGD(tol=0.0), random_state=0)
    model.set_callbacks(recorder).fit(X, codes)
    assert recorder.calls == [
        "setup",
        "begin fit",
        *["begin epoch", "end epoch"] * 3,
        "end fit",
        "teardown",
    ]
    assert model.stop_reason_ == Result.CALLBACK.value
    assert recorder.scores[-1] == model.score(X, codes)


def test_scikit_learns_own_callbacks_work(capsys):
    X, y, _ = table()
    scores = ScoringMonitor(scoring="r2")
    model = KernelRegressor(features="nystrom", solver="sgd", max_epochs=4, random_state=0)
    model.set_callbacks(ProgressBar(), scores).fit(X, y)
    assert "KernelRegressor - fit" in capsys.readouterr().out


def test_verbose_shows_a_bar_and_leaves_no_callback_behind(capsys):
    X, y, _ = table()
    model = KernelRegressor(verbose=True).fit(X, y)
    assert "KernelRegressor - fit" in capsys.readouterr().out
    assert not hasattr(model, "_skl_callbacks")
    KernelRegressor(verbose=False).fit(X, y)
    KernelRegressor().fit(X, y)  # not a terminal, and quick
    assert capsys.readouterr().out == ""
