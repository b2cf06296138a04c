"""Columns of a raw table as a kernel wants them: no gaps, and no tail that hides the rest."""

import numpy as np
from sklearn.base import BaseEstimator

from rkhs.data._rows import RowSource

_KNOTS = 257  # of the curve that turns a value into its rank
_HEAVY = 6.0  # kurtosis from which a column gets its ranks beside it; 3 is normal, 6 Laplace's
_FEWEST_VALUES = 20  # different ones, below which ranks say nothing new
_LARGEST = 1e15  # of a value in deviations


class Preparation(BaseEstimator):
    """What becomes of each column before the kernel sees it, learnt from the training rows.

    Numbers are shifted to their median and divided by their deviation. A missing value becomes
    the median, and a column of its own says where that was done. Columns with heavy tails get
    their ranks as a further column, so that both the distance and the order can count. Codes of
    categories stay as they are.

    Attributes
    ----------
    shift_, scale_ : arrays of shape (n_columns,)
    missing_ : array of int
        Columns with missing values.
    heavy_ : array of int
        Columns with heavy tails.
    knots_ : array of shape (n_heavy, n_knots)
        Values at equally spaced ranks.
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
        knots, heavy = [], []
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
                heavy.append(j)
                knots.append(_quantiles(values, count, np.linspace(0.0, 1.0, _KNOTS)))
        self.missing_ = np.flatnonzero(missing & ~categorical)
        self.heavy_ = np.array(heavy, dtype=np.intp)
        self.knots_ = np.array(knots).reshape(-1, _KNOTS)
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
        ranks = np.linspace(-0.5, 0.5, _KNOTS)
        for place, (j, knots) in enumerate(zip(self.heavy_, self.knots_, strict=True)):
            lower = np.interp(filled[:, j], knots, ranks)
            upper = -np.interp(-filled[:, j], -knots[::-1], ranks)
            # Where many rows share a value its rank is the middle of theirs.
            out[:, n_columns + n_missing + place] = 0.5 * (lower + upper)
        return out

    def fits(self, n_columns: int) -> bool:
        """Whether the arrays agree with each other and with tables of so many columns."""
        further = self.missing_, self.heavy_
        return bool(
            len(self.shift_) == len(self.scale_) == n_columns
            and all((columns >= 0).all() and (columns < n_columns).all() for columns in further)
            and np.array_equal(self.origin_, np.concatenate([np.arange(n_columns), *further]))
            and self.knots_.shape == (len(self.heavy_), _KNOTS)
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
        units = np.full(self.shape[1], np.nan)
        units[: len(self._preparation.scale_)] = self._preparation.scale_
        return units

    def held(self):
        return RowSource(self.gathered(np.arange(len(self))), None, self.categories)

    @property
    def held_bytes(self):
        return 4 * self.shape[0] * self.shape[1]

    def __getitem__(self, rows):
        return self._preparation.apply(super().__getitem__(rows))


def _quantiles(values, weight, shares):
    """Values below which the given shares of the weight lie."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    place = np.searchsorted(cumulative, shares * cumulative[-1])
    return values[order[np.minimum(place, len(values) - 1)]]
