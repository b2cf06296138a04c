"""A kernel with a full metric: judged by held-out rows, next to the scales of the columns."""

import numpy as np
import pytest

from rkhs.data import RowSource
from rkhs.kernels import Cauchy, Gaussian, Laplacian, Mapped
from rkhs.search import Metric, _mapped, learn_mapped_kernel

rng = np.random.default_rng(0)
X = rng.normal(size=(700, 4))
DIRECTION = np.array([0.5, -0.5, 0.5, 0.5])
Y = np.sin(2 * X @ DIRECTION)[:, None]


def learn(X, y, weight=None, kernel=None, **more):
    weight = np.ones(len(X)) if weight is None else weight
    return learn_mapped_kernel(kernel or Gaussian(), RowSource(X), y, weight, 0, **more)


def metric(choice):
    assert isinstance(choice.kernel, Mapped)
    assert choice.kernel.kernel.length_scale == 1.0
    return choice.kernel.matrix.T @ choice.kernel.matrix


def test_an_oblique_direction_wins():
    choice = learn(X, Y)
    values, vectors = np.linalg.eigh(metric(choice))
    assert abs(vectors[:, -1] @ DIRECTION) > 0.99
    assert values[-1] > 10 * values[-2]
    assert "along directions" in choice.report[-1]


def test_columns_keep_their_scales_where_a_map_is_no_better(monkeypatch):
    flattering = Metric(np.array([[1.0, 0.0, 0.0, 0.0]]), np.eye(4), [0.5, 0.1])
    monkeypatch.setattr(_mapped, "learn_metric", lambda *arguments: flattering)
    choice = learn(X, Y)
    assert "along directions" in choice.report[-1]  # it was tried
    found = metric(choice)
    np.testing.assert_allclose(found, found[0, 0] * np.eye(4), atol=1e-12)


def test_weights_are_repetitions_in_any_order():
    weight = rng.integers(1, 4, 120)
    rows = rng.permutation(np.repeat(np.arange(120), weight))
    once = metric(learn(X[:120], Y[:120], weight.astype(float)))
    many = metric(learn(X[rows], Y[rows]))
    np.testing.assert_allclose(many, once, rtol=1e-6, atol=1e-9)


def test_a_given_penalty_is_kept():
    choice = learn(X, Y, alpha=1e-3)
    assert choice.ridge == pytest.approx(1e-3 * 0.75 * 700)
    assert all("ridge 0.525" in line for line in choice.report[2:])


def test_few_rows_hold_none_out():
    choice = learn(X[:20], Y[:20])
    assert np.isfinite(choice.kernel(X[:20])).all()
    assert len(choice.report) == 2


def test_no_further_step_begins_once_time_is_up():
    choice = learn(X, Y, time_budget=1e-6)
    found = metric(choice)
    np.testing.assert_allclose(found, np.diag(np.diagonal(found)), atol=1e-12)


@pytest.mark.parametrize("kernel", [Laplacian(), Cauchy()], ids=repr)
def test_products_over_columns_are_refused_with_what_would_work(kernel):
    with pytest.raises(ValueError, match=r'product over the columns.*"gaussian".*"diagonal"'):
        learn(X, Y, kernel=kernel)
