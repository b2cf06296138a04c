"""Pairwise distances against the ones of SciPy, computed in float64."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from rkhs.compute import l1_distances, one_plus_square_products, squared_distances

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(40, 7)), rng.normal(size=(30, 7))


def squared(X, Y, factor=1.0):
    out = np.empty((len(X), len(Y)), X.dtype)
    halves = (0.5 * np.einsum("ij,ij->i", Z, Z) for Z in (X, Y))
    half_x, half_y = halves
    squared_distances(X, half_x, Y, half_y, factor, out)
    return out


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("factor", [1.0, -0.5, 3.0])
def test_squared_distances(dtype, tolerance, factor):
    A, B = X.astype(dtype), Y.astype(dtype)
    truth = factor * cdist(A.astype(float), B.astype(float), "sqeuclidean")
    np.testing.assert_allclose(squared(A, B, factor), truth, atol=tolerance * abs(factor))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squared_distances_are_never_negative(dtype):
    A = (X * 30).astype(dtype)
    assert squared(A, A).min() >= 0


@pytest.mark.parametrize("scale", [10.0, 60.0, 1e3, 1e6])
def test_float32_squared_distances_of_long_rows_do_not_cancel(scale):
    # Rows of norm `scale` with differences of about 1.
    direction = np.full(7, scale / np.sqrt(7))
    A, B = (X + direction).astype(np.float32), (Y + direction).astype(np.float32)
    truth = cdist(A.astype(float), B.astype(float), "sqeuclidean")
    # Below the switch to float64 the error is a few roundings of the squared norm.
    tolerance = 4 * np.finfo(np.float32).eps * min(scale**2 + 100, 4e3)
    np.testing.assert_allclose(squared(A, B), truth, atol=tolerance, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_l1_distances(dtype, tolerance):
    A, B = X.astype(dtype), Y.astype(dtype)
    out = np.empty((len(A), len(B)), dtype)
    l1_distances(A, B, out)
    truth = cdist(A.astype(float), B.astype(float), "cityblock")
    np.testing.assert_allclose(out, truth, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-6), (np.float64, 1e-14)])
def test_one_plus_square_products(dtype, tolerance):
    A, B = X.astype(dtype), Y.astype(dtype)
    out = np.empty((len(A), len(B)), dtype)
    one_plus_square_products(A, B, out)
    difference = A.astype(float)[:, None] - B.astype(float)[None]
    np.testing.assert_allclose(out, np.prod(1 + difference**2, axis=2), rtol=tolerance)


def test_products_that_overflow_become_infinite():
    out = np.empty((1, 1), np.float32)
    one_plus_square_products(np.full((1, 9), 1e9, np.float32), np.zeros((1, 9), np.float32), out)
    assert np.isposinf(out).all()
