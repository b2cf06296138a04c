"""Rows of an array or a sparse matrix, dense one block at a time."""

from copy import copy

import numpy as np
from scipy import sparse

from rkhs.compute import run_tiles, slices, uniform

_KEY_STREAM = 1301
_BLOCK = 65_536
_GATHERED = 8192  # rows at a time
_NUMBERS = 2**20  # that a thread makes keys of at a time
_LARGEST = 1e152  # whose square, and sums of such, are finite
_SMALLEST_TARGET, _LARGEST_TARGET = 1e-30, 1e18  # in single precision


class RowSource:
    """A table that is read in blocks, never copied whole.

    Whatever its type (float, small integers, a memory map, a sparse matrix), a block
    comes out as a dense array of numbers.

    Parameters
    ----------
    X : array, memory map or sparse matrix of shape (rows, columns)
    rows : array of int, optional
        Which rows of X, and in which order; all by default.
    categories : list, optional
        Of the columns whose numbers are codes of categories (see `learn_categories`).

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import RowSource
    >>> RowSource(np.eye(3), rows=[2, 0])[0:1]
    array([[0., 0., 1.]])
    """

    def __init__(self, X, rows=None, categories=None):
        self._X = X.tocsr() if sparse.issparse(X) else X
        self._rows = None if rows is None else np.asarray(rows)
        self._columns: np.ndarray | None = None
        count = X.shape[0] if self._rows is None else len(self._rows)
        self.shape = (count, X.shape[1])
        self.categories = categories

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        """The dense block of a slice or an array of row numbers."""
        block = self._block(rows)
        return block if self._columns is None else block.take(self._columns, axis=1)

    def _block(self, rows) -> np.ndarray:
        """All columns of some rows."""
        if self._rows is not None:
            rows = self._rows[rows]
        block = self._X[rows]
        return block.toarray() if sparse.issparse(block) else np.asarray(block)

    def only(self, columns: np.ndarray) -> "RowSource":
        """The same rows as if there were no columns but these."""
        part = copy(self)
        part._columns = columns if self._columns is None else self._columns[columns]
        part.shape = (len(self), len(columns))
        if self.categories is not None:
            part.categories = [self.categories[column] for column in columns]
        return part

    @property
    def categorical(self) -> np.ndarray:
        """Which columns hold codes, where only equal or different means something."""
        if self.categories is None:
            return np.zeros(self.shape[1], bool)
        return np.array([known is not None for known in self.categories])

    @property
    def units(self) -> np.ndarray:
        """What one is in each column, in the table's own numbers; NaN if it is none of them."""
        return np.ones(self.shape[1])

    @property
    def is_sparse(self) -> bool:
        return sparse.issparse(self._X)

    def sparse(self, rows):
        """A block of a sparse table as it is, in CSR form."""
        block = self._X[rows if self._rows is None else self._rows[rows]]
        return block if self._columns is None else block[:, self._columns]

    def gathered(self, rows: np.ndarray) -> np.ndarray:
        """These rows as a dense array, put together without further copies of all of them."""
        out = np.empty((len(rows), self.shape[1]), self[rows[:1]].dtype)
        for part in slices(len(rows), _GATHERED):
            out[part] = self[rows[part]]
        return out

    def held(self) -> "RowSource":
        """The same rows, for reading each many times; if need be a copy (see `held_bytes`)."""
        return self

    @property
    def held_bytes(self) -> int:
        """What `held` takes."""
        return 0

    def floats(self, rows) -> np.ndarray:
        """A block for keeping: a contiguous copy in floating point that loses nothing."""
        block = self[rows]
        dtype = block.dtype
        if dtype.kind != "f" or dtype.itemsize < 4:
            dtype = np.result_type(dtype, np.float32)  # small integers are exact in float32
        return np.array(block, dtype, order="C")


def row_keys(source: RowSource, seed: int, n_jobs=None) -> np.ndarray:
    """Random 64-bit keys that depend on what a row holds: equal rows have equal keys."""
    words = uniform(seed, _KEY_STREAM, 0, (source.shape[1] + 1,))
    odd = (words * 2.0**63).astype(np.uint64)
    odd = odd * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(source), np.uint64)

    def fill(rows):
        # Adding zero turns -0.0 into 0.0, which is equal to it.
        bits = (np.ascontiguousarray(source[rows], dtype=np.float64) + 0.0).view(np.uint64)
        mixed = (bits ^ (bits >> np.uint64(29))) * odd[1:]
        total = (mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64) + odd[0]
        keys[rows] = (total ^ (total >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)

    height = max(1, _NUMBERS // max(1, source.shape[1]))
    run_tiles(fill, slices(len(source), height), n_jobs)
    return keys


def stack(tables):
    """Tables of one kind and the same columns below each other: arrays, sparse or frames.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import stack
    >>> stack([np.zeros((2, 3)), np.ones((1, 3))]).shape
    (3, 3)
    """
    if len(tables) == 1:
        return tables[0]
    if any(sparse.issparse(table) for table in tables):
        return sparse.vstack(tables, "csr")
    first = type(tables[0])
    kind = first.__module__.split(".")[0]
    if hasattr(tables[0], "columns") and all(isinstance(table, first) for table in tables):
        if kind == "polars":
            import polars

            return polars.concat(tables, how="vertical_relaxed")
        import pandas

        return pandas.concat(tables, ignore_index=True)
    return np.vstack([np.asarray(table) for table in tables])


def refuse_huge(X) -> None:
    """Say which column of a table has values so large that distances would overflow."""
    if X.dtype != np.float64:
        return
    for block in slices(X.shape[0], _BLOCK):
        part = X[block]
        values = part.data if sparse.issparse(part) else part
        largest = float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0))
        if largest > _LARGEST:
            found = (abs(part) > _LARGEST).nonzero()[1].min()
            raise ValueError(
                f"Column {int(found)} has values as large as {largest:.3g}, and beyond "
                f"{_LARGEST:g} squares overflow. Divide that column by a constant first."
            )


def refuse_extreme(target) -> None:
    """Say that squares of targets would leave the range of single precision."""
    for column in target.T:
        largest = float(np.abs(column).max())
        if largest and not _SMALLEST_TARGET <= largest <= _LARGEST_TARGET:
            raise ValueError(
                f"The largest target is {largest:.3g}, and beyond {_SMALLEST_TARGET:g} to "
                f"{_LARGEST_TARGET:g} squares leave the range of float32. Multiply the targets by "
                'a constant first, or use solver="exact".'
            )
