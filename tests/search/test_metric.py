"""Gradients against finite differences, and maps against functions of known directions."""

import numpy as np
import pytest

from rkhs.kernels import Exponential, Gaussian, Matern, RationalQuadratic
from rkhs.search import Scales, _metric, gradient_outer_product, learn_metric

KERNELS = [Gaussian(), Exponential(), Matern(), RationalQuadratic()]


def even_scales(n_columns, scale=1.5):
    return Scales(np.full(n_columns, scale), 0.01, 1.0, np.ones(n_columns))


def oblique(n_rows, n_columns=6, seed=0):
    """Rows, a function of one direction of them, and the direction."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=n_columns)
    direction /= np.linalg.norm(direction)
    X = rng.normal(size=(n_rows, n_columns))
    return X, np.sin(2 * X @ direction)[:, None], direction


def leading(matrix):
    return matrix[0] / np.linalg.norm(matrix[0])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_are_finite_differences(kernel):
    rng = np.random.default_rng(0)
    X, dual = rng.normal(size=(25, 3)), rng.normal(size=(25, 2))
    weight = rng.integers(1, 4, 25).astype(float)
    expected = np.zeros((3, 3))
    for x, w in zip(X, weight, strict=True):
        steps = 1e-5 * np.eye(3)
        # A function with a kink at its own row is flat there, between its two sides.
        up, down = kernel(x + steps, X) @ dual, kernel(x - steps, X) @ dual
        slope = (up - down) / 2e-5
        expected += w * slope @ slope.T
    got = gradient_outer_product(kernel, X, dual, weight)
    np.testing.assert_allclose(got, expected / weight.sum(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_one_direction_that_counts_is_found(kernel):
    X, y, direction = oblique(500)
    found = learn_metric(kernel, X, y, even_scales(6))
    assert abs(leading(found.matrix) @ direction) > 0.99
    assert min(found.errors) < 0.3 * found.errors[0]
    lengths = np.linalg.norm(found.matrix, axis=1)
    assert (np.diff(lengths) <= 0).all()
    assert lengths[0] > 3 * lengths[1]


def test_units_of_columns_make_no_difference():
    X, y, _ = oblique(300)
    unit = np.array([1e-3, 1.0, 5.0, 1e4, 2.0, 10.0])
    scales = even_scales(6)
    plain = learn_metric(Gaussian(), X, y, scales)
    moved = learn_metric(
        Gaussian(), X * unit + unit, 3 * y + 7, scales._replace(length_scale=1.5 * unit)
    )
    np.testing.assert_allclose(
        moved.matrix.T @ moved.matrix * np.outer(unit, unit),
        plain.matrix.T @ plain.matrix,
        atol=1e-6 * (plain.matrix**2).sum(),
    )
    np.testing.assert_allclose(moved.errors, plain.errors, rtol=1e-6)


def test_the_mean_distance_of_rows_stays():
    X, y, _ = oblique(300)
    kernel = Gaussian()
    found = learn_metric(kernel, X, y, even_scales(6))
    ratio = (X @ found.matrix.T).var(axis=0).sum() / (X / 1.5).var(axis=0).sum()
    # Up to the common factor, of halves and doubles, that the errors chose.
    assert np.log2(ratio) / 2 == pytest.approx(np.rint(np.log2(ratio) / 2), abs=1e-6)


def test_the_start_is_kept_where_no_round_is_better(monkeypatch):
    X, y, _ = oblique(200, 2)

    def blind(kernel, rows, dual, weight):
        return np.diag(np.arange(rows.shape[1]) == 0).astype(float)

    monkeypatch.setattr(_metric, "gradient_outer_product", blind)
    found = learn_metric(Gaussian(), X, y, even_scales(2))
    assert found.errors[0] < 0.5 * min(found.errors[1:])
    np.testing.assert_array_equal(found.matrix, found.start)
    np.testing.assert_allclose(found.start.T @ found.start, np.eye(2) / 1.5**2, atol=1e-12)


def test_columns_that_stay_out_have_zeros():
    X, y, _ = oblique(300)
    scales = even_scales(6)
    scales.length_scale[2] = np.inf
    assert (learn_metric(Gaussian(), X, y, scales).matrix[:, 2] == 0).all()


def test_several_outputs_are_one_sum():
    X, y, _ = oblique(200)
    once = learn_metric(Gaussian(), X, y, even_scales(6))
    twice = learn_metric(Gaussian(), X, np.hstack([y, -y]), even_scales(6))
    np.testing.assert_allclose(
        twice.matrix.T @ twice.matrix, once.matrix.T @ once.matrix, rtol=1e-8, atol=1e-9
    )


def test_threads_change_no_bit():
    X, y, _ = oblique(400)
    one, two = (learn_metric(Gaussian(), X, y, even_scales(6), n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.matrix, two.matrix)


def test_what_cannot_be_learnt_is_left_at_the_start():
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = learn_metric(Gaussian(), X, np.ones((30, 1)), even_scales(2))
    np.testing.assert_allclose(found.matrix.T @ found.matrix, np.eye(2) / 1.5**2)
    none = Scales(np.full(2, np.inf), 0.1, 1.0, np.zeros(2))
    found = learn_metric(Gaussian(), X, X[:, :1], none)
    np.testing.assert_array_equal(found.matrix, [[0.0, 0.0]])


def test_one_direction_of_many_columns_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 200))
    direction = np.zeros(200)
    direction[:10] = 10**-0.5
    y = np.tanh(X @ direction)[:, None]
    found = learn_metric(Gaussian(), X, y, even_scales(200, 20.0))
    assert abs(leading(found.matrix) @ direction) > 0.9
