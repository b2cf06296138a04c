"""Columns of a raw table as a kernel wants them: no gaps, and no tail that hides the rest."""

import numpy as np
from sklearn.base import BaseEstimator

from rkhs.data._rows import RowSource

_HEAVY = 6.0  # kurtosis from which a column gets logarithms beside it; 3 is normal, 6 Laplace's
_FEWEST_VALUES = 20  # different ones, below which logarithms say nothing new
_LARGEST = 1e15  # of a value in deviations, or in distances from the median


class Preparation(BaseEstimator):
    """What becomes of each column before the kernel sees it, learnt from the training rows.

    Numbers are shifted to their median and divided by their deviation. A missing value becomes
    the median, and a column of its own says where that was done. Columns with heavy tails get
    a further column, in which values far from the median differ by their logarithm (arsinh), so
    that both the difference and the ratio can count. Codes of categories stay as they are.

    Attributes
    ----------
    shift_, scale_ : arrays of shape (n_columns,)
    missing_ : array of int
        Columns with missing values.
    heavy_ : array of int
        Columns with heavy tails.
    spread_ : array of shape (n_heavy,)
        Median distance of their values from the median, of those that are not the median.
    origin_ : array of int of shape (n_prepared,)
        The table's column that each prepared one comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import Preparation
    >>> rows = np.array([[1.0, 5.0], [3.0, np.nan], [2.0, 7.0]])
    >>> numbers, gaps = np.array([False, False]), np.array([False, True])
    >>> Preparation().fit_rows(rows, np.ones(3), numbers, gaps).apply(rows)[:, 2]
    array([0., 1., 0.], dtype=float32)
    """

    def fit_rows(self, rows: np.ndarray, weight, categorical, missing):
        """Learn from a sample of rows; `missing` says which columns have gaps anywhere."""
        n_columns = rows.shape[1]
        self.shift_, self.scale_ = np.zeros(n_columns), np.ones(n_columns)
        heavy, spread = [], []
        for j in np.flatnonzero(~categorical):
            known = np.isfinite(rows[:, j])
            values, count = rows[known, j].astype(np.float64), weight[known]
            if not len(values):
                continue
            self.shift_[j] = _quantiles(values, count, np.array([0.5]))[0]
            largest = np.abs(values - self.shift_[j]).max()
            if not largest > 0:
                continue
            centred = (values - self.shift_[j]) / largest  # squares of huge numbers would overflow
            centred -= np.average(centred, weights=count)
            variance = np.average(centred**2, weights=count)
            self.scale_[j] = largest * np.sqrt(variance)
            kurtosis = np.average(centred**4, weights=count) / variance**2
            if kurtosis > _HEAVY and len(np.unique(values)) >= _FEWEST_VALUES:
                far = values != self.shift_[j]
                distance = np.abs(values[far] - self.shift_[j])
                heavy.append(j)
                spread.append(_quantiles(distance, count[far], np.array([0.5]))[0])
        self.missing_ = np.flatnonzero(missing & ~categorical)
        self.heavy_ = np.array(heavy, dtype=np.intp)
        self.spread_ = np.array(spread)
        self.origin_ = np.concatenate([np.arange(n_columns), self.missing_, self.heavy_])
        return self

    def apply(self, block: np.ndarray) -> np.ndarray:
        """The prepared columns of dense rows, float32."""
        n_columns, n_missing = len(self.shift_), len(self.missing_)
        out = np.empty((len(block), len(self.origin_)), np.float32)
        gaps = np.isnan(block)
        filled = np.where(gaps, self.shift_, block) if gaps.any() else block
        values = (filled - self.shift_) / self.scale_
        out[:, :n_columns] = np.clip(values, -_LARGEST, _LARGEST)
        out[:, n_columns : n_columns + n_missing] = gaps[:, self.missing_]
        distance = (filled[:, self.heavy_] - self.shift_[self.heavy_]) / self.spread_
        out[:, n_columns + n_missing :] = np.arcsinh(np.clip(distance, -_LARGEST, _LARGEST))
        return out

    def fits(self, n_columns: int) -> bool:
        """Whether the arrays agree with each other and with tables of so many columns."""
        further = self.missing_, self.heavy_
        return bool(
            len(self.shift_) == len(self.scale_) == n_columns
            and all((columns >= 0).all() and (columns < n_columns).all() for columns in further)
            and np.array_equal(self.origin_, np.concatenate([np.arange(n_columns), *further]))
            and self.spread_.shape == self.heavy_.shape
            and (self.spread_ > 0).all()
        )


class PreparedRows(RowSource):
    """A row source whose blocks are prepared as they are read; `held` alone copies the table.

    Parameters
    ----------
    X : array of shape (rows, columns)
    preparation : Preparation
        Fitted.
    rows : array of int, optional
    categories : list, optional
        Of the table's columns.
    """

    def __init__(self, X, preparation: Preparation, rows=None, categories=None):
        super().__init__(X, rows)
        self._preparation = preparation
        self.shape = (self.shape[0], len(preparation.origin_))
        if categories is not None:
            self.categories = categories + [None] * (self.shape[1] - len(categories))

    @property
    def units(self):
        units = np.full(len(self._preparation.origin_), np.nan)
        units[: len(self._preparation.scale_)] = self._preparation.scale_
        return units if self._columns is None else units[self._columns]

    def held(self):
        return RowSource(self.gathered(np.arange(len(self))), None, self.categories)

    @property
    def held_bytes(self):
        return 4 * self.shape[0] * self.shape[1]

    def _block(self, rows):
        return self._preparation.apply(super()._block(rows))


def _quantiles(values, weight, shares):
    """Values below which the given shares of the weight lie."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    place = np.searchsorted(cumulative, shares * cumulative[-1])
    return values[order[np.minimum(place, len(values) - 1)]]
