"""A linear map of the columns, from the gradients of a fitted function."""

import time
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from rkhs.compute import blas_for, invert_lower, squared_distances, tile_map
from rkhs.kernels._radial import RadialKernel
from rkhs.search._scales import Scales

METRIC_ROWS = 1500
_ROUNDS = 3
# Of length scale and ridge, tried in each round from where the last one stood, while they help.
_MOVES = ((1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 0.25), (1.0, 4.0))
_MOST_MOVES, _LEAST_RIDGE = 6, 1e-7
_NEGLIGIBLE = 1e-10  # of the largest eigenvalue


class Metric(NamedTuple):
    """What was learnt.

    Attributes
    ----------
    matrix : array of shape (directions, columns)
        The map, for length scale 1. Directions are orthogonal in deviations of the columns, the
        one that counts most first.
    start : array of shape (directions, columns)
        The same of the length scales it began with.
    errors : list of float
        Leave-one-out error of the start and of each round, as a share of the target's variance.
    """

    matrix: np.ndarray
    start: np.ndarray
    errors: list[float]


def learn_metric(
    kernel: RadialKernel,
    X,
    target,
    scales: Scales,
    weight=None,
    n_jobs=None,
    deadline: float = np.inf,
) -> Metric:
    r"""The map of a recursive feature machine: gradients of a function are its next metric.

    Kernel ridge regression under the metric :math:`M^T M` gives a function f, and the mean of
    :math:`\nabla f(x) \nabla f(x)^T` over the rows, times a number, is the next metric
    [radhakrishnan2024]_; units of the columns make no difference to it. The round with the lowest
    leave-one-out error is kept, which may be the start. With n rows and d columns, a round
    costs some :math:`n^3 + n^2 d + d^3` operations.

    Parameters
    ----------
    kernel : RadialKernel
        Its form.
    X : array of shape (rows, columns)
        Different rows, in random order, of which the first 1,500 are used.
    target : array of shape (rows, outputs)
    scales : Scales
        To start from. Columns of infinite length scale stay out.
    weight : array of shape (rows,), optional
    n_jobs : int, optional
        Threads; the result does not depend on it.
    deadline : float, optional
        Time of `time.perf_counter` after which no further round begins.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.kernels import Gaussian
    >>> from rkhs.search import learn_metric, learn_scales
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = np.sin(2 * X @ [[0.6], [0.8], [0.0]])
    >>> found = learn_metric(Gaussian(), X, y, learn_scales(Gaussian(), X, y))
    >>> direction = found.matrix[0] / np.linalg.norm(found.matrix[0])
    >>> bool(np.abs(direction @ [0.6, 0.8, 0.0]) > 0.99)
    True
    """
    few = slice(0, METRIC_ROWS)
    used = np.isfinite(scales.length_scale)
    rows, target = np.asarray(X[few], np.float64)[:, used], target[few]
    weight = np.ones(len(rows)) if weight is None else np.asarray(weight)[few]
    share = weight / weight.sum()
    learnable = used.any() and len(rows) > 2 and np.ptp(target, axis=0).any()
    rows, target = rows - share @ rows, target - share @ target
    variance = float(share @ (target**2).sum(axis=1))
    deviation = np.sqrt(share @ rows**2)
    start = best = matrix = _directions(np.diag(scales.length_scale[used] ** -2.0), deviation)
    errors: list[float] = []
    factor, ridge = 1.0, scales.noise
    with blas_for(len(rows)):
        while learnable:
            mapped = rows @ matrix.T
            fit = _best_fit(kernel, mapped, target, weight, factor, ridge, n_jobs)
            factor, ridge = fit.factor, fit.ridge
            # The start keeps its scales: the factor that suits more rows is tried later.
            if errors and fit.error / variance < min(errors):
                best = matrix / factor
            errors.append(fit.error / variance)
            if len(errors) > _ROUNDS or time.perf_counter() > deadline or not fit.dual.any():
                break
            product = gradient_outer_product(kernel, mapped / factor, fit.dual, weight)
            matrix = _directions(matrix.T @ product @ matrix, deviation)
            # The mean squared distance of two rows stays, so that the factor keeps its meaning.
            matrix *= np.sqrt(_spread(mapped, share) / _spread(rows @ matrix.T, share))
    return Metric(_widened(best, used), _widened(start, used), errors or [1.0])


