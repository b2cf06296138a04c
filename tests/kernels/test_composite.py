"""Sums, products and multiples of kernels are those of their Gram matrices."""

import numpy as np
import pytest
from sklearn.base import clone

from rkhs.kernels import Cauchy, Gaussian, Laplacian, Matern, Product, Scaled, Sum

rng = np.random.default_rng(3)
X, Y = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
A, B, C = Gaussian(0.7), Laplacian([1.0, 2.0, 3.0]), Cauchy(2.0)

CASES = {
    "sum": (A + B, lambda a, b, c: a + b),
    "product": (A * B, lambda a, b, c: a * b),
    "scaled": (0.3 * A, lambda a, b, c: 0.3 * a),
    "scaled from the right": (A * 3, lambda a, b, c: 3 * a),
    "scaled twice": (0.5 * (4 * A), lambda a, b, c: 2 * a),
    "weighted sum": (0.3 * A + 2 * B, lambda a, b, c: 0.3 * a + 2 * b),
    "three": (A + B + C, lambda a, b, c: a + b + c),
    "product of a sum": ((A + 0.5 * B) * C, lambda a, b, c: (a + 0.5 * b) * c),
    "sum of a product": (A * B + 0.1 * C, lambda a, b, c: a * b + 0.1 * c),
    "square": (A * A, lambda a, b, c: a * a),
}
ALL = pytest.mark.parametrize(("kernel", "combine"), CASES.values(), ids=CASES)


@ALL
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 5e-6), (np.float64, 1e-13)])
def test_gram_matrices_combine(kernel, combine, dtype, tolerance):
    expected = combine(A(X, Y), B(X, Y), C(X, Y))
    gram = kernel(X.astype(dtype), Y.astype(dtype))
    assert gram.dtype == dtype
    np.testing.assert_allclose(gram, expected, atol=tolerance)


@ALL
def test_diag_is_the_diagonal(kernel, combine):
    np.testing.assert_allclose(kernel.diag(X), np.diagonal(kernel(X)), rtol=1e-7)


@ALL
def test_a_clone_is_the_same_kernel(kernel, combine):
    np.testing.assert_array_equal(clone(kernel)(X), kernel(X))


@ALL
def test_gram_matrices_are_positive_semidefinite(kernel, combine):
    assert np.linalg.eigvalsh(kernel(X)).min() > -1e-12


def test_operators_build_the_named_kernels():
    assert isinstance(A + B, Sum)
    assert isinstance(A * B, Product)
    assert isinstance(np.float64(0.3) * A, Scaled)
    assert isinstance(A * np.float32(0.3), Scaled)


def test_only_kernels_add_and_only_numbers_scale():
    with pytest.raises(TypeError):
        A + 1
    with pytest.raises(TypeError):
        "2" * A


def test_parameters_reach_into_the_parts():
    kernel = (A + B).set_params(left__length_scale=5.0)
    np.testing.assert_allclose(kernel(X), Gaussian(5.0)(X) + B(X), atol=1e-13)


@pytest.mark.parametrize("factor", [0.0, -1.0, np.inf, np.nan])
def test_factors_that_are_not_positive_are_refused(factor):
    with pytest.raises(ValueError, match="factor must be positive"):
        (factor * A)(X)


def test_resolve_resolves_every_part_and_keeps_factors():
    kernel = (2 * Gaussian("median") + Matern("auto", nu=2.5) * Laplacian("median")).resolve(X)
    expected = 2 * Gaussian("median").resolve(X)(X)
    expected = expected + Matern("auto", nu=2.5).resolve(X)(X) * Laplacian("median").resolve(X)(X)
    np.testing.assert_allclose(kernel(X), expected, atol=1e-13)


def test_rotation_invariance_is_lost_with_any_part():
    assert (A + Matern()).needs_rotation_invariance() is None
    assert (A + 2 * B).needs_rotation_invariance() == "Laplacian"
    assert (C * A).needs_rotation_invariance() == "Cauchy"
