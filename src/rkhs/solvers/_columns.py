"""The columns of Z by blocks, as coordinate descent visits them.

A block is a set of coordinates that change together. Rows are cut into pieces that do not
depend on the number of threads; each piece has its own sums.
"""

import numpy as np

from rkhs.compute import slices, tile_map, uniform

_STREAM = 4001  # of the random order of blocks
_PIECE_ROWS = 32_768  # at least, so that a piece is worth a thread's while
_PIECES = 4  # at most, for kept rows: each has sums over all bins of a grid
_WIDTH = 64  # of a block of dense columns
_SMALLEST = 1e-30  # curvature of a column of zeros
_PRECISION = 1e-2  # of a block's own minimisation
_SWEEPS = 100


class Columns:
    """What the solver asks of a matrix.

    Attributes
    ----------
    order : array of shape (rows,) or None
        Numbers of the rows in the order that `pieces` cut; None for the table's own.
    pieces : list of slice
    curvature : array of shape (coordinates, 1)
        An upper bound on the second derivative of the objective's loss.
    n_fixed : int
        Number of blocks if they are the same in each epoch and known by number, else 0.
    separable : bool
        Whether the coordinates of a block share no row.
    """

    order: np.ndarray | None = None
    pieces: list[slice]
    curvature: np.ndarray
    n_fixed = 0
    separable = False

    def blocks(self, seed: int, epoch: int) -> list:
        """The blocks in this epoch's random order."""
        return list(np.argsort(uniform(seed, _STREAM, epoch, (self.n_fixed,))))

    def coordinates(self, block):
        """Which rows of the coefficients a block is."""
        return block

    def change(self, block, delta):
        """A block's change in the form that `add` takes for all pieces."""
        return delta

    def add(self, piece: int, block, change, f):
        """f += Z delta on a piece; the rows of it that changed, None for all."""
        raise NotImplementedError

    def sums(self, piece: int, block, v, room: int = 0) -> np.ndarray:
        """Z.T v of a block over a piece's rows; valid until `room` of the piece is used again."""
        raise NotImplementedError

    def minimise(self, block, gradient, w, curvature, alpha, sparse):
        """A block's next coefficients, and the largest violation of optimality at the last."""
        from rkhs.compute import _coordinate_loops

        out = np.empty_like(w)
        return out, _coordinate_loops.shrink(gradient, w, curvature, alpha, sparse, out)


class Grids(Columns):
    """Random binning, one grid a block: its bins share no row."""

    separable = True

    def __init__(self, operator, weight, bend):
        self._value, self._starts = operator.value, operator.starts
        self.n_fixed = len(self._starts) - 1
        self.order, chunks = operator.hold()
        self.pieces, self._bins = _cut(chunks, len(weight))
        self._rooms: dict[tuple[int, int, int], np.ndarray] = {}
        self.curvature = bend * operator.squared_column_sums(weight[:, None])
        np.maximum(self.curvature, _SMALLEST, out=self.curvature)

    def coordinates(self, block):
        return slice(self._starts[block], self._starts[block + 1])

    def change(self, block, delta):
        # Rows in an unknown bin have a number after the last: they do not change.
        change = np.zeros((len(delta) + 1, delta.shape[1]))
        np.multiply(delta, self._value, out=change[:-1])
        return change

    def add(self, piece, block, change, f):
        from rkhs.compute import _coordinate_loops

        _coordinate_loops.add_of_bins(self._bins[piece][block], change, f)

    def sums(self, piece, block, v, room=0):
        from rkhs.compute import _coordinate_loops

        size = self._starts[block + 1] - self._starts[block] + 1
        key = piece, room, v.shape[1]
        if key not in self._rooms:
            largest = int(np.diff(self._starts).max()) + 1
            self._rooms[key] = np.empty((largest, v.shape[1]))
        out = self._rooms[key][:size]
        out[...] = 0.0
        _coordinate_loops.sum_over_bins(self._bins[piece][block], v, out)
        out *= self._value
        return out[:-1]


