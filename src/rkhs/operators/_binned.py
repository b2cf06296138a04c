"""The sparse matrix of random binning: bin numbers, no stored values."""

from itertools import groupby
from typing import NamedTuple

import numpy as np

from rkhs.compute import fill, run_tiles, scratch, slices
from rkhs.operators._base import Operator, with_middle

_AT_ONCE = 4  # grids of which the loop over one output keeps sums
_SHARES = 8  # of the grids, that threads take: few, for each has sums of its own
_TILES = 8  # of a run of rows, at least: threads share them
_TILE_ROWS = 1024, 65_536  # whose sums stay in cache while one grid after the other is added
_TASK_GRIDS, _TASK_NUMBERS = 8, 2**18  # that a thread adds up before it takes others, at least


class BinBlock(NamedTuple):
    """Bin numbers of some grids on some rows."""

    grids: np.ndarray  # (grids,)
    bins: np.ndarray  # (grids, rows), uint16 where they fit, else uint32
    complete: bool = True  # False if some bins may be unknown: one after the grid's last


class BinnedOperator(Operator):
    """A matrix with one entry a row and grid, all of the same value.

    Parameters
    ----------
    feature_map : RandomBinning
        Fitted.
    source : RowSource
    chunks : list of (slice, order, list of BinBlock), optional
        Rows whose bin numbers are kept, and the order they are kept in; those of the other
        rows are found at each use.
    dtype : float32 or float64
    n_jobs : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import RowSource
    >>> from rkhs.features import RandomBinning
    >>> X = np.array([[0.0], [0.0], [9.0]])
    >>> operator = RandomBinning(4, random_state=0).fit(X).operator(RowSource(X))
    >>> operator.matmat(operator.rmatmat(np.array([[1.0], [0.0], [0.0]])))[:2]  # the kernel
    array([[1.],
           [1.]], dtype=float32)
    """

    is_sparse = True

    def __init__(self, feature_map, source, chunks=(), dtype=np.float32, n_jobs=None):
        super().__init__((len(source), feature_map.n_outputs), dtype, 0, n_jobs)
        self._map = feature_map
        self._source = source
        self._starts = feature_map.starts_
        self._value = feature_map.value_
        self._scratch: np.ndarray | None = None
        self._places: np.ndarray | None = None  # of rows in the order that bins are kept in
        self._chunks = list(chunks)
        done = self._chunks[-1][0].stop if self._chunks else 0
        step = feature_map.rows_at_once
        self._chunks += [
            (slice(done + rows.start, done + rows.stop), None, None)
            for rows in slices(len(source) - done, step)
        ]

    @property
    def keeps_all(self):
        return all(blocks is not None for _, _, blocks in self._chunks)

    @property
    def working_bytes(self):
        return 0 if self.keeps_all else 2 * self._map.found_bytes(self.shape[0])

    def _each_chunk(self):
        """Rows, their order, and blocks of grids; rows not kept come again for other grids."""
        for rows, order, kept in self._chunks:
            if kept is not None:
                yield rows, order, kept
                continue
            for blocks in self._map.find(self._source, rows, self.n_jobs):
                yield rows, order, blocks

    @property
    def starts(self) -> np.ndarray:
        """Where each grid's bins begin among the columns, and where the last one's end."""
        return self._starts

    @property
    def value(self) -> float:
        """Of every entry."""
        return self._value

    def hold(self) -> tuple[np.ndarray, list[tuple[slice, list[np.ndarray]]]]:
        """Keep the bin numbers of all rows, and give them out.

        Returns
        -------
        order : array of shape (rows,)
            Row numbers in the order that bins are kept in.
        chunks : list of (slice, list of array)
            A run of that order, and for each grid its rows' bin numbers; an unknown bin is
            one after the grid's last.
        """
        self._chunks = [
            (rows, order, [block for _, _, blocks in found for block in blocks])
            for (rows, order), found in groupby(self._each_chunk(), lambda chunk: chunk[:2])
        ]
        orders, chunks = [], []
        for rows, order, blocks in self._chunks:
            length = rows.stop - rows.start
            orders.append(rows.start + (np.arange(length) if order is None else order))
            bins = {g: row for block in blocks for g, row in zip(*block[:2], strict=True)}
            chunks.append((rows, [bins[g] for g in range(len(self._starts) - 1)]))
        return np.concatenate(orders), chunks

    def matmat(self, W):
        from rkhs.compute import _bin_loops

        W = self._narrow(W)
        out = np.zeros((self.shape[0], W.shape[1]), self.dtype)
        value = self.dtype.type(self._value)
        for chunk, order, blocks in self._each_chunk():
            n_rows = chunk.stop - chunk.start
            tiles = slices(n_rows, int(np.clip(-(-n_rows // _TILES), *_TILE_ROWS)))

            def add(tile, target=out[chunk], order=order, blocks=blocks):
                total = np.zeros((tile.stop - tile.start, W.shape[1]), self.dtype)
                for block in blocks:
                    self._gather(block, W, total, tile.start)
                if order is None:
                    total *= value
                    target[tile] += total
                else:
                    _bin_loops.add_rows(total, value, order[tile], target)

            run_tiles(add, tiles, self.n_jobs)
        return out

    def _gather(self, block, W, total, first):
        """Add a block's part of Z @ W, of rows from `first` on and without the value."""
        from rkhs.compute import _bin_loops

        grids, bins, complete = block
        starts, stops = self._starts[grids], self._starts[grids + 1]
        single = W.shape[1] == 1
        if not complete and single:
            _bin_loops.gather_found_one(bins, starts, stops, W, total, first)
        elif not complete:
            _bin_loops.gather_found(bins, starts, stops, W, total, first)
        elif single:
            _bin_loops.gather_one(bins, starts, stops, W[:, 0], total[:, 0], first)
        else:
            _bin_loops.gather(bins, starts, W, total, first)

    def rmatmat(self, V, out=None):
        V = np.asarray(V, self.dtype)
        if out is None:
            out = np.empty((self.shape[1], V.shape[1]))
        if not self._chunks:
            out[...] = 0.0
        for chunk, order, blocks in self._each_chunk():
            part = self._scaled(V[chunk], order)
            length = chunk.stop - chunk.start
            at_once = _TASK_GRIDS * max(1, _TASK_NUMBERS // (_TASK_GRIDS * length))

            def add(block, part=part, fresh=chunk.start == 0):
                self._scatter(block, part, out, fresh)

            run_tiles(add, _cut(blocks, at_once), self.n_jobs)
        return out

    def _scaled(self, V, order):
        """The value times V, rows in the order that bins are kept in."""
        from rkhs.compute import _bin_loops

        value = self.dtype.type(self._value)
        if order is None:
            return np.multiply(V, value, order="C")
        out = np.empty(V.shape, self.dtype)
        run_tiles(
            lambda rows: _bin_loops.take_rows(V, value, order[rows], out[rows]),
            slices(len(V), _TILE_ROWS[1]),
            self.n_jobs,
        )
        return out

    def _scatter(self, block, part, out, fresh):
        """Add a block's part of Z.T @ V, or write it if `fresh`."""
        from rkhs.compute import _bin_loops

        grids, bins, complete = block
        starts, stops = self._starts[grids], self._starts[grids + 1]
        if not complete:
            _bin_loops.scatter_found(bins, starts, stops, part, out, fresh)
        elif part.shape[1] == 1:
            _bin_loops.scatter_one(bins, starts, stops, part[:, 0], out[:, 0], fresh)
        else:
            _bin_loops.scatter(bins, starts, stops, part, out, fresh)

    def gram(self, W, middle, out=None, beside=None):
        return self.rmatmat(with_middle(middle, slice(None), self.matmat(W), beside), out)

    @property
    def prefers_rows(self):
        """With more cells than rows, if one run of rows holds the bin numbers of all."""
        return self._is_whole and self.shape[1] > self.shape[0]

    @property
    def precise(self):
        return self  # as `outer` is

    @property
    def _is_whole(self):
        return len(self._chunks) == 1 and self.keeps_all

    def outer(self, V):
        from rkhs.compute import _bin_loops

        if not self._is_whole:
            return super().outer(V)
        _, order, blocks = self._chunks[0]
        rows = np.ascontiguousarray(V if order is None else V[order], np.float64)
        sizes, loop, at_once = np.diff(self._starts), _bin_loops.outer, 1
        if rows.shape[1] == 1:
            loop, at_once = _bin_loops.outer_one, _AT_ONCE
        room = at_once * int(sizes.max()), rows.shape[1]

        # One grid after the other: the sums over its cells are in cache when rows fetch them.
        shares = _shares(blocks, _AT_ONCE * -(-len(sizes) // (_AT_ONCE * _SHARES)))
        parts = [np.empty(0)] * len(shares)

        def product(number):
            parts[number] = np.zeros_like(rows)
            table = scratch("sums of cells", room, np.float64)
            for block in shares[number]:
                loop(block.bins, sizes[block.grids], rows, table, parts[number])

        run_tiles(product, range(len(shares)), self.n_jobs, with_caller=False)
        total = np.zeros_like(rows)
        for part in parts:
            total += part
        total *= self._value**2
        if order is None:
            return total
        out = np.empty_like(total)
        out[order] = total
        return out

    @property
    def squared_row_norm(self):
        return self._value**2 * (len(self._starts) - 1)

    def _narrow(self, W):
        """W in the operator's precision, in memory that is used again: it may be long."""
        if W.dtype == self.dtype:
            return np.ascontiguousarray(W)
        if self._scratch is None or self._scratch.shape != W.shape:
            self._scratch = np.empty(W.shape, self.dtype)
        fill(self._scratch, W, self.n_jobs)
        return self._scratch

    def squared_column_sums(self, weight: np.ndarray, out=None) -> np.ndarray:
        """The diagonal of Z.T @ diag(weight) @ Z, one column for each column of weights."""
        return self.rmatmat(weight * self._value, out)

    def take(self, index):
        """The given rows as a CSR matrix."""
        if self._is_whole:
            _, order, blocks = self._chunks[0]
            if order is not None:
                if self._places is None:
                    places = np.empty(len(order), np.uint32)
                    places[order] = np.arange(len(order), dtype=np.uint32)
                    self._places = places
                index = self._places[index]
            bins = np.empty((len(index), len(self._starts) - 1), np.uint32)
            for block in blocks:
                bins[:, block.grids] = block.bins[:, index].T
            return self._map.sparse_bins(bins, self.dtype)
        return self._map.sparse_rows(self._source, index, self.dtype, self.n_jobs)


def _cut(blocks, n_grids):
    """Blocks of no more grids than these."""
    return [
        BinBlock(block.grids[some], block.bins[some], block.complete)
        for block in blocks
        for some in slices(len(block.grids), n_grids)
    ]


def _shares(blocks, n_grids):
    """Lists of blocks, each of about as many grids as these."""
    shares: list[list[BinBlock]] = []
    count = n_grids
    for block in _cut(blocks, n_grids):
        if count >= n_grids:
            shares.append([])
            count = 0
        shares[-1].append(block)
        count += len(block.grids)
    return shares
