"""Raw tables with nothing set: prepared columns, and a search for the rest."""

import numpy as np
from scipy import sparse

from rkhs.compute import slices, uniform
from rkhs.data import Preparation, PreparedRows, RowSource
from rkhs.features._base import sample_rows
from rkhs.losses import LOSSES
from rkhs.search import Choice, search, unsearched

SEARCH_ROWS = 1000  # from which a search pays, and its errors mean something
MOST_SPARSE_COLUMNS = 2000  # of a sparse table that is searched
_SAMPLE = 20_000  # rows that the preparation is learnt from
_BLOCK = 65_536
_CHANGE_STREAM = 1701
_CHANGED, _CHANGED_ROWS = 10_000, (20, 400)  # rows, of all columns and of one, for importances
_CHANGED_NUMBERS = 4 * 10**6  # held at a time
_KNOBS = ("kernel", "features", "solver", "alpha", "length_scale")


def nothing_set(machine) -> bool:
    """Whether the model is to be found: no knob was touched that decides what it is.

    Losses with a kink are left out: no solver takes them on random binning.
    """
    values = (getattr(machine, name) for name in _KNOBS)
    loss = LOSSES.get(machine.loss) if isinstance(machine.loss, str) else machine.loss
    smooth = getattr(loss, "curvature", None) is not None
    untouched = all(isinstance(value, str) and value == "auto" for value in values)
    return smooth and untouched and machine.penalty == "l2" and machine.metric == "diagonal"


def prepare(X, weight, categories, seed) -> Preparation | None:
    """How the columns of a raw table are prepared; None if it is taken as it is.

    Small tables of plain numbers are: the rules for them know units of their own.
    """
    if sparse.issparse(X):
        return None
    missing = np.zeros(X.shape[1], bool)
    for start in range(0, len(X), _BLOCK):
        missing |= np.isnan(X[start : start + _BLOCK]).any(axis=0)
    if len(X) < SEARCH_ROWS and categories is None and not missing.any():
        return None
    source = RowSource(X, categories=categories)
    rows, row_weight = sample_rows(source, weight, seed, _SAMPLE)
    return Preparation().fit_rows(rows, row_weight, source.categorical, missing)


def row_source(X, preparation, rows=None, categories=None) -> RowSource:
    """The rows of a table as the kernel sees them."""
    if preparation is None:
        return RowSource(X, rows, categories)
    return PreparedRows(X, preparation, rows, categories)


def is_searched(source: RowSource) -> bool:
    """Whether there are rows enough, and not too many columns."""
    too_wide = source.is_sparse and source.shape[1] > MOST_SPARSE_COLUMNS
    return len(source) >= SEARCH_ROWS and not too_wide


def find(
    source, target, weight, loss, offset, seed, memory, n_jobs=None, time_budget=None
) -> Choice | None:
    """The model for a table, or None if the rules for small tables of numbers serve it."""
    if is_searched(source):
        return search(source, target, weight, loss, offset, seed, memory, n_jobs, time_budget)
    if not isinstance(source, PreparedRows):
        return None
    return unsearched(source, weight, seed, "too few rows for a search")


def importances(rows_of, expansion, X, weight, seed, n_jobs) -> np.ndarray:
    """Share of each column in how much the function changes when its values change rows.

    Parameters
    ----------
    rows_of : callable
        Makes a row source of a table like X.
    expansion : Expansion
    X : array or sparse matrix of shape (rows, columns)
    weight : array of shape (rows,)
    seed : int
    """
    n_columns = X.shape[1]
    n_rows = int(np.clip(_CHANGED // n_columns, *_CHANGED_ROWS))
    rows, _ = sample_rows(RowSource(X), weight, seed, n_rows)
    rows = np.asarray(rows, dtype=np.float64)
    other = np.argsort(uniform(seed, _CHANGE_STREAM, 0, (len(rows),)))
    other = np.roll(other, 1)[np.argsort(other)]  # another row for each
    change = np.zeros(n_columns)
    before = expansion.evaluate(rows_of(rows), n_jobs)
    at_once = max(1, _CHANGED_NUMBERS // rows.size)
    for columns in slices(n_columns, at_once):
        numbers = np.arange(n_columns)[columns]
        table = np.tile(rows, (len(numbers), 1, 1))
        for place, column in enumerate(numbers):
            table[place, :, column] = rows[other, column]
        after = expansion.evaluate(rows_of(table.reshape(-1, n_columns)), n_jobs)
        after = after.reshape(len(numbers), len(rows), -1)
        change[columns] = np.square(after - before).sum(axis=(1, 2), dtype=np.float64)
    return change / change.sum() if change.any() else change
