"""Kernels that are products over the columns."""

import numpy as np
import pytest

from rkhs.kernels import Cauchy, Gaussian, Laplacian

rng = np.random.default_rng(2)
X, Y = rng.normal(size=(20, 5)), rng.normal(size=(30, 5))


@pytest.mark.parametrize("Kernel", [Laplacian, Cauchy, Gaussian])
def test_the_kernel_is_the_product_of_the_columns_kernels(Kernel):
    scales = np.array([0.5, 1.0, 2.0, 3.0, 0.8])
    columns = [Kernel(s)(X[:, [c]], Y[:, [c]]) for c, s in enumerate(scales)]
    np.testing.assert_allclose(Kernel(scales)(X, Y), np.prod(columns, axis=0), atol=1e-13)


@pytest.mark.parametrize("Kernel", [Laplacian, Cauchy])
def test_products_are_not_rotation_invariant_and_say_so(Kernel):
    assert Kernel().needs_rotation_invariance() == Kernel.__name__
    axis, diagonal = Kernel()([[0.0, 0.0]], [[1.0, 0.0], [np.sqrt(0.5), np.sqrt(0.5)]])[0]
    assert abs(axis - diagonal) > 0.05


def test_radial_kernels_are_rotation_invariant_and_say_so():
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    np.testing.assert_allclose(Gaussian()(X @ rotation), Gaussian()(X), atol=1e-13)
    assert Gaussian().needs_rotation_invariance() is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cauchy_product_that_overflows_is_zero(dtype):
    rows = np.zeros((2, 40), dtype)
    rows[1] = 1e10
    np.testing.assert_allclose(Cauchy()(rows), np.eye(2), atol=1e-30)
