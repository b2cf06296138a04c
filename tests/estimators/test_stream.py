"""Rows that come once: `partial_fit` with solvers of streams."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

import rkhs
from rkhs import KernelClassifier, KernelRegressor
from rkhs.solvers import CDSG, DSG, UDSG

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]
CUTS = [0, 700, 701, 2500, 4000]


def regressor(solver, **more):
    return KernelRegressor(
        solver=solver, alpha=1e-4, length_scale=1.0, random_state=0, max_epochs=1, **more
    )


def parts():
    return [slice(start, stop) for start, stop in pairwise(CUTS)]


@pytest.mark.parametrize("step", ["newton", "gradient"])
@pytest.mark.parametrize("method", [DSG, UDSG, CDSG])
def test_a_stream_gives_the_model_of_one_fit_however_it_is_cut(method, step):
    whole = regressor(method(step=step, shuffle=False)).fit(X, y)
    streamed = regressor(method(step=step))
    for rows in parts():
        streamed.partial_fit(X[rows], y[rows])
        streamed = pickle.loads(pickle.dumps(streamed))  # resumed elsewhere
    assert streamed.expansion_.coef.shape == whole.expansion_.coef.shape
    np.testing.assert_allclose(streamed.predict(X), whole.predict(X), atol=1e-3)
    assert [row["rows"] for row in streamed.history_] == CUTS[1:]


def test_the_error_falls_all_the_way():
    model = KernelRegressor(solver="udsg", random_state=0)
    losses = []
    for part in range(6):
        draw = np.random.default_rng(part)
        rows = draw.normal(size=(4000, 3))
        model.partial_fit(rows, np.sin(2 * rows[:, 0]) + rows[:, 1])
        losses.append(model.history_[-1]["objective"])
    assert losses[0] > losses[1] > losses[3] > losses[5]
    assert model.score(X, y) > 0.9


def test_rows_that_wait_for_a_batch_count_in_the_model():
    model = regressor(DSG(batch_size=1000))
    model.partial_fit(X[:1000], y[:1000])
    before = model.score(X, y)
    model.partial_fit(X[1000:1900], y[1000:1900])
    assert model._stream.state.waiting[0].shape == (900, 3)
    assert model.score(X, y) > before


def test_a_stream_goes_on_from_a_fit():
    model = KernelRegressor(solver=DSG(batch_size=500), random_state=0).fit(X[:2000], y[:2000])
    n_features, before = len(model.expansion_.coef), model.score(X, y)
    for rows in np.array_split(np.arange(2000, 4000), 4):
        model.partial_fit(X[rows], y[rows])
    assert len(model.expansion_.coef) > n_features
    assert model.score(X, y) > before - 0.005


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge", "squared_error"])
def test_classes_may_be_known_or_come_later(loss):
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.5])]
    order = np.concatenate([np.flatnonzero(labels != "mid")[:600], rng.permutation(4000)])
    grown, told = (
        KernelClassifier(solver=UDSG(batch_size=500), loss=loss, alpha=1e-5, random_state=0)
        for _ in range(2)
    )
    for rows in np.array_split(order, 8):
        grown.partial_fit(X[rows], labels[rows])
        told.partial_fit(X[rows], labels[rows], classes=["low", "mid", "top"])
        assert told.classes_.tolist() == ["low", "mid", "top"]
    assert grown.classes_.tolist() == ["low", "mid", "top"]
    assert grown.score(X, labels) > 0.8
    assert told.score(X, labels) > 0.8


def test_a_new_class_leaves_the_others_as_they_were():
    codes = (y > 0).astype(int)
    for loss in ("log_loss", "squared_error"):
        model = KernelClassifier(solver=DSG(batch_size=500), loss=loss, random_state=0)
        model.partial_fit(X[:1000], codes[:1000])
        f = model.decision_function(X)
        model.partial_fit(X[:1], [7])  # waits: one step with one row, which barely moves it
        assert model.classes_.tolist() == [0, 1, 7]
        outputs = model.decision_function(X)
        difference = outputs[:, 1] - outputs[:, 0]
        if loss == "squared_error":
            difference /= 2
        assert np.corrcoef(difference, f)[0, 1] > 0.9


def test_wrong_rows_are_refused_and_change_nothing():
    model = regressor("dsg").partial_fit(X[:1000], y[:1000])
    before = model.predict(X)
    for table, target in [
        (X[:10, :2], y[:10]),
        (np.full((10, 3), np.nan), y[:10]),
        (X[:10], np.stack([y[:10], y[:10]], axis=1)),
        (X[:10], np.full(10, np.inf)),
        (X[:0], y[:0]),
        (X[:10], y[:9]),
    ]:
        with pytest.raises(ValueError):
            model.partial_fit(table, target)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="classes="):
        KernelClassifier(solver="dsg").partial_fit(X[:10], np.zeros(10))


@pytest.mark.parametrize("method", [DSG, UDSG, CDSG])
@pytest.mark.parametrize("step", ["newton", "gradient"])
def test_a_model_from_a_file_goes_on_to_the_bit(method, step, tmp_path):
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.5])]
    solver = method(step=step, batch_size=300)
    model = KernelClassifier(solver=solver, length_scale=1.0, random_state=0)
    model.partial_fit(X[:2000], labels[:2000])
    assert model._stream.state.waiting is not None  # 200 rows
    rkhs.save(model, tmp_path / "model")
    again = rkhs.load(tmp_path / "model")
    for each in (model, again):
        each.partial_fit(X[2000:], labels[2000:])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert [row["rows"] for row in again.history_] == [2000, 4000]
    assert again._stream.state.count == model._stream.state.count


def test_files_hold_streams_that_began_with_a_fit_or_have_several_outputs(tmp_path):
    both = np.stack([y, y**2], axis=1)
    model = regressor("udsg").fit(X[:2000], both[:2000])
    assert model._stream.state.waiting is None
    rkhs.save(model, tmp_path / "model")
    again = rkhs.load(tmp_path / "model")
    for each in (model, again):
        each.partial_fit(X[2000:], both[2000:])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_new_class_may_come_after_loading(tmp_path):
    codes = (y > 0).astype(int)
    model = KernelClassifier(solver=DSG(batch_size=300), random_state=0)
    model.partial_fit(X[:1000], codes[:1000])
    rkhs.save(model, tmp_path / "model")
    again = rkhs.load(tmp_path / "model")
    for each in (model, again):
        each.partial_fit(X[1000:], np.where(y[1000:] > 1, 2, codes[1000:]))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_model_of_another_solver_does_not_go_on():
    model = regressor("sgd").fit(X, y).set_params(solver="dsg")
    with pytest.raises(ValueError, match="another solver"):
        model.partial_fit(X, y)


def test_only_solvers_of_streams_have_partial_fit():
    assert hasattr(KernelRegressor(solver="dsg"), "partial_fit")
    assert not hasattr(KernelRegressor(solver="sgd"), "partial_fit")
