"""The columns of Z by blocks, as coordinate descent visits them.

A block is a set of coordinates that change together. Rows are cut into pieces that do not
depend on the number of threads; each piece has its own sums.
"""

import numpy as np

from rkhs.compute import core_count, fill, run_tiles, slices, tile_map, together, uniform

_STREAM = 4001  # of the random order of blocks
_PIECE_ROWS = 32_768  # at least, so that a piece is worth a call of Python's
_PIECES = 4  # at most, for kept rows
_GRID_PIECE_ROWS = 2048  # the same for whole epochs in compiled code
_GRID_PIECES = 8
_GRID_SHARES = 16  # of the grids of a support, that threads take
_LISTED_ROWS = 1024  # at once, of places in a support: lists stay in cache
_PLACE = np.int16  # supports are small: `_support` sees to it
SMALLEST = 1e-30  # curvature of a column of zeros
_WIDTH = 64  # of a block of dense columns
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
    whole_epochs : bool
        Whether `sweep` visits blocks one after the other by itself.
    damping : float
        By how much steps are shortened.
    """

    order: np.ndarray | None = None
    pieces: list[slice]
    curvature: np.ndarray
    n_fixed = 0
    whole_epochs = False
    damping = 1.0

    def blocks(self, seed: int, epoch: int) -> list:
        """The blocks in this epoch's random order."""
        return list(np.argsort(uniform(seed, _STREAM, epoch, (self.n_fixed,))))

    def coordinates(self, block):
        """Which rows of the coefficients a block is."""
        return block

    def add(self, piece: int, block, delta, f):
        """f += Z delta on a piece; the rows of it that changed, None for all."""
        raise NotImplementedError

    def sums(self, piece: int, block, v) -> np.ndarray:
        """Z.T v of a block over a piece's rows."""
        raise NotImplementedError

    def responses(self, support: np.ndarray, delta: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Z delta for some coordinates of fixed blocks, rows in the order of `pieces`."""
        out = np.zeros((self.pieces[-1].stop, delta.shape[1]))
        whole = np.zeros((len(self.curvature), delta.shape[1]))
        whole[support] = delta

        def add(piece):
            for block in range(self.n_fixed):
                part = whole[self.coordinates(block)]
                if part.any():
                    self.add(piece, block, part, out[self.pieces[piece]])

        run_tiles(add, range(len(self.pieces)), n_jobs)
        return out

    def minimise(self, block, gradient, w, curvature, alpha, sparse):
        """A block's next coefficients, and the largest violation of optimality at the last."""
        from rkhs.compute import _coordinate_loops

        out = np.empty_like(w)
        return out, _coordinate_loops.shrink(gradient, w, curvature, alpha, sparse, out)


class Grids(Columns):
    """Random binning, one grid a block: its bins share no row."""

    whole_epochs = True

    def __init__(self, operator, weight, bend):
        self._value, self._starts = operator.value, np.ascontiguousarray(operator.starts, np.int64)
        self.n_fixed = len(self._starts) - 1
        self.order, chunks = operator.hold()
        # Each piece has sums over all bins of a grid: few pieces where there are many bins.
        least = max(_GRID_PIECE_ROWS, 4 * operator.shape[1] // self.n_fixed)
        self._chunks = chunks  # in memory as long as their addresses are used
        size = _piece_size(len(weight), least, _GRID_PIECES)
        self.pieces, self._numbers = _addresses(chunks, size)
        self._rooms = np.empty(0)
        self._shares = operator.squared_column_sums(weight[:, None])
        self.curvature = np.empty_like(self._shares)
        fill(self.curvature, self._shares, operator.n_jobs)
        if bend != 1.0:
            self.curvature *= bend

    def sweep(self, blocks, slope, bend, shift, coef, curvature, alpha, sparse, n_jobs):
        """Minimise a quadratic of all rows and its penalty, one block after the other.

        Changes `coef`, and adds to `shift` how the rows' responses move; `slope` and `bend`
        are the quadratic's derivatives at each row where `shift` is zero. Returns the largest
        violation of optimality that each block had when its turn came.
        """
        from rkhs.compute import _coordinate_loops

        largest = int(np.diff(self._starts).max()) + 1
        shape = len(self.pieces) + 1, largest, coef.shape[1]
        if self._rooms.shape != shape:
            self._rooms = np.empty(shape)
        order = np.asarray(blocks, np.int64)
        claims, done = _counters(2 * len(order) + 1, len(self.pieces))
        found = np.zeros((len(order), len(self.pieces)))
        penalty = float(alpha), bool(sparse)
        shared = order, self._numbers, self._starts, self._value, (slope, bend, shift)
        rest = coef, curvature, penalty, self._rooms, found
        together(lambda *who: _coordinate_loops.sweep((*who, claims, done), *shared, *rest), n_jobs)
        return found.max(axis=1)

    def responses(self, support, delta, n_jobs):
        from rkhs.compute import _coordinate_loops

        out = np.zeros((self.pieces[-1].stop, delta.shape[1]))
        matrix, where = (self._starts, self._value), self._by_grid(support)

        def add(piece):
            rows = out[self.pieces[piece]]
            _coordinate_loops.add_of_support(self._numbers, piece, *matrix, where, delta, rows)

        run_tiles(add, range(len(self.pieces)), n_jobs)
        return out

    def gradient(self, support, v, n_jobs):
        """Z.T v of some coordinates, rows in the order of `pieces`."""
        from rkhs.compute import _coordinate_loops

        out = np.empty((len(support), v.shape[1]))
        matrix, where = (self._starts, self._value), self._by_grid(support)

        def add(some):
            _coordinate_loops.sum_over_support(
                self._numbers, some.start, some.stop, *matrix, where, v, out
            )

        n_grids = len(where[1])
        run_tiles(add, slices(n_grids, max(1, -(-n_grids // _GRID_SHARES))), n_jobs)
        return out

    def _by_grid(self, support):
        """Growing coordinates, the grids that have some, and where those of each begin."""
        grids = self._grids_of(support)
        runs = np.searchsorted(support, np.append(self._starts[grids], self._starts[-1]))
        return support, grids, runs

    def _grids_of(self, support):
        return np.unique(np.searchsorted(self._starts, support, side="right") - 1)

    def entries_in(self, support):
        """The mean number of a row's entries in some coordinates, rows by weight."""
        return float(self._shares[support].sum()) / self._value**2

    def second_moment(self, support, bend, n_jobs, known=None):
        """Z.T diag(bend) Z of some coordinates; `known` is that of the first few of them."""
        from rkhs.compute import _coordinate_loops

        size = len(support)
        n_old = 0 if known is None else len(known)
        places = np.full(self._starts[-1], -1, _PLACE)
        places[support] = np.arange(size)
        out = np.zeros((size, size))
        if known is not None:
            out[:n_old, :n_old] = known
        n_parts = core_count(n_jobs)
        edges = self._even_edges(support, n_old, n_parts)
        n_rows = min(_LISTED_ROWS, max(piece.stop - piece.start for piece in self.pieces))
        grids = self._grids_of(support)
        old, new = np.empty((2, n_rows, len(grids)), _PLACE)
        lists = old, new, *np.empty((2, n_rows), np.int64)
        n_runs = sum(-(-(piece.stop - piece.start) // n_rows) for piece in self.pieces)
        claims, done = _counters(2 * n_runs, n_parts)
        matrix = self._numbers, self._starts, self._value
        support = grids, places, bend, n_old, edges, lists, out
        together(
            lambda *who: _coordinate_loops.support_moment((*who, claims, done), *matrix, *support),
            n_jobs,
        )
        out[:, n_old:] += np.tril(out, -1)[n_old:].T
        return out

    def _even_edges(self, support, n_old, n_parts):
        """Runs of coordinates from `n_old` on whose products with those before are as many."""
        shares = self._shares[support, 0]
        work = np.cumsum((shares * np.cumsum(shares))[n_old:])
        inner = np.searchsorted(work, work[-1] * np.arange(1, n_parts) / n_parts)
        return np.array([n_old, *(n_old + inner), len(support)], np.int64)


class RandomBins(Columns):
    """Random binning, bins drawn at random from all grids; rows are listed by bin."""

    whole_epochs = True

    def __init__(self, operator, weight, bend, batch):
        self._value, starts = operator.value, operator.starts
        self.order, chunks = operator.hold()
        self.pieces, bins = _cut(chunks, _piece_size(len(weight), _GRID_PIECE_ROWS))
        n_grids, n_bins = len(starts) - 1, int(starts[-1])
        bounds = np.array([0, *(piece.stop for piece in self.pieces)])
        pointers = np.empty((len(bins), n_bins + 1), np.int64)
        entries = np.empty(n_grids * bounds[-1], np.uint32)

        def fill(piece):
            _by_bin(bins[piece], starts, pointers[piece], entries, n_grids * bounds[piece])

        run_tiles(fill, range(len(bins)), operator.n_jobs)
        self._lists = pointers, entries, bounds
        self._batch = batch or max(1, n_bins // n_grids)
        self._n_bins = n_bins
        self.damping = _damping(n_grids, self._batch, n_bins)
        self.curvature = self.damping * bend * operator.squared_column_sums(weight[:, None])

    def blocks(self, seed, epoch):
        return [np.argsort(uniform(seed, _STREAM, epoch, (self._n_bins,)))]

    def sweep(self, blocks, slope, bend, shift, coef, curvature, alpha, sparse, n_jobs):
        """As for `Grids`, a batch of bins after the other."""
        from rkhs.compute import _coordinate_loops

        (order,) = blocks
        n_batches, n_pieces = -(-len(order) // self._batch), len(self.pieces)
        rooms = np.empty((n_pieces + 1, min(self._batch, len(order)), coef.shape[1]))
        found = np.zeros((n_batches, n_pieces))
        claims, done = _counters(2 * n_batches + 1, n_pieces)
        shared = order, self._batch, self._lists, self._value, (slope, bend, shift)
        rest = coef, curvature, (float(alpha), bool(sparse)), rooms, found
        together(
            lambda *who: _coordinate_loops.random_sweep((*who, claims, done), *shared, *rest),
            n_jobs,
        )
        return found.max(axis=1)


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
        np.maximum(diagonal, SMALLEST, out=diagonal)
        return total

    def coordinates(self, block):
        return self._blocks[block]

    def add(self, piece, block, delta, f):
        Z = self._columns[self._blocks[block], self.pieces[piece]]
        f += Z.T @ delta.astype(Z.dtype)

    def sums(self, piece, block, v):
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
        self.curvature = bend * np.maximum(squares, SMALLEST)[:, None]
        self.curvature *= _damping(size, self._batch, size)

    def blocks(self, seed, epoch):
        return _drawn(seed, epoch, len(self._columns), self._batch)

    def add(self, piece, block, delta, f):
        Z = self._columns[block, self.pieces[piece]]
        f += Z.T @ delta.astype(Z.dtype)

    def sums(self, piece, block, v):
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
        n_grids = len(operator.starts) - 1
        entries = 4 * n_rows * n_grids
        found = 0 if operator.keeps_all else entries
        pieces = _PIECES + n_rows // _PIECE_ROWS
        if scheme == "random":
            return found + entries + 8 * n_columns * pieces
        return found + 2 * np.dtype(_PLACE).itemsize * _LISTED_ROWS * n_grids
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


def _piece_size(n_rows, least=None, most=_PIECES):
    """Pieces of the same size: as many as there are rows for, and not too many.

    A power of two, so that none is left over when two or four threads share them.
    """
    least = _PIECE_ROWS if least is None else least
    pieces = min(most, max(1, n_rows // least))
    return -(-n_rows // 2 ** (pieces - 1).bit_length())


def _cut(chunks, size):
    """Pieces of at most `size` rows, and for each the bin numbers of every grid."""
    pieces, bins = [], []
    for rows, grids in chunks:
        for part in slices(rows.stop - rows.start, size):
            pieces.append(slice(rows.start + part.start, rows.start + part.stop))
            bins.append([grid[part] for grid in grids])
    return pieces, bins


def _addresses(chunks, size):
    """Pieces of at most `size` rows; and for compiled code where the bin numbers of each piece and
    grid are, whether they have four bytes, and where pieces begin."""
    pieces, addresses, wide = [], [], []
    for rows, grids in chunks:
        first = np.array([grid.ctypes.data for grid in grids], np.int64)
        width = np.array([grid.itemsize for grid in grids])
        for part in slices(rows.stop - rows.start, size):
            pieces.append(slice(rows.start + part.start, rows.start + part.stop))
            addresses.append(first + part.start * width)
            wide.append(width == 4)
    bounds = np.array([0, *(piece.stop for piece in pieces)], np.int64)
    return pieces, (np.array(addresses), np.array(wide), bounds)


def _counters(n_stages, n_units):
    """For a team of threads: claims of each unit, and the number of those done in each stage."""
    return np.zeros((n_stages, n_units), np.int64), np.zeros(n_stages, np.int64)


def _by_bin(bins, starts, pointers, entries, position):
    """Write the rows bin by bin to `entries` from `position` on, and where each bin's begin."""
    from rkhs.compute import _coordinate_loops

    for grid, numbers in enumerate(bins):
        part = pointers[starts[grid] : starts[grid + 1]]
        position = _coordinate_loops.sort_by_bin(numbers, part, entries, position)
    pointers[-1] = position