class RandomBins(Columns):
    """Random binning, bins drawn at random from all grids; rows are listed by bin."""

    def __init__(self, operator, weight, bend, batch):
        self._value, starts = operator.value, operator.starts
        self.order, chunks = operator.hold()
        self.pieces, bins = _cut(chunks, len(weight))
        self._lists = list(tile_map(lambda b: _by_bin(b, starts), bins, operator.n_jobs))
        n_grids, n_bins = len(starts) - 1, int(starts[-1])
        self._batch = batch or max(1, n_bins // n_grids)
        self._n_bins = n_bins
        self.curvature = bend * operator.squared_column_sums(weight[:, None])
        np.maximum(self.curvature, _SMALLEST, out=self.curvature)
        self.curvature *= _damping(n_grids, self._batch, n_bins)

    def blocks(self, seed, epoch):
        return _drawn(seed, epoch, self._n_bins, self._batch)

    def add(self, piece, block, delta, f):
        from rkhs.compute import _coordinate_loops

        pointers, entries = self._lists[piece]
        return _coordinate_loops.add_of_columns(pointers, entries, block, self._value * delta, f)

    def sums(self, piece, block, v, room=0):
        from rkhs.compute import _coordinate_loops

        pointers, entries = self._lists[piece]
        out = np.zeros((len(block), v.shape[1]))
        _coordinate_loops.sum_over_columns(pointers, entries, block, v, out)
        return self._value * out


class DenseBlocks(Columns):
    """A dense matrix in memory, runs of columns that are minimised over together."""

    def __init__(self, operator, weight, bend, batch):
        self._columns = _transposed(operator)
        self.pieces = slices(len(weight), max(_PIECE_ROWS // 8, -(-len(weight) // _PIECES)))
        self._blocks = slices(len(self._columns), batch or _WIDTH)
        self.n_fixed = len(self._blocks)
        self._hessians = list(
            tile_map(
                lambda b: bend * self._moment(self._columns[b], weight),
                self._blocks,
                operator.n_jobs,
            )
        )
        self.curvature = np.concatenate([np.diagonal(h) for h in self._hessians])[:, None]

    def _moment(self, columns, weight):
        total = np.zeros((len(columns), len(columns)))
        for piece in slices(len(weight), 1024):
            Z = columns[:, piece].astype(np.float64)
            total += (Z * weight[piece]) @ Z.T
        diagonal = np.einsum("ii->i", total)
        np.maximum(diagonal, _SMALLEST, out=diagonal)
        return total

    def coordinates(self, block):
        return self._blocks[block]

    def add(self, piece, block, delta, f):
        Z = self._columns[self._blocks[block], self.pieces[piece]]
        f += Z.T @ delta.astype(Z.dtype)

    def sums(self, piece, block, v, room=0):
        Z = self._columns[self._blocks[block], self.pieces[piece]]
        return (Z @ v.astype(Z.dtype)).astype(np.float64)

    def minimise(self, block, gradient, w, curvature, alpha, sparse):
        from rkhs.compute import _coordinate_loops

        out = np.empty_like(w)
        hessian = self._hessians[block]
        return out, _coordinate_loops.descend(
            gradient, w, hessian, alpha, sparse, _PRECISION, _SWEEPS, out
        )


class RandomColumns(Columns):
    """A dense matrix in memory, columns drawn at random: every row has an entry in each."""

    def __init__(self, operator, weight, bend, batch):
        self._columns = _transposed(operator)
        self.pieces = slices(len(weight), _piece_size(len(weight)))
        size = len(self._columns)
        self._batch = min(batch or 1, size)
        squares = [np.square(column, dtype=np.float64) @ weight for column in self._columns]
        self.curvature = bend * np.maximum(squares, _SMALLEST)[:, None]
        self.curvature *= _damping(size, self._batch, size)

    def blocks(self, seed, epoch):
        return _drawn(seed, epoch, len(self._columns), self._batch)

    def add(self, piece, block, delta, f):
        Z = self._columns[block, self.pieces[piece]]
        f += Z.T @ delta.astype(Z.dtype)

    def sums(self, piece, block, v, room=0):
        Z = self._columns[block, self.pieces[piece]]
        return (Z @ v.astype(Z.dtype)).astype(np.float64)


def columns_of(operator, weight, bend, scheme, batch) -> Columns:
    """The matrix of an operator by blocks; `bend` is the loss's curvature."""
    if operator.is_sparse:
        if scheme == "grid":
            return Grids(operator, weight, bend)
        return RandomBins(operator, weight, bend, batch)
    return (DenseBlocks if scheme == "grid" else RandomColumns)(operator, weight, bend, batch)


def columns_bytes(operator, scheme, batch) -> int:
    """What `columns_of` takes beside the operator."""
    n_rows, n_columns = operator.shape
    if operator.is_sparse:
        entries = 4 * n_rows * (len(operator.starts) - 1)
        found = 0 if operator.keeps_all else entries
        pieces = _PIECES + n_rows // _PIECE_ROWS
        return found + (entries + 8 * n_columns * pieces if scheme == "random" else 0)
    width = min(batch or _WIDTH, n_columns) if scheme == "grid" else 1
    return n_rows * n_columns * operator.dtype.itemsize + 8 * n_columns * width


def _damping(n_entries, batch, n_columns):
    """By how much steps are shortened when `batch` random coordinates move at once.

    A row has `n_entries` of the `n_columns` entries; see the theorem cited in the solver.
    """
    return 1.0 + (n_entries - 1) * (batch - 1) / max(n_columns - 1, 1)


def _drawn(seed, epoch, n_columns, batch):
    order = np.argsort(uniform(seed, _STREAM, epoch, (n_columns,)))
    return [order[part] for part in slices(n_columns, batch)]


def _transposed(operator):
    """The whole matrix, a column's numbers next to each other."""
    out = np.empty(operator.shape[::-1], operator.dtype)
    for rows in slices(operator.shape[0], 4096):
        out[:, rows] = operator.rows(rows.start, rows.stop).T
    return out


def _piece_size(n_rows):
    """Pieces of the same size: as many as there are rows for, and not too many."""
    return -(-n_rows // min(_PIECES, max(1, n_rows // _PIECE_ROWS)))


def _cut(chunks, n_rows):
    """Pieces of rows, and for each the bin numbers of every grid."""
    size = _piece_size(n_rows)
    pieces, bins = [], []
    for rows, grids in chunks:
        for part in slices(rows.stop - rows.start, size):
            pieces.append(slice(rows.start + part.start, rows.start + part.stop))
            bins.append([grid[part] for grid in grids])
    return pieces, bins


def _by_bin(bins, starts):
    """Where each bin's rows begin, and the rows bin by bin."""
    from rkhs.compute import _coordinate_loops

    entries = np.empty(sum(map(len, bins)), np.uint32)
    pointers = np.empty(starts[-1] + 1, np.int64)
    position = 0
    for grid, numbers in enumerate(bins):
        part = pointers[starts[grid] : starts[grid + 1]]
        position = _coordinate_loops.sort_by_bin(numbers, part, entries, position)
    pointers[-1] = position
    return pointers, entries[:position]