def gradient_outer_product(kernel: RadialKernel, rows, dual, weight) -> np.ndarray:
    r"""Mean over the rows of :math:`\nabla f \nabla f^T`, summed over the outputs of f.

    Parameters
    ----------
    kernel : RadialKernel
        Of length scale 1.
    rows : array of shape (rows, columns)
    dual : array of shape (rows, outputs)
        The function is the sum of kernels at the rows times these.
    weight : array of shape (rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.kernels import Gaussian
    >>> from rkhs.search import gradient_outer_product
    >>> rows = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> one = np.array([[1.0], [0.0]])  # exp(-|x|^2 / 2), flat at its own centre
    >>> gradient_outer_product(Gaussian(), rows, one, np.ones(2)).round(4)
    array([[0.1839, 0.    ],
           [0.    , 0.    ]])
    """
    distances = _squared_distances(rows)
    slope = np.empty_like(distances)
    kernel.metric_profile(distances, slope)
    np.fill_diagonal(slope, 0.0)  # times a difference of zero
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for column in dual.T:
        pull = slope * column
        gradient = 2.0 * (pull.sum(axis=1)[:, None] * rows - pull @ rows)
        total += gradient.T @ (weight[:, None] * gradient)
    return total / weight.sum()


class _RidgeFit(NamedTuple):
    """Kernel ridge regression on a sample: its leave-one-out error and coefficients."""

    error: float
    factor: float
    ridge: float
    dual: np.ndarray


def _best_fit(kernel, mapped, target, weight, factor, ridge, n_jobs) -> _RidgeFit:
    """A lowest leave-one-out error, downhill from a length scale and a ridge."""
    from rkhs.compute import _pair_loops

    distances = _squared_distances(mapped)
    share, inverse_weight = weight / weight.sum(), weight.mean() / weight

    def fit(move):
        scale, noise = best.factor * move[0], max(best.ridge * move[1], _LEAST_RIDGE)
        A = distances / scale**2
        kernel.metric_profile(A, np.empty_like(A))
        A.flat[:: len(A) + 1] = 1.0 + noise * inverse_weight
        if not invert_lower(A):
            return _RidgeFit(np.inf, scale, noise, np.zeros_like(target))
        _pair_loops.mirror(A)
        dual = A @ target
        error = share @ ((dual / np.diagonal(A)[:, None]) ** 2).sum(axis=1)
        return _RidgeFit(float(error), scale, noise, dual)

    best = _RidgeFit(np.inf, factor, ridge, np.zeros_like(target))
    for _ in range(_MOST_MOVES):
        lowest = min(tile_map(fit, _MOVES, n_jobs), key=lambda fit: fit.error)
        if not lowest.error < best.error:
            break
        best, moved = lowest, (lowest.factor, lowest.ridge) != (best.factor, best.ridge)
        if not moved:
            break
    return best


def _squared_distances(rows):
    half = 0.5 * np.einsum("ij,ij->i", rows, rows)
    out = np.empty((len(rows), len(rows)))
    squared_distances(rows, half, rows, half, 1.0, out, refine=True)
    return np.maximum(out, 0.0, out=out)


def _spread(rows, share):
    return float(share @ (rows**2).sum(axis=1))


def _directions(metric, deviation):
    """A map whose square is the metric: its eigenvectors in deviations of the columns."""
    if not len(metric):
        return metric
    unit = np.where(deviation > 0, deviation, 1.0)
    values, vectors = eigh(unit[:, None] * metric * unit, check_finite=False)
    order = np.flatnonzero(values > _NEGLIGIBLE * values[-1])[::-1]
    return np.sqrt(values[order])[:, None] * vectors[:, order].T / unit


def _widened(matrix, used):
    """With zeros for the columns that are not used."""
    wide = np.zeros((max(len(matrix), 1), len(used)))
    wide[: len(matrix), used] = matrix
    return wide
