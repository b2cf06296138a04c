"""Which columns have anything to do with the target, directly or through other columns."""

import numpy as np
from scipy.special import ndtri

from rkhs.compute import slices, tile_map

_NUMBERS = 5 * 10**6  # of rows times columns, that are looked at
_FEWEST_ROWS = 200  # below which hardly any relation could be seen
_MOST_COLUMNS = 2000  # and outputs: pairs are as many as its square
_LEVEL = 0.01  # probability that a column of noise seems related to some other
_TILE_ROWS = 4096
_AT_ONCE = 256  # rows of moments
_CONSTANT = 1e-3  # deviation of values up to 1, below which it may be rounding


def unrelated_columns(rows, target, weight, categorical, n_jobs=None) -> np.ndarray:
    """Columns that no chain of dependent pairs joins to the target.

    Two columns are taken as dependent if values or distances from the middle of the one are
    correlated with those of the other by more than chance would allow. An effect that shows only
    together with another column of that kind is not seen: whoever leaves columns out must see
    that nothing is lost.

    Parameters
    ----------
    rows : array of shape (rows, columns)
        Different rows in random order.
    target : array of shape (rows, outputs)
    weight : array of shape (rows,)
    categorical : array of bool of shape (columns,)
        Codes have no order: these columns count as related.

    Returns
    -------
    unrelated : array of bool of shape (columns,)

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.search import unrelated_columns
    >>> X = np.random.default_rng(0).normal(size=(1000, 4))
    >>> X[:, 1] += X[:, 0]
    >>> y = X[:, :1] ** 2
    >>> unrelated_columns(X, y, np.ones(1000), np.zeros(4, bool)).tolist()
    [False, False, True, True]
    """
    n_columns, n_all = rows.shape[1], rows.shape[1] + target.shape[1]
    few = slice(0, max(_FEWEST_ROWS, _NUMBERS // n_all))
    rows, target, weight = rows[few], target[few], weight[few]
    size = weight.sum() ** 2 / np.square(weight).sum()  # rows of equal weight that tell as much
    if size < _FEWEST_ROWS or n_all > _MOST_COLUMNS:
        return np.zeros(n_columns, bool)
    middle = np.average(target, axis=0, weights=weight)
    columns = np.hstack([_bounded(rows, np.median(rows, axis=0)), _bounded(target, middle)])
    n_tests = 4 * n_all
    bound = -ndtri(0.5 * _LEVEL / n_tests) / np.sqrt(size)
    dependent = _largest_correlations(columns, weight, n_jobs) > bound
    reached = np.append(categorical, np.ones(n_all - n_columns, bool))
    while True:
        further = reached | dependent[reached].any(axis=0)
        if (further == reached).all():
            return ~reached[:n_columns]
        reached = further


def _bounded(columns, middle):
    """Columns about their middle, at most one, in float32."""
    columns = columns - middle
    largest = np.abs(columns).max(axis=0)
    return (columns / np.where(largest > 0, largest, 1.0)).astype(np.float32)


def _largest_correlations(columns, weight, n_jobs):
    """The largest absolute correlation of each pair of columns' values and distances."""
    scale = np.average(np.abs(columns), axis=0, weights=weight).astype(np.float32)
    scale[scale == 0] = 1.0
    share = (weight / weight.sum()).astype(np.float32)[:, None]

    def moments(tile):
        value = columns[tile] / scale
        value /= 1.0 + np.abs(value)  # bounded: no row decides
        both = np.hstack([value, np.abs(value)]).astype(np.float32)
        weighted = share[tile] * both
        return weighted.sum(axis=0, dtype=np.float64), weighted.T @ both

    n_both = 2 * columns.shape[1]
    mean, moment = np.zeros(n_both), np.zeros((n_both, n_both))
    for part in tile_map(moments, slices(len(columns), _TILE_ROWS), n_jobs):
        mean += part[0]
        moment += part[1]
    deviation = np.sqrt(np.maximum(np.diagonal(moment) - mean**2, 0.0))
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > _CONSTANT)
    for some in slices(n_both, _AT_ONCE):  # rows of what may be large
        moment[some] -= mean[some, None] * mean
        moment[some] *= inverse[some, None] * inverse
    np.abs(moment, out=moment)
    n_columns = columns.shape[1]
    return moment.reshape(2, n_columns, 2, n_columns).max(axis=(0, 2))


def relations_bytes(n_columns: int, n_outputs: int) -> int:
    """Memory that `unrelated_columns` takes for the moments of pairs."""
    n_all = n_columns + n_outputs
    return 0 if n_all > _MOST_COLUMNS else 24 * (2 * n_all) ** 2
