"""All rows as centres: which tables get them, and in which metric."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from rkhs import KernelClassifier
from rkhs.data import Preparation, PreparedRows, RowSource
from rkhs.losses import SquaredError
from rkhs.search import _related, _whole, search
from rkhs.search._tuning import Task
from rkhs.search._whole import best_whole, is_affordable
from rkhs.solvers import EigenPro

N_COLUMNS = 70
rng = np.random.default_rng(0)
# Ten columns of large numbers that count, and sixty of small ones that are noise.
UNIT = np.where(np.arange(N_COLUMNS) < 10, 5.0, 0.1)
X = UNIT * rng.normal(size=(1600, N_COLUMNS))
Y = (np.sin(0.05 * X.sum(axis=1)) + 0.002 * np.square(X).sum(axis=1))[:, None]
Y -= Y.mean()
WEIGHT = np.ones(len(X))
METRICS = {"units": np.ones(N_COLUMNS), "deviations": UNIT}


def task(n_rows=1200):
    rows, held = slice(0, n_rows), slice(n_rows, None)
    return Task(
        RowSource(X[rows]), Y[rows], WEIGHT[rows], RowSource(X[held]), Y[held], WEIGHT[held]
    )


def test_the_metric_with_the_lower_error_is_taken():
    name, whole = best_whole(task(), 1200, METRICS, seed=0, memory=2**30)
    assert name == "units"
    assert np.ptp(whole.kernel.length_scale) == 0.0
    swapped = {"units": UNIT, "deviations": np.ones(N_COLUMNS)}  # the name does not matter
    assert best_whole(task(), 1200, swapped, seed=0, memory=2**30)[0] == "deviations"


@pytest.mark.parametrize(("first", "taken"), [(1.04, "units"), (1.06, "deviations")])
def test_metrics_that_are_close_on_few_rows_are_compared_on_more(monkeypatch, first, taken):
    errors = {400: {"units": first, "deviations": 1.0}, 1200: {"units": 0.8, "deviations": 0.9}}
    found = []

    def epochs(here, kernel, n_epochs, *_):
        name = "units" if np.ptp(kernel.length_scale) == 0.0 else "deviations"
        found.append((len(here.source), name))
        yield errors[len(here.source)][name], np.zeros_like(here.held_target)

    monkeypatch.setattr(_whole, "_epochs", epochs)
    monkeypatch.setattr(_whole, "_FIRST_ROWS", 400)
    name, whole = best_whole(task(), 1200, METRICS, seed=0, memory=2**30)
    assert name == taken
    assert whole.error == errors[1200][taken]
    assert ((1200, "units") in found) == (taken == "units")


def test_the_error_is_that_of_the_function_on_rows_to_judge_by():
    here = task()
    _, whole = best_whole(here, 1200, METRICS, seed=0, memory=2**30)
    assert whole.error == SquaredError().value(whole.predicted, here.held_target, here.held_weight)
    # The exact minimiser without a penalty, which epochs come close to, is a yardstick.
    exact = whole.kernel(here.held_out[:], here.source[:]) @ np.linalg.solve(
        whole.kernel(here.source[:]) + 1e-6 * np.eye(len(here.source)), here.target
    )
    nothing = SquaredError().value(np.zeros_like(exact), here.held_target, here.held_weight)
    best = SquaredError().value(exact, here.held_target, here.held_weight)
    assert whole.error < best + 0.05 * nothing


def test_more_rows_than_in_the_trial_take_fewer_epochs():
    few, many = (
        best_whole(task(), n_rows, METRICS, seed=0, memory=2**30)[1] for n_rows in (1200, 120_000)
    )
    assert few.n_epochs > many.n_epochs == 1


def test_nothing_is_found_after_the_deadline():
    assert best_whole(task(), 1200, METRICS, seed=0, memory=2**30, deadline=0.0) is None


@pytest.mark.parametrize(
    ("rows", "memory", "affordable"),
    [
        (RowSource(X), 2**30, True),
        (RowSource(X[:, :40]), 2**30, False),  # few columns
        (RowSource(X, categories=[["a"]] * 30 + [None] * 40), 2**30, False),  # of numbers
        (RowSource(X), 10**6, False),
        (RowSource(sparse.csr_array(X)), 2**30, False),
        (RowSource(np.broadcast_to(X[:1], (300_000, N_COLUMNS))), 2**40, False),
    ],
)
def test_wide_tables_of_not_too_many_rows_are_tried(rows, memory, affordable):
    assert is_affordable(rows, memory) is affordable


def test_columns_made_from_others_are_not_counted_as_the_tables_own():
    numbers = np.zeros(N_COLUMNS, bool)
    preparation = Preparation().fit_rows(X**5, WEIGHT, numbers, missing=~numbers)
    many = np.broadcast_to(X[:1] ** 5, (200_000, N_COLUMNS))
    wide = PreparedRows(many, preparation)
    assert wide.shape[1] == 3 * N_COLUMNS  # marks of gaps, and logarithms
    assert is_affordable(wide, 2**40)
    preparation = Preparation().fit_rows(
        X[:, :40] ** 5, WEIGHT, numbers[:40], missing=~numbers[:40]
    )
    assert not is_affordable(PreparedRows(X[:, :40], preparation), 2**40)


def test_a_search_takes_all_rows_where_they_have_the_lower_error(monkeypatch):
    monkeypatch.setattr(_whole, "_COLUMNS", 10)  # that are not noise
    choice = search(RowSource(X), Y, WEIGHT, SquaredError(), np.zeros(1), seed=0, memory=2**30)
    assert choice.features is None
    assert isinstance(choice.solver, EigenPro)
    assert choice.max_epochs >= 1
    assert choice.report[-1].startswith("all rows as centres")


def test_a_fit_has_the_epochs_that_were_found_unless_some_are_asked_for():
    digits, label = load_digits(return_X_y=True)
    train, test = slice(0, 1200), slice(1200, None)
    model = KernelClassifier(random_state=0).fit(digits[train], label[train])
    assert isinstance(model.solver_, EigenPro)
    assert model.score(digits[test], label[test]) > 0.95
    one = KernelClassifier(random_state=0, max_epochs=1).fit(digits[train], label[train])
    assert one.n_iter_ == 1 < model.n_iter_


def test_a_column_that_never_varied_has_no_say(monkeypatch):
    monkeypatch.setattr(_whole, "_COLUMNS", 10)
    monkeypatch.setattr(_related, "unrelated_columns", lambda rows, *_: np.zeros(71, bool))
    table = np.hstack([X, np.zeros((len(X), 1))])
    choice = search(RowSource(table), Y, WEIGHT, SquaredError(), np.zeros(1), seed=0, memory=2**30)
    assert choice.features is None
    assert choice.kernel.length_scale[-1] == np.inf


def test_another_fit_does_not_add_epochs_to_the_last():
    digits, label = load_digits(return_X_y=True)
    model = KernelClassifier(random_state=0, warm_start=True, max_epochs=1000)
    first = model.fit(digits[:1200], label[:1200]).predict_proba(digits[1200:])
    again = model.fit(digits[:1200], label[:1200]).predict_proba(digits[1200:])
    np.testing.assert_array_equal(first, again)
    assert model.n_iter_ < 20
