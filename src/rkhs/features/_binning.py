"""Random binning features."""

import weakref
from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs.compute import BinTable, IndependentDraw, slices, tile_map
from rkhs.data import RowSource, encode_categories
from rkhs.expansion import FeatureExpansion
from rkhs.features._base import FeatureMap, sample_rows
from rkhs.kernels import Laplacian
from rkhs.kernels._length_scale import weighted_median
from rkhs.operators import BinBlock, BinnedOperator

_BLOCK = 8  # grids that one thread works on at a time
_JOINED = 2**20  # bin numbers of a block that is kept: each block costs a call
_TRAINING_ROWS = 2**20  # embedded at a time while the grids' tables are built
_MANY_ROWS = 2**17  # whose keys are computed for one grid at a time
_LARGEST = 1e3  # of a coordinate, in units of the sample's largest deviation
_FAR = 100.0  # beyond which new rows need units of their own
_LARGEST_WIDTHS = 1e4  # of a unit if most rows lie within: the few that do not may be clipped
_LARGEST_INVERSE = 1e6  # of a bin's width in that unit: bin numbers stay within 32 bits
_SPARSE_SHARE = 0.15  # of rows with another value than the usual, up to which they are listed
_FOUND_ROWS, _FOUND_GRIDS = 32_768, 128  # whose bins are found at a time: 16 MB
_CACHE_BYTES = 64 * 2**20  # grids beyond it are regenerated at each use
_CACHES = ("_tables", "_training", "_held_bytes", "_grids")
_ENTRY_BITS = 16  # of the 64 that rows are sorted by
_CODE_SCALE = 2.0**15  # of codes of categories: exact in 32 bits, and below `_LARGEST`
_UNUSED_SHARE = 0.1  # of bins without a coefficient, above which a function drops them
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Grid(NamedTuple):
    """One random grid, in units of the map's `scale_`."""

    inverse_width: np.ndarray
    offset: np.ndarray
    first: np.ndarray  # multipliers of the two hashes
    second: np.ndarray


class Columns(NamedTuple):
    """Rows prepared for any grid."""

    values: np.ndarray  # (dense columns, rows), float32
    low: np.ndarray  # (dense columns,): smallest and largest of them
    high: np.ndarray
    starts: np.ndarray  # (rows + 1,): where a row's entries begin
    entries: np.ndarray  # numbers of items
    item_column: np.ndarray  # an item is a value of a sparse column
    item_value: np.ndarray


