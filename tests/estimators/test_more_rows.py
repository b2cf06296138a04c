"""Growing a model: more grids by a warm start, more rows by `partial_fit`."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import RandomBinning
from rkhs.solvers import ConjugateGradient

rng = np.random.default_rng(0)
X = rng.normal(size=(1200, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0)


def regressor(n_grids=24, tol=1e-6, **more):
    return KernelRegressor(
        kernel="laplacian",
        length_scale=2.0,
        features=RandomBinning(n_grids),
        solver=ConjugateGradient(tol=tol),
        alpha=1e-3,
        random_state=0,
        **more,
    )


def test_more_grids_start_from_the_function_of_fewer():
    model = regressor(warm_start=True).fit(X, y)
    few = model.features_.n_outputs
    model.set_params(features=RandomBinning(32)).fit(X, y)
    cold = regressor(32).fit(X, y)
    assert model.features_.n_outputs > few
    np.testing.assert_array_equal(model.features_.keys_, cold.features_.keys_)
    np.testing.assert_allclose(model.predict(X), cold.predict(X), atol=1e-4)
    assert model.history_[0]["objective"] < cold.history_[0]["objective"]


def test_a_warm_start_on_the_same_rows_is_done_at_once():
    model = regressor(warm_start=True, tol=1e-3).fit(X, y)
    assert model.fit(X, y).n_iter_ == 1


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        sparse.csr_matrix,
        lambda X: pd.DataFrame(X, columns=list("abc")),
        lambda X: pl.DataFrame(X, schema=list("abc")),
    ],
    ids=["array", "sparse", "pandas", "polars"],
)
def test_rows_in_parts_give_the_model_of_all_rows(kind):
    model = regressor()
    for rows in (slice(0, 500), slice(500, 700), slice(700, 1200)):
        model.partial_fit(kind(X[rows]), y[rows])
    whole = regressor().fit(kind(X), y)
    np.testing.assert_allclose(model.predict(kind(X)), whole.predict(kind(X)), atol=1e-4)
    assert model.warm_start is False


def test_later_parts_start_from_the_earlier():
    model = regressor(tol=1e-3).partial_fit(X[:1100], y[:1100])
    steps = model.n_iter_
    model.partial_fit(X[1100:], y[1100:])
    assert model.n_iter_ < steps


def test_weights_of_parts_count():
    weight = rng.integers(0, 3, len(X)).astype(float)
    model = regressor()
    for rows in (slice(0, 600), slice(600, 1200)):
        model.partial_fit(X[rows], y[rows], sample_weight=weight[rows])
    whole = regressor().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-4)


def classifier(**more):
    return KernelClassifier(
        kernel="laplacian",
        length_scale=2.0,
        loss="squared_error",
        features=RandomBinning(24),
        alpha=1e-3,
        tol=1e-6,
        random_state=0,
        **more,
    )


@pytest.mark.parametrize("names", [[0, 1, 2], ["low", "mid", "top"]])
def test_classes_may_come_later(names):
    labels = np.array(names)[np.digitize(y, [-0.5, 0.5])]
    order = np.argsort(labels, kind="stable")
    model, told = classifier(), classifier()
    for k, rows in enumerate(np.array_split(order, 3)):
        if k == 0 and len(np.unique(labels[rows])) < 2:
            rows = np.concatenate([rows, order[-5:]])
        model.partial_fit(X[rows], labels[rows])
        told.partial_fit(X[rows], labels[rows], classes=names if k == 0 else None)
        assert told.classes_.tolist() == sorted(names)
    assert model.classes_.tolist() == sorted(names)
    np.testing.assert_allclose(model.decision_function(X), told.decision_function(X), atol=1e-3)
    assert model.score(X, labels) > 0.8


def test_one_class_in_the_first_part_if_another_is_expected():
    model = classifier().partial_fit(X[:50], np.zeros(50), classes=[0, 1])
    assert (model.predict(X[:50]) == 0).all()


def test_a_fit_forgets_the_parts():
    model = regressor().partial_fit(X[:600], y[:600])
    model.fit(X[600:], y[600:])
    np.testing.assert_array_equal(model.predict(X), regressor().fit(X[600:], y[600:]).predict(X))
    model.partial_fit(X[:600], y[:600])  # to the rows of the fit
    np.testing.assert_allclose(model.predict(X), regressor().fit(X, y).predict(X), atol=1e-4)


def test_a_pickle_holds_no_rows_to_add_to():
    model = pickle.loads(pickle.dumps(regressor().fit(X, y)))
    with pytest.raises(ValueError, match="Fit it anew"):
        model.partial_fit(X, y)


def test_a_part_with_other_columns_is_refused_and_nothing_lost():
    model = regressor().partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict(X), before)
    model.partial_fit(X[:10], y[:10])


def test_other_features_have_no_partial_fit():
    assert not hasattr(KernelRegressor(), "partial_fit")
    assert not hasattr(KernelClassifier(features="nystrom"), "partial_fit")
    assert hasattr(KernelClassifier(features="random_binning"), "partial_fit")


def test_later_rows_far_outside_of_the_first_are_not_merged():
    wide = rng.uniform(0, 10, size=(600, 1))
    wide[:50] *= 1e-4
    target = np.sin(3 * wide[:, 0])
    model = regressor()
    for rows in (slice(0, 50), slice(50, 600)):
        model.partial_fit(wide[rows], target[rows])
    assert model.score(wide, target) > regressor().fit(wide, target).score(wide, target) - 0.02


def test_a_fit_between_parts_is_what_the_next_part_goes_on_from():
    model = regressor().partial_fit(1e-4 * X[:300], y[:300])
    model.fit(X[:600], y[:600]).partial_fit(X[600:], y[600:])
    np.testing.assert_allclose(model.predict(X), regressor().fit(X, y).predict(X), atol=1e-4)


def test_a_part_that_failed_is_not_counted():
    model = regressor().fit(X[:600], y[:600])
    with pytest.raises(MemoryError):
        model.set_params(memory_limit=100).partial_fit(X[600:], y[600:])
    model.set_params(memory_limit="auto").partial_fit(X[600:], y[600:])
    assert sum(len(part) for _, part, _ in model._seen) == len(X)


def test_expected_classes_of_a_part_that_failed_are_forgotten():
    model, labels = classifier(), (y > 0).astype(int)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((5, 3), np.nan), labels[:5], classes=[0, 1, 2])
    assert model.fit(X, labels).classes_.tolist() == [0, 1]


def test_balanced_classes_before_all_have_come():
    model = classifier(class_weight="balanced")
    model.partial_fit(X, (y > 0).astype(int), classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="zero"):
        classifier(class_weight={0: 0, 1: 0}).fit(X, (y > 0).astype(int))


def test_one_number_as_the_weight_of_a_part():
    model = regressor().partial_fit(X[:600], y[:600], 2.0).partial_fit(X[600:], y[600:], 2.0)
    np.testing.assert_allclose(model.predict(X), regressor().fit(X, y, 2.0).predict(X), atol=1e-4)
