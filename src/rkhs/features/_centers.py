"""Which rows become centres. Each rule counts a row of weight w like w copies of it.

All take (kernel, source, weight, n_centers, keys, n_jobs), where `keys` are uniform random
numbers, one a row, and return row numbers.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from rkhs.data import RowSource
from rkhs.kernels._base import middle
from rkhs.operators import KernelOperator

_CANDIDATES_PER_CENTER = 10
_PILOT = 500


def distinct_rows(X: np.ndarray) -> np.ndarray:
    """Different rows in lexical order: the same whatever the order or repetitions of X."""
    return np.unique(X, axis=0)


def _lowest(keys, weight, count):
    """Rows of a weighted draw without replacement: the lowest exponential waiting times."""
    with np.errstate(divide="ignore"):
        times = np.where(weight > 0, -np.log(keys) / weight, np.inf)
    count = min(count, int((weight > 0).sum()))
    return np.argpartition(times, count - 1)[:count]


def _candidates(keys, weight, n_centers):
    """Ten rows a centre, and the weight that each still has among them.

    A row of weight w is among them with probability 1 - exp(-w t), t the first waiting time
    that is left out: dividing by it makes a draw in two stages one in proportion to w.
    """
    rows = _lowest(keys, weight, _CANDIDATES_PER_CENTER * n_centers)
    left_out = weight > 0
    left_out[rows] = False
    if not left_out.any():
        return rows, weight[rows]
    limit = (-np.log(keys[left_out]) / weight[left_out]).min()
    return rows, weight[rows] / -np.expm1(-weight[rows] * limit)


def uniform(kernel, source, weight, n_centers, keys, n_jobs):
    """Any row, in proportion to its weight."""
    return _lowest(keys, weight, n_centers)


def kmeans_plus_plus(kernel, source, weight, n_centers, keys, n_jobs):
    """Each next centre in proportion to its squared kernel distance to the nearest one.

    Among ten times as many candidate rows as centres.
    """
    candidates, importance = _candidates(keys, weight, n_centers)
    rows = source[candidates]
    shift = middle(rows)
    embedded = kernel.embed(rows, shift, np.float64)
    diagonal = kernel.diag(rows)
    nearest = np.full(len(rows), np.inf)
    column = np.empty((len(rows), 1))
    first, draws = _folded(keys[candidates])
    chosen = [int(_lowest(first, importance, 1)[0])]
    while len(chosen) < n_centers:
        last = chosen[-1]
        kernel.tile(embedded, kernel.embed(rows[last : last + 1], shift, np.float64), column)
        distance = diagonal + diagonal[last] - 2.0 * column[:, 0]
        nearest = np.minimum(nearest, np.maximum(distance, 0.0))
        nearest[last] = 0.0
        cumulative = np.cumsum(importance * nearest)
        if not cumulative[-1] > 0:
            break
        chosen.append(int(np.searchsorted(cumulative, draws[len(chosen)] * cumulative[-1])))
    return candidates[chosen]


def leverage(kernel, source, weight, n_centers, keys, n_jobs):
    """In proportion to ridge leverage scores, estimated from a small uniform draw.

    The score of x is what it would have as one more pilot row: s / (s + ridge), s the part
    of k(x, x) that the pilot rows leave unexplained at a ridge that is their median
    eigenvalue.
    """
    candidates, importance = _candidates(keys, weight, n_centers)
    first, second = _folded(keys[candidates])
    rows = source[candidates]
    pilot = rows[_lowest(first, importance, min(_PILOT, n_centers))].astype(np.float64)
    gram = kernel(pilot)
    eigenvalues = np.linalg.eigvalsh(gram)
    ridge = max(float(np.median(eigenvalues)), 1e-10 * float(eigenvalues[-1]))
    factor = cho_factor(gram + ridge * np.eye(len(pilot)), lower=True)
    operator = KernelOperator(kernel, RowSource(rows), RowSource(pilot), np.float64, n_jobs=n_jobs)
    cross = operator.rows(0, len(rows))
    explained = np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
    unexplained = np.maximum(kernel.diag(rows) - explained, 1e-12)
    score = importance * unexplained / (unexplained + ridge)
    return candidates[_lowest(second, score, n_centers)]


def _folded(keys):
    """Two more sets of uniform numbers from the later digits of the keys."""
    return (keys * 2.0**10) % 1.0, (keys * 2.0**20) % 1.0


SAMPLINGS = {"uniform": uniform, "kmeans++": kmeans_plus_plus, "leverage": leverage}
