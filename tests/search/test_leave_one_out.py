"""The closed form against fits that leave each row out, and against finite differences."""

import numpy as np
import pytest

from rkhs.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic
from rkhs.search import LeaveOneOut

rng = np.random.default_rng(0)
N_ROWS = 40
X = rng.normal(size=(N_ROWS, 3))
X[:, 2] = rng.integers(0, 3, N_ROWS)  # codes
TARGET = np.stack([np.sin(X[:, 0]), X[:, 1] * (X[:, 2] == 1)], axis=1)
WEIGHT = rng.integers(1, 4, N_ROWS).astype(float)
CATEGORICAL = np.array([False, False, True])
SCALES = np.array([1.5, 2.0, 0.7])
NOISES = [0.02, 0.1]  # in float64, and in float32
KERNELS = [Laplacian, Gaussian, Exponential, Matern, RationalQuadratic]


def one_hot(X):
    """Codes as columns: categories are one apart in the L1 and in the L2 sense of `power`."""
    return np.hstack([X[:, :2], X[:, 2:] == np.arange(3)])


def gram(Kernel):
    power = Kernel.metric_power
    scales = np.append(SCALES[:2], np.full(3, SCALES[2] * 2 ** (1 / power)))
    return Kernel(scales)(one_hot(X))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("Kernel", KERNELS)
def test_the_error_is_that_of_fits_that_leave_each_row_out(Kernel, noise):
    K = gram(Kernel)
    ridge = noise * WEIGHT.mean() / WEIGHT
    expected = 0.0
    for i in range(N_ROWS):
        others = np.arange(N_ROWS) != i
        A = K[np.ix_(others, others)] + np.diag(ridge[others])
        predicted = K[i, others] @ np.linalg.solve(A, TARGET[others])
        expected += WEIGHT[i] * ((TARGET[i] - predicted) ** 2).sum()
    error, _ = LeaveOneOut(Kernel(), CATEGORICAL, N_ROWS)(
        np.log([*SCALES, noise]), X, TARGET, WEIGHT
    )
    assert error == pytest.approx(expected / WEIGHT.sum(), rel=1e-5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("Kernel", KERNELS)
def test_the_gradient_is_a_finite_difference(Kernel, noise):
    loss = LeaveOneOut(Kernel(), CATEGORICAL, N_ROWS)
    at = np.log([*SCALES, noise])
    _, gradient = loss(at, X, TARGET, WEIGHT)
    steps = 1e-2 * np.eye(4)
    slopes = [
        (loss(at + d, X, TARGET, WEIGHT)[0] - loss(at - d, X, TARGET, WEIGHT)[0]) / 2e-2
        for d in steps
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=2e-2, atol=2e-4 * np.abs(slopes).max())


def test_a_matrix_without_a_factor_is_an_infinite_error():
    same = np.zeros((5, 1))
    loss = LeaveOneOut(Laplacian(), np.array([False]), 5)
    error, gradient = loss(np.array([0.0, -1000.0]), same, np.ones((5, 1)), np.ones(5))
    assert error == np.inf
    assert not gradient.any()


def test_kernels_without_a_gradient_say_which_have_one():
    loss = LeaveOneOut(Cauchy(), CATEGORICAL, N_ROWS)
    with pytest.raises(ValueError, match=r"Cauchy.* has no gradient.*laplacian"):
        loss(np.log([*SCALES, 0.1]), X, TARGET, WEIGHT)


@pytest.mark.parametrize(
    "kernel",
    [
        *(Kernel() for Kernel in KERNELS),
        *(Matern(nu=nu) for nu in (0.5, 2.5, 3.3)),
        RationalQuadratic(exponent=0.4),
    ],
)
def test_profiles_are_the_kernel_and_its_derivative(kernel):
    at, h = np.linspace(0.3, 9.0, 12), 1e-5
    value, above, below, slope = at.copy(), at + h, at - h, np.empty_like(at)
    kernel.metric_profile(value, slope)
    rows = at[:, None] ** (1 / kernel.metric_power)
    np.testing.assert_allclose(value, kernel(rows, np.zeros((1, 1)))[:, 0], rtol=1e-10)
    for there in (above, below):
        kernel.metric_profile(there, np.empty_like(at))
    np.testing.assert_allclose(slope, (above - below) / (2 * h), rtol=1e-6)


def test_kernels_too_rough_for_a_gradient_are_refused():
    with pytest.raises(ValueError, match=r"nu=0.8\) has no gradient"):
        Matern(nu=0.8).metric_profile(np.ones(1), np.ones(1))


def test_rows_that_are_not_judged_are_fitted_to_all_the_same():
    loss = LeaveOneOut(Laplacian(), CATEGORICAL, N_ROWS)
    at, judged = np.log([*SCALES, 0.1]), np.zeros(N_ROWS)
    parts = []
    for row in range(N_ROWS):
        judged[:] = np.arange(N_ROWS) == row
        parts.append(loss(at, X, TARGET, WEIGHT, judged))
    error, gradient = loss(at, X, TARGET, WEIGHT)
    errors, gradients = zip(*parts, strict=True)
    assert np.average(errors, weights=WEIGHT) == pytest.approx(error, rel=1e-5)
    np.testing.assert_allclose(
        np.average(gradients, axis=0, weights=WEIGHT), gradient, rtol=1e-3, atol=1e-5
    )
