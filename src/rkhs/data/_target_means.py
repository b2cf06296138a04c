"""What categories are worth: means of the target."""

from typing import NamedTuple

import numpy as np

_FEWEST_ROWS = 25  # of a category, on average: a row's own target must hardly count in its mean
_CERTAIN = 4.0  # times the noise, that means must differ


class TargetMeans(NamedTuple):
    """A column's codes, sorted, and for each a mean of the target."""

    column: int
    values: np.ndarray
    means: np.ndarray


def target_means(rows, target, weight, categorical) -> list[TargetMeans]:
    r"""For each column of categories, what a category is worth.

    The mean of the target over a category's rows is drawn to the mean of all by
    :math:`n_v / (n_v + \sigma^2 / \tau^2)`, with the variances within and between categories: the
    best guess of what the mean of more rows would be. Of several targets it is the direction
    in which the means differ most. Columns whose means differ by little more than chance have
    none, nor have those with few rows a category, where a mean tells a row its own target.

    Parameters
    ----------
    rows : array of shape (rows, columns)
    target : array of shape (rows, outputs)
    weight : array of shape (rows,)
    categorical : array of bool of shape (columns,)
        Which columns hold codes of categories; codes below zero are of no category.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import target_means
    >>> code = np.arange(400) % 4
    >>> target = np.array([1.0, 9.0, 2.0, 8.0])[code] + np.sin(np.arange(400.0))
    >>> (found,) = target_means(code[:, None], target[:, None], np.ones(400), np.array([True]))
    >>> found.means.argsort()
    array([0, 2, 3, 1])
    """
    centred = target - np.average(target, axis=0, weights=weight)
    weighted = weight[:, None] * centred
    square = float(np.vdot(weighted, centred))
    found = []
    for j in np.flatnonzero(categorical):
        known = np.flatnonzero(rows[:, j] >= 0)
        codes = rows[known, j].astype(np.int64)
        count = np.bincount(codes, weight[known])
        used = np.flatnonzero(count)
        sums = np.stack([np.bincount(codes, values[known])[used] for values in weighted.T], axis=1)
        means = _shrunk_means(count[used], sums, square)
        if means is not None:
            found.append(TargetMeans(int(j), used.astype(np.float64), means))
    return found


def _shrunk_means(count, sums, square):
    """The values' guessed means in the direction in which they differ most, or None."""
    total, n_values = count.sum(), len(count)
    if n_values < 2 or total < _FEWEST_ROWS * n_values:
        return None
    raw = sums / count[:, None]
    raw -= sums.sum(axis=0) / total
    between = float((count[:, None] * raw**2).sum())
    within = max(square - between, 0.0) / (total - n_values)
    if not between > _CERTAIN * (n_values - 1) * within or between == 0:
        return None
    spread = (between - (n_values - 1) * within) / (total - (count**2).sum() / total)
    raw *= (count / (count + within / spread))[:, None]
    direction = np.linalg.svd(np.sqrt(count)[:, None] * raw, full_matrices=False)[2][0]
    means = raw @ direction
    return means / np.sqrt(np.average(means**2, weights=count))
