"""Length scales from data: the median trick, with weights as repetitions.

Both rules look at a sample of rows, give each column a unit, and multiply all units by the
median distance of two different rows measured in them: a typical pair is then one length
scale apart.

- "median": the unit is 1 for kernels of the Euclidean distance (one length scale), and the
  column's own median difference for products over columns.
- "auto": the unit is the column's standard deviation, so that raw tables with columns in
  different units work.

Of a categorical column only equal or different counts: two categories are a distance of 1
apart, whatever their codes. Its median difference is 1, and its standard deviation the root of
half the mean squared distance of two rows, as for numbers: 1/2 for two categories that are
equally frequent, up to 0.71 for many.

A column that does not vary gets an infinite length scale: it is ignored.
"""

import numpy as np

SAMPLE = 1000


def weighted_median(values: np.ndarray, weight: np.ndarray, share: float = 0.5) -> float:
    """The lower median of `values`, each counted `weight` times, or another quantile."""
    if (weight == weight[0]).all():  # without sorting
        place = max(int(np.ceil(share * len(values))) - 1, 0)
        return float(np.partition(values, place)[place])
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(cumulative, share * cumulative[-1])]])


def _positive_median(distances, weight) -> float:
    positive = distances > 0  # a row's distance to its own repetitions says nothing
    if not positive.any():
        return 0.0
    return weighted_median(distances[positive], weight[positive])


def _standard_deviations(X, weight, categorical):
    mean = np.average(X, axis=0, weights=weight)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    for j in np.flatnonzero(categorical):
        _, codes = np.unique(X[:, j], return_inverse=True)
        share = np.bincount(codes, weight) / weight.sum()
        deviation[j] = np.sqrt(0.5 * (1.0 - share @ share))
    # Rounding leaves a constant column with a tiny deviation.
    return np.where(X.max(axis=0) > X.min(axis=0), deviation, 0.0)


def choose_length_scale(
    spec, X, weight=None, *, norm: str, per_column: bool, categorical: np.ndarray | None = None
):
    """The number (or one per column) that `spec` stands for on the sample `X`.

    `categorical` says which columns of X hold codes of categories.
    """
    if not isinstance(spec, str):
        return spec
    if spec not in ("auto", "median"):
        raise ValueError(
            f'length_scale must be "auto", "median", a number or one number per column (in an '
            f'estimator, for a kernel given by name, also "learned"); got {spec!r}.'
        )
    step = -(-len(X) // SAMPLE)
    X = np.asarray(X, dtype=np.float64)[::step]
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)[::step]
    X, weight = X[weight > 0], weight[weight > 0]
    if categorical is None:
        categorical = np.zeros(X.shape[1], bool)
    first, second = np.triu_indices(len(X), k=1)
    pair_weight = weight[first] * weight[second]
    if spec == "auto":
        unit = _standard_deviations(X, weight, categorical)
    elif per_column:
        unit = np.array([_positive_median(np.abs(c[first] - c[second]), pair_weight) for c in X.T])
        unit[categorical & (unit > 0)] = 1.0
    else:
        unit = np.ones(X.shape[1])
    inverse = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)
    distances = _pair_distances(X[:, ~categorical] * inverse[~categorical], norm)
    for j in np.flatnonzero(categorical):
        steps = inverse[j] * (X[first, j] != X[second, j])
        distances = distances + steps if norm == "l1" else np.hypot(distances, steps)
    factor = _positive_median(distances, pair_weight) or 1.0
    if spec == "median" and not per_column:
        return factor
    return np.where(unit > 0, unit * factor, np.inf)


def _pair_distances(X, norm):
    """Distances of all pairs, in the order of ``np.triu_indices``."""
    from scipy.spatial.distance import pdist

    return pdist(X, "cityblock" if norm == "l1" else "euclidean")
