"""LAPACK by address, against NumPy."""

import numpy as np
import pytest

from rkhs.compute import invert_lower, solve_lower


def matrix(dtype, size=40):
    Z = np.random.default_rng(0).normal(size=(size, 2 * size))
    return (Z @ Z.T / size).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_and_rows_times_it(dtype):
    A = matrix(dtype)
    tolerance = 2e4 * np.finfo(dtype).eps
    inverse = np.tril(A) + np.triu(np.full_like(A, np.nan), 1)  # the upper triangle is not read
    rows = np.random.default_rng(1).normal(size=(7, len(A))).astype(dtype)
    solved, factor = rows.copy(), inverse.copy()
    assert invert_lower(inverse)
    truth = np.linalg.inv(A.astype(np.float64))
    np.testing.assert_allclose(np.tril(inverse), np.tril(truth), atol=tolerance)
    assert solve_lower(factor, solved)
    np.testing.assert_allclose(solved, rows @ truth, atol=tolerance)


def test_an_indefinite_matrix_is_told():
    assert not invert_lower(-matrix(np.float64))
    assert not solve_lower(-matrix(np.float64), np.ones((1, 40)))


@pytest.mark.parametrize(
    ("A", "rows"),
    [
        (np.eye(3)[:2], np.ones((1, 2))),
        (np.eye(3), np.ones((1, 2))),
        (np.eye(3), np.ones((1, 3), np.float32)),
        (np.asfortranarray(matrix(np.float64)), np.ones((1, 40))),
        (np.eye(3), np.ones((3, 2)).T[:, :]),
    ],
)
def test_arrays_that_lapack_would_misread_are_refused(A, rows):
    with pytest.raises(ValueError, match="must be"):
        solve_lower(A, rows)