class RandomBinning(FeatureMap):
    r"""Random binning features of a product of convex functions, such as `Laplacian`.

    Each grid cuts every column into bins of one random width; two rows share its cell with a
    probability that is the kernel. A row's features are one entry :math:`1 / \sqrt{R}` for
    each of the R grids, in the column of its cell. [rahimi2007]_ [wu2016]_

    Parameters
    ----------
    n_grids : int, default=256
    kernel : str or Kernel, optional
        By default the estimator's, or `Laplacian` with ``length_scale="auto"`` alone.
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : Kernel
        With numeric length scales.
    seed_ : int
        Seed of all grids.
    starts_ : array of shape (n_grids + 1,)
        Where each grid's bins begin among the features.
    keys_ : array of shape (n_features,)
        The cell of each feature, hashed to 64 bits.
    largest_cell_ : array of shape (n_grids,)
        Share of the rows (of the first million) that the fullest cell of each grid holds. The
        mean of its inverse is the number :math:`\kappa` of [wu2016]_: the method converges
        that many times faster than features that are not zero anywhere.
    categories_ : list or None
        For each column None, or the categories of a categorical one; None without any.
    categorical_ : array of bool of shape (n_columns,)

    Notes
    -----
    Columns of a data frame that hold text, or are of a categorical type of pandas or polars, are
    binned by equality: rows of different categories are one unit of distance apart, so such a
    column's factor of the kernel is 1 for equal categories and that of the distance 1 for
    different ones, :math:`\exp(-1 / l)` for `Laplacian`. A grid either has a bin for each
    category or one for all. A missing value is a category of its own, and one that was not there
    in training differs from all others.

    Cells that no training row fell into have no feature: rows in them get no entry for that
    grid.

    A cell's key is made of two independent linear hashes of 32 bits with random multipliers
    (sparse columns: one of 64). Two cells of one grid whose bin numbers differ, in some column,
    by an odd multiple of :math:`2^v`, and in no column by an odd multiple of less, have the
    same key with probability :math:`4^{v - 32}`; v is 0 for half of all pairs in a column.
    With a million cells that differ by odd numbers somewhere, one in about
    :math:`4 \cdot 10^7` grids confuses two of them.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.features import RandomBinning
    >>> from rkhs.kernels import Laplacian
    >>> X = np.array([[0.0], [1.0]])
    >>> Z = RandomBinning(4096, kernel=Laplacian(), random_state=0).fit_transform(X)
    >>> float((Z @ Z.T)[0, 1]), float(Laplacian()(X)[0, 1])  # doctest: +ELLIPSIS
    (0.3..., 0.367...)
    """

    size_parameter = "n_grids"
    is_sparse = True
    grows = True
    takes_categories = True
    default_kernel = Laplacian

    def __init__(self, n_grids=256, kernel=None, random_state=None):
        self.n_grids = n_grids
        self.kernel = kernel
        self.random_state = random_state

    def _fit_rows(self, source, weight, dtype, n_jobs):
        rows, weight = sample_rows(source, weight, self.seed_)
        self._grids = {}
        self.categories_ = source.categories
        self.categorical_ = source.categorical
        self._prepare_columns(rows.astype(np.float64), weight)
        self.grid(0)  # a kernel without grids is refused here
        self._tables = [BinTable() for _ in range(self.n_grids)]

    def _take_rows(self, source, n_jobs, memory):
        """Number the cells of all rows, and keep the numbers as far as memory allows."""
        tables, chunks = self._tables, []
        self.largest_cell_ = np.ones(self.n_grids)
        n_dense = int((~self.sparse_).sum())
        length = _TRAINING_ROWS
        if memory is not None:
            length = int(np.clip(memory // 8 // (8 * n_dense + 100), 1024, _TRAINING_ROWS))
        held, keeping = 0, True
        for part in slices(len(source), length):
            columns = self._columns(source, part, n_jobs)
            order = self._local_order(columns)
            columns = _sorted(columns, order)

            def number(block, columns=columns, first=part.start == 0):
                grids = np.arange(block.start, block.stop)
                at_once = _BLOCK if len(columns.starts) <= _MANY_ROWS else 1
                bins = [
                    table.add(row)
                    for some in _cut(block, at_once)
                    for table, row in zip(tables[some], self._keys(some, columns), strict=True)
                ]
                if first:
                    fullest = [np.bincount(b).max() for b in bins]
                    self.largest_cell_[block] = np.divide(fullest, len(columns.starts) - 1)
                return _packed(grids, bins)

            packed = tile_map(number, slices(self.n_grids, _BLOCK), n_jobs)
            blocks = _joined([block for pair in packed for block in pair], len(order))
            size = order.nbytes + sum(block.bins.nbytes for block in blocks)
            tables_size = sum(table.nbytes for table in tables)
            if memory is not None and tables_size > memory:
                self._refuse_memory(tables, memory)
            keeping = keeping and (memory is None or held + size + tables_size <= memory)
            if keeping:
                held += size
                chunks.append((part, order, blocks))
        for table in tables:
            table.trim()
        self.starts_ = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
        self.keys_ = np.concatenate([table.keys for table in tables])
        self._held_bytes = held + self.keys_.nbytes + sum(table.nbytes for table in tables)
        # The rows' bin numbers live as long as the rows do.
        self._training = weakref.WeakKeyDictionary({source: chunks})

    def _refuse_memory(self, tables, memory):
        n_cells = sum(map(len, tables)) / self.n_grids
        raise MemoryError(
            f"The cells that rows fall into take more than the {memory / 1e6:,.1f} MB that "
            f"memory_limit leaves: {n_cells:,.0f} a grid and {self.n_grids} grids. Use a larger "
            "length_scale, a smaller n_grids, or a larger memory_limit."
        )

    def fit_bytes(self):
        return getattr(self, "_held_bytes", 0)

    def continues(self, last):
        """As any map, and also with more grids than before."""
        if not isinstance(last, RandomBinning) or self.n_grids < last.n_grids:
            return False
        return clone(self).set_params(n_grids=1)._same_law(clone(last).set_params(n_grids=1))

    def covers(self, rows):
        """Not rows far outside of those that the units of the columns come from."""
        far = np.abs(rows - self.shift_) > _FAR * self.scale_
        return not (far & ~self.categorical_).any()

    def _same_law(self, other):
        return super().continues(other)

    def resume(self, last, coef, source, n_jobs=None, memory=None):
        """The last fit's grids, then new ones; new cells of both start from zero."""
        for name, value in vars(last).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        self.categories_ = source.categories
        starts, keys = last.starts_, last.keys_
        known = [keys[a:b] for a, b in pairwise(starts)]
        self._tables = [BinTable(part) for part in known]
        self._tables += [BinTable() for _ in range(self.n_grids - last.n_grids)]
        self._take_rows(source, n_jobs, memory)
        moved = np.zeros((self.n_outputs, coef.shape[1]))
        shift = np.repeat(self.starts_[: last.n_grids] - starts[:-1], np.diff(starts))
        # The same function: every entry of the features has become smaller.
        moved[np.arange(len(keys)) + shift] = coef * (last.value_ / self.value_)
        return self, moved

    def _prepare_columns(self, rows, weight):
        self.shift_ = np.array([weighted_median(column, weight) for column in rows.T])
        deviation = np.abs(rows - self.shift_).max(axis=0)
        typical = np.median(
            self.kernel_.widths(IndependentDraw(self.seed_, 0, _BLOCK), rows.shape[1]), axis=0
        )
        usual = [weighted_median(np.abs(column), weight, 0.9) for column in (rows - self.shift_).T]
        deviation = np.minimum(
            deviation, np.maximum(_LARGEST_WIDTHS * typical, 10.0 * np.array(usual))
        )
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.scale_[self.categorical_] = _CODE_SCALE
        share = (weight[:, None] * (rows != self.shift_)).sum(axis=0) / weight.sum()
        # A column that is nearly always the same costs only its other values.
        self.sparse_ = share <= _SPARSE_SHARE

    @property
    def n_outputs(self):
        return len(self.keys_)

    @property
    def value_(self) -> float:
        """Of every entry: the root of k(x, x) over the number of grids."""
        norm = self.kernel_.diag(np.zeros((1, self.n_features_in_)))[0]
        return float(np.sqrt(norm / self.n_grids))

    @property
    def nbytes(self):
        return self.keys_.nbytes + self.starts_.nbytes

    @property
    def rows_at_once(self) -> int:
        """Rows whose bins are found at a time when they are not kept."""
        return _FOUND_ROWS

    def found_bytes(self, n_rows: int) -> int:
        """Of the bin numbers that are found at a time."""
        return 4 * min(n_rows, _FOUND_ROWS) * min(self.n_grids, _FOUND_GRIDS)

    def grid(self, index: int) -> Grid:
        """A grid, regenerated from the seed."""
        block, place = divmod(index, _BLOCK)
        return Grid(*(part[place] for part in self._block(block)))

    def _block(self, number: int) -> Grid:
        """A block of grids: arrays of shape (grids, columns)."""
        cache = self.__dict__.setdefault("_grids", {})
        grids = cache.get(number)
        if grids is None:
            grids = self._new_grids(number)
            if 16 * self.n_features_in_ * _BLOCK * (len(cache) + 1) <= _CACHE_BYTES:
                cache[number] = grids
        return grids

    def _new_grids(self, block: int) -> Grid:
        n_columns = self.n_features_in_
        draw = IndependentDraw(self.seed_, block, _BLOCK)
        inverse = self.scale_ / self.kernel_.widths(draw, n_columns)
        offset, first, second = np.split(draw.uniform(3 * n_columns), 3, axis=1)
        # Where a grid's line cuts a unit of distance, every category is a bin; else all are one.
        cut = offset * self.scale_ < inverse
        # Lines lie where the seed says, whatever the shift: other rows give the same grid.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.nan_to_num((offset + self.shift_ / self.scale_ * inverse) % 1.0)
        inverse = np.where(self.categorical_, cut * self.scale_, inverse)
        offset = np.where(self.categorical_, 0.0, moved)
        return Grid(
            np.minimum(inverse, _LARGEST_INVERSE).astype(np.float32),
            offset.astype(np.float32),
            (first * 2.0**32).astype(np.uint32),
            (second * 2.0**32).astype(np.uint32),
        )

    def _columns(self, source: RowSource, part, n_jobs) -> Columns:
        """Rows of a source in the form that all grids share."""
        listed = np.flatnonzero(self.sparse_)
        dense = np.flatnonzero(~self.sparse_)
        n_rows = part.stop - part.start if isinstance(part, slice) else len(part)
        values = np.empty((len(dense), n_rows), np.float32)
        sparse_input = source.is_sparse and not self.shift_[listed].any()
        parts = slices(n_rows, 8192) or [slice(0, 0)]

        def embed(tile):
            rows = _within(part, tile)
            if sparse_input:
                table = source.sparse(rows)
                values[:, tile] = self._embedded(table[:, dense].toarray(), dense).T
                others = table[:, listed]
                others.sum_duplicates()
                others = others.tocoo()
                return others.row + tile.start, others.col, others.data
            block = source[rows]
            values[:, tile] = self._embedded(block[:, dense], dense).T
            few = block[:, listed]
            row, column = np.nonzero(few != self.shift_[listed])
            return row + tile.start, column, few[row, column]

        found = list(tile_map(embed, parts, n_jobs))
        low = values.min(axis=1) if n_rows else np.zeros(len(dense), np.float32)
        high = values.max(axis=1) if n_rows else low
        row, column, value = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
        column = listed[column]
        numbers, kept = _distinct(column, value.astype(np.float64))
        column, value = column[kept], value[kept]
        value = self._embedded(value[None], column)[0]
        return Columns(values, low, high, starts, numbers, column, value)

    def _embedded(self, block, columns):
        values = np.subtract(block, self.shift_[columns], dtype=np.float64)
        values /= self.scale_[columns]
        return np.clip(values, -_LARGEST, _LARGEST, out=values).astype(np.float32)

    def _local_order(self, columns: Columns) -> np.ndarray:
        """An order of the rows in which neighbours share most of their bins.

        Sums over bins then find what they need in cache. Rows with the same entries come
        together, and among them those that are close in the dense columns. The order in which
        the table has its rows makes no difference, so that cells have the same numbers for any.
        """
        from rkhs.compute import _bin_loops

        n_rows = len(columns.starts) - 1
        hashes = np.zeros(n_rows, np.uint64)
        if len(columns.item_column):
            bits = columns.item_value.view(np.uint32).astype(np.uint64)
            items = (bits + _ODD) * (columns.item_column.astype(np.uint64) * _ODD + np.uint64(1))
            _bin_loops.add_entries(hashes, columns.starts, columns.entries, items)
            hashes *= _ODD
        codes = hashes >> np.uint64(64 - _ENTRY_BITS)
        inverse = np.median(
            [self.grid(g).inverse_width for g in range(min(8, self.n_grids))], axis=0
        )
        inverse = inverse[~self.sparse_].astype(np.float32)
        extent = np.minimum((columns.high - columns.low) * inverse, 2.0**30)
        bits = np.ceil(np.log2(extent + 1.0)).astype(int)
        pairs = [(-level, c) for c, n in enumerate(bits) for level in range(n)]
        pairs = sorted(pairs)[: 64 - _ENTRY_BITS]
        if pairs:
            level, column = np.array(pairs).T
            _bin_loops.z_order(columns.values, columns.low, inverse, -level, column, codes)
        order = np.argsort(codes, kind="stable")
        same = codes[order][1:] == codes[order][:-1]
        if same.any():  # rows in one place are told apart by what they hold
            _bin_loops.add_hashes(columns.values.view(np.uint32), hashes)
            tied = np.append(same, False) | np.append(False, same)
            rows = order[tied]
            order[tied] = rows[np.lexsort((hashes[rows], codes[rows]))]
        return order

    def _keys(self, grids: slice, columns: Columns) -> np.ndarray:
        """Keys of rows in some grids of one block, (grids, rows)."""
        from rkhs.compute import _bin_loops

        block, first = divmod(grids.start, _BLOCK)
        parts = [part[first : first + grids.stop - grids.start] for part in self._block(block)]
        keys = np.empty((len(parts[0]), len(columns.starts) - 1), np.uint64)
        inverse, offset, one, other = (np.ascontiguousarray(p[:, ~self.sparse_]) for p in parts)
        values, low, high = columns.values, columns.low, columns.high
        _bin_loops.grid_keys(values, low, high, inverse, offset, one, other, keys)
        c = columns.item_column
        if len(c):  # grid by grid: there may be far more items than rows
            for row, inverse, offset, one, other in zip(keys, *parts, strict=True):
                bins = np.floor(columns.item_value * inverse[c] + offset[c]).astype(np.int32)
                usual = np.floor(offset[c]).astype(np.int32)
                wide = one[c].astype(np.uint64) << np.uint64(32) | other[c]
                contribution = (bins - usual).astype(np.uint64) * (wide * _ODD)
                _bin_loops.add_entries(row, columns.starts, columns.entries, contribution)
        return keys

    def _table(self, grid: int) -> BinTable:
        tables = self.__dict__.setdefault("_tables", [None] * self.n_grids)
        if tables[grid] is None:  # after loading: keys are all that a file holds
            tables[grid] = BinTable(self.keys_[self.starts_[grid] : self.starts_[grid + 1]])
        return tables[grid]

    def find(self, source: RowSource, rows, n_jobs=None) -> Iterator[list[BinBlock]]:
        """Bin numbers of rows, some grids at a time; unknown ones are one after the last."""
        columns = self._columns(source, rows, n_jobs)

        def look_up(block):
            grids = np.arange(block.start, block.stop)
            keys = self._keys(block, columns)
            bins = np.empty(keys.shape, np.uint32)
            for g, row, numbers in zip(grids, keys, bins, strict=True):
                self._table(g).find(row, numbers)
            return BinBlock(grids, bins, complete=False)

        blocks = slices(self.n_grids, _BLOCK)
        for group in slices(len(blocks), _FOUND_GRIDS // _BLOCK):
            yield list(tile_map(look_up, blocks[group], n_jobs))

    def operator(self, source, dtype=np.float32, keep_bytes=0, n_jobs=None):
        chunks = getattr(self, "_training", {}).get(source, ())
        return BinnedOperator(self, source, chunks, dtype, n_jobs)

    def expansion(self, coef):
        """The function with these coefficients; bins without one are left out if there are many."""
        used = np.any(coef != 0, axis=1)
        if len(used) - np.count_nonzero(used) <= _UNUSED_SHARE * len(used):
            return super().expansion(coef)
        return FeatureExpansion(self._with_bins(used), np.ascontiguousarray(coef[used]))

    def _with_bins(self, used):
        """The same grids with some of the bins: rows in the others get no entry."""
        few = copy(self)  # without tables and training rows
        few.starts_ = np.concatenate([[0], np.cumsum(used)])[self.starts_]
        few.keys_ = self.keys_[used]
        return few

    def sparse_rows(self, source, rows, dtype, n_jobs=None):
        """Features of rows of a source, a CSR matrix."""
        found = self.find(source, rows, n_jobs)
        bins = np.concatenate([block.bins for blocks in found for block in blocks])
        return self.sparse_bins(bins.T, dtype)

    def sparse_bins(self, bins, dtype):
        """Features of rows whose bin numbers (rows, grids) are known, a CSR matrix."""
        bins = bins.astype(np.int64)
        known = bins < np.diff(self.starts_)
        indptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        indices = (bins + self.starts_[:-1])[known]
        data = np.full(len(indices), self.value_, dtype)
        return sparse.csr_matrix((data, indices, indptr), shape=(len(bins), self.n_outputs))

    def transform(self, X):
        """The features of X: a CSR matrix of shape (rows, features), float32 if X is."""
        check_is_fitted(self)
        if self.categories_ is not None:
            X = encode_categories(X, self.categories_, self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        source = RowSource(X)
        parts = slices(len(source), max(1024, _FOUND_ROWS * _FOUND_GRIDS // self.n_grids))
        return sparse.vstack([self.sparse_rows(source, rows, X.dtype) for rows in parts], "csr")

    def __getstate__(self):
        # Tables are rebuilt from the keys, grids from the seed.
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k not in _CACHES}


def _sorted(columns: Columns, order) -> Columns:
    counts = np.diff(columns.starts)[order]
    starts = np.concatenate([[0], np.cumsum(counts)])
    place = np.repeat(columns.starts[:-1][order] - starts[:-1], counts) + np.arange(starts[-1])
    return columns._replace(
        values=np.ascontiguousarray(columns.values[:, order]),
        starts=starts,
        entries=columns.entries[place],
    )


def _cut(part: slice, size: int) -> list[slice]:
    starts = range(part.start, part.stop, size)
    return [slice(start, min(start + size, part.stop)) for start in starts]


def _within(part, tile):
    """Rows `tile` of the rows `part`, which are a slice or row numbers."""
    if isinstance(part, slice):
        return slice(part.start + tile.start, part.start + tile.stop)
    return part[tile]


def _distinct(column, value):
    """Entries that are the same get one number; the numbers, and an entry for each."""
    bits = (value + 0.0).view(np.uint64)
    keys = (bits ^ (bits >> np.uint64(29))) * _ODD + column.astype(np.uint64) * (
        _ODD << np.uint64(1)
    )
    numbers = BinTable().add(keys)
    order = np.arange(len(numbers))
    kept = np.empty(int(numbers.max()) + 1 if len(numbers) else 0, np.int64)
    kept[numbers[::-1]] = order[::-1]
    if np.array_equal(value, value[kept][numbers]) and np.array_equal(
        column, column[kept][numbers]
    ):
        return numbers, kept
    return order.astype(np.uint32), order  # two of them share a hash: none is merged


def _packed(grids, bins):
    """Blocks of two-byte and of four-byte bin numbers."""
    narrow = np.array([len(b) == 0 or b.max() < 2**16 for b in bins])
    return [
        BinBlock(
            grids[here],
            np.stack([bins[i] for i in np.flatnonzero(here)], dtype=kind, casting="unsafe"),
        )
        for here, kind in ((narrow, np.uint16), (~narrow, np.uint32))
        if here.any()
    ]


def _joined(blocks, n_rows):
    """The same bin numbers in fewer blocks where rows are few."""
    n_blocks = max(1, _JOINED // max(1, _BLOCK * n_rows))
    if n_blocks == 1:
        return blocks
    out = []
    for kind in (np.uint16, np.uint32):
        same = [block for block in blocks if block.bins.dtype == kind]
        for some in slices(len(same), n_blocks):
            grids, bins, _ = zip(*same[some], strict=True)
            out.append(BinBlock(np.concatenate(grids), np.concatenate(bins)))
    return out
