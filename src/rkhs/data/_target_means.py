"""What the values of a column are worth: means of the target, for categories and codes of them."""

from typing import NamedTuple

import numpy as np

_MOST_CODES = 100  # different whole numbers, above which they are amounts and not codes
_LONGEST = 2**17  # range of codes
_FEWEST_ROWS = 25  # of a value, on average: a row's own target must hardly count in its mean
_CERTAIN = 4.0  # times the noise, that means must differ
_ROUGH = 0.5  # of the means' variance that neighbouring numbers do not tell, if they are codes


class TargetMeans(NamedTuple):
    """A column's values, sorted, and for each a mean of the target."""

    column: int
    values: np.ndarray
    means: np.ndarray


def target_means(rows, target, weight, categorical) -> list[TargetMeans]:
    r"""For each column of categories, or of numbers that look like codes, what a value is worth.

    The mean of the target over a value's rows is drawn to the mean of all by
    :math:`n_v / (n_v + \sigma^2 / \tau^2)`, with the variances within and between values: the
    best guess of what the mean of more rows would be. Of several targets it is the direction
    in which the means differ most. Columns whose means differ by little more than chance have
    none, nor have those with few rows a value, where a mean tells a row its own target. Whole
    numbers look like codes if there are few different ones and their means jump from one to
    the next.

    Parameters
    ----------
    rows : array of shape (rows, columns)
    target : array of shape (rows, outputs)
    weight : array of shape (rows,)
    categorical : array of bool of shape (columns,)

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import target_means
    >>> code = np.arange(400) % 4
    >>> target = np.array([1.0, 9.0, 2.0, 8.0])[code] + np.sin(np.arange(400.0))
    >>> (found,) = target_means(code[:, None], target[:, None], np.ones(400), np.array([False]))
    >>> found.means.argsort()
    array([0, 2, 3, 1])
    """
    centred = target - np.average(target, axis=0, weights=weight)
    weighted = weight[:, None] * centred
    square = float(np.vdot(weighted, centred))
    found = []
    for j in range(rows.shape[1]):
        column = rows[:, j]
        low = _lowest_code(column, categorical[j])
        if low is None:
            continue
        known = np.flatnonzero(column >= low)
        codes = (column[known] - low).astype(np.int64)
        count = np.bincount(codes, weight[known])
        used = np.flatnonzero(count)
        if not categorical[j] and not 3 <= len(used) <= _MOST_CODES:
            continue
        sums = np.stack([np.bincount(codes, values[known])[used] for values in weighted.T], axis=1)
        means = _shrunk_means(count[used], sums, square)
        if means is None or not (categorical[j] or _is_rough(used, means, count[used])):
            continue
        found.append(TargetMeans(j, used + low, means))
    return found


def _lowest_code(column, is_category):
    """The least of a column's codes; None if it has other numbers, or a range too wide."""
    low, high = np.fmin.reduce(column), np.fmax.reduce(column)
    if is_category:
        low = max(low, 0.0)  # those below are of categories that are new
    if not high - low < _LONGEST or high == low:
        return None
    whole = is_category or (np.isnan(column) | (column == np.rint(column))).all()
    return float(low) if whole else None


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


def _is_rough(values, means, count) -> bool:
    """Whether neighbours of a value say little about its mean."""
    inner = slice(1, -1)
    between = (values[inner] - values[:-2]) / (values[2:] - values[:-2])
    guess = (1.0 - between) * means[:-2] + between * means[2:]
    missed = (count[inner] * (means[inner] - guess) ** 2).sum()
    middle = np.average(means, weights=count)
    return bool(missed > _ROUGH * (count * (means - middle) ** 2).sum())
