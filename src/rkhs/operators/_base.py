"""Products with a matrix that exists one tile at a time."""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from rkhs.compute import (
    core_count,
    gather_columns,
    gram_times,
    run_tiles,
    slices,
    sum_tiles,
    tile_map,
    times,
    transposed_times,
)

_TILE_BYTES = 32 * 2**20
_TILE_ROWS = (64, 512)
_PARTS = 4  # rows of a batch are cut into a multiple of this: equal work for a few threads
_SMALL_MOMENT = 1500  # features
_SAMPLED_ROWS = 1024  # a block that the allocator gives again instead of mapping anew

Middle = np.ndarray | Callable[[slice, np.ndarray], np.ndarray]
Buffer = Callable[[int, tuple[int, int]], np.ndarray]


class Operator:
    """A matrix Z that can be multiplied from both sides.

    Rows are cut into tiles; each tile is a run of column blocks that a subclass computes
    when they are needed. The first tiles are kept between passes as far as `keep_bytes`
    reaches; the others are computed anew each time.

    Parameters
    ----------
    shape : (int, int)
    dtype : float32 or float64
        Of the tiles, and of products within one; sums over tiles are kept in float64.
    keep_bytes : int
        How much memory kept tiles may take.
    n_jobs : int or None
        Threads; the result does not depend on it.
    """

    entry_work = 0  # multiplications that an entry of a tile takes
    is_sparse = False  # whether rows are too long to be held dense
    parts: "tuple[Operator, ...]" = ()  # operators side by side that it is made of
    columns: tuple[slice, ...] = ()  # of each part
    _moment_dtype: type = np.float32  # of products that `second_moment` sums in float64

    def __init__(self, shape, dtype, keep_bytes=0, n_jobs=None):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.n_jobs = n_jobs
        row_bytes = max(1, shape[1] * self.dtype.itemsize)
        self._height = int(np.clip(_TILE_BYTES // row_bytes, *_TILE_ROWS))
        self._tiles = slices(shape[0], self._height)
        self._n_kept = int(keep_bytes // (row_bytes * self._height))
        if shape[0] * row_bytes <= keep_bytes:
            self._n_kept = len(self._tiles)
        self._kept: dict[int, list[np.ndarray]] = {}
        self._slab: np.ndarray | None = None
        self._lock = threading.Lock()
        self._local = threading.local()

    def product_dtype(self, factor: np.ndarray) -> np.dtype:
        """Precision of a tile's product with `factor`."""
        return self.dtype

    @property
    def prefers_rows(self) -> bool:
        """Whether `outer` is cheaper than products with Z and Z.T."""
        return False

    @property
    def squared_row_norm(self) -> float:
        """Of every row of the training table, for sparse features: it is the same for all."""
        raise NotImplementedError

    @property
    def precise(self) -> "Operator | None":
        """The same matrix with products in float64, or None if it has none."""
        return self if self.dtype == np.float64 else None

    def compute(self, rows, buffer: Buffer | None = None) -> Iterator[np.ndarray]:
        """The column blocks, from left to right, of a slice or an array of rows.

        `buffer(block, shape)` gives the array to write a block to; a new one by default.
        """
        raise NotImplementedError

    @property
    def keeps_all(self) -> bool:
        """Whether every tile stays in memory after the first pass."""
        return self._n_kept == len(self._tiles)

    @property
    def working_bytes(self) -> int:
        """Memory of the tiles under way, apart from the kept ones."""
        height = min(self._height, self.shape[0])
        tile = height * self.shape[1] * self.dtype.itemsize
        return 2 * tile * min(core_count(self.n_jobs), max(1, len(self._tiles)))

    def fresh(self, block: int, shape: tuple[int, int]) -> np.ndarray:
        """A buffer that nobody else will use."""
        return np.empty(shape, self.dtype)

    def _reused(self, block: int, shape: tuple[int, int]) -> np.ndarray:
        """This thread's buffer for a block: new memory for each tile costs as much as a pass."""
        buffers: dict = self._local.__dict__
        size = shape[0] * shape[1]
        if block not in buffers or buffers[block].size < size:
            buffers[block] = np.empty(size, self.dtype)
        return buffers[block][:size].reshape(shape)

    def _blocks(self, tile: int, one_at_a_time: bool = True):
        """A tile's blocks; those that are not kept are valid until the next (tile)."""
        if tile >= self._n_kept:
            if one_at_a_time:
                return self.compute(self._tiles[tile], lambda _, shape: self._reused(0, shape))
            return list(self.compute(self._tiles[tile], self._reused))
        if tile not in self._kept:
            self._kept[tile] = list(self.compute(self._tiles[tile], self._slab_of(tile)))
        return self._kept[tile]

    def _slab_of(self, tile: int) -> Buffer:
        """Buffers for a kept tile, side by side in one array for all of them.

        The system maps one large array in large pages; many small ones would cost more
        time than what is written to them.
        """
        with self._lock:
            if self._slab is None:
                rows = self._tiles[self._n_kept - 1].stop
                self._slab = np.empty(rows * self.shape[1], self.dtype)
            slab = self._slab
        position = self._tiles[tile].start * self.shape[1]

        def buffer(block, shape):
            nonlocal position
            start, position = position, position + shape[0] * shape[1]
            return slab[start:position].reshape(shape)

        return buffer

    def _sum(self, function: Callable[[int], np.ndarray], shape: tuple[int, int]) -> np.ndarray:
        """The sum of a function of each tile, float64."""
        return sum_tiles(function, range(len(self._tiles)), _vectors(*shape), self.n_jobs)

    def matmat(self, W: np.ndarray) -> np.ndarray:
        """Z @ W, in the precision of the product."""
        W = np.asarray(W, self.product_dtype(W))
        out = np.empty((self.shape[0], W.shape[1]), W.dtype)

        def product(tile):
            out[self._tiles[tile]] = _times(self._blocks(tile), W)

        run_tiles(product, range(len(self._tiles)), self.n_jobs, with_caller=False)
        return out

    def rmatmat(self, V: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Z.T @ V, summed in float64, written to `out` if it is given."""
        V = np.asarray(V, self.product_dtype(V))

        def product(tile):
            return _transposed_times(self._blocks(tile), V[self._tiles[tile]])

        return moved(self._sum(product, (self.shape[1], V.shape[1])), out)

    def gram(
        self,
        W: np.ndarray,
        middle: Middle,
        out: np.ndarray | None = None,
        beside: np.ndarray | None = None,
    ) -> np.ndarray:
        """Z.T @ middle(Z @ W) in one pass, written to `out` if it is given.

        `middle` is what each row of the inner product is multiplied with, an array of shape
        (rows, 1) or (rows, outputs), or a function of a slice of rows and their product. To the
        product `beside` is added, an array of its shape in which what `middle` gives is left.
        """
        W = np.asarray(W, self.product_dtype(W))

        def product(tile):
            rows = self._tiles[tile]
            blocks = self._blocks(tile, one_at_a_time=False)
            here = None if beside is None else beside[rows]
            if len(blocks) == 1 and not callable(middle):
                return gram_times(blocks[0], W, middle[rows], here)
            inner = with_middle(middle, rows, _times(blocks, W), here)
            return _transposed_times(blocks, np.asarray(inner, W.dtype))

        return moved(self._sum(product, W.shape), out)

    def outer(self, V: np.ndarray) -> np.ndarray:
        """Z @ (Z.T @ V), float64: the kernel matrix that the features stand for, times V."""
        return self.matmat(self.rmatmat(V)).astype(np.float64)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop` as a dense matrix."""
        return self.take(np.arange(start, stop))

    def take(self, index: np.ndarray) -> np.ndarray:
        """The given rows as a dense matrix, in that order."""
        if self.keeps_all and len(self._kept) == len(self._tiles):
            out = np.empty((len(index), self.shape[1]), self.dtype)
            tile, offset = np.divmod(index, self._height)
            for t in np.unique(tile):
                here = tile == t
                out[here] = np.hstack([block[offset[here]] for block in self._kept[t]])
            return out
        parts = tile_map(
            lambda rows: np.hstack(list(self.compute(index[rows]))),
            slices(len(index), self._height),
            self.n_jobs,
        )
        return np.vstack([np.empty((0, self.shape[1]), self.dtype), *parts])

    def second_moment(self, index: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Z.T @ diag(share) @ Z over the given rows, in float64: its lower triangle."""
        out = np.zeros((self.shape[1], self.shape[1]))

        def product(part):
            root = np.sqrt(share[part])[:, None]
            Z = np.multiply(self.take(index[part]), root, dtype=self._moment_dtype)
            return Z.T @ Z

        n_parts = _PARTS * -(-len(index) // (_PARTS * _SAMPLED_ROWS))
        parts = slices(len(index), max(1, -(-len(index) // max(1, n_parts))))
        if len(out) > _SMALL_MOMENT:
            # One at a time is in memory, and BLAS has threads of its own for it.
            for summand in map(product, parts):
                out += summand
            return out
        for some in slices(len(parts), core_count(self.n_jobs)):  # one a thread
            for summand in tile_map(product, parts[some], self.n_jobs):
                out += summand
        return out

    def visit_rows(
        self,
        index: np.ndarray,
        W: np.ndarray,
        visit: Callable[[slice, np.ndarray, list[np.ndarray]], object],
        columns: Callable[[slice], Sequence[np.ndarray]] = lambda part: (),
    ) -> Iterator:
        """Compute some rows of Z and of Z @ W, part by part: ``visit(part, product, entries)``.

        `part` is a slice of `index`, and ``columns(part)`` are sets of columns; `index` and the
        sets ascend. `entries` are the values of those rows in each set, valid during the call.
        What `visit` returns is yielded in order.
        """
        W = np.asarray(W, self.product_dtype(W))
        slabs: dict[int, np.ndarray] = {}  # of W, in the order that products read them

        def pick_and_multiply(part, blocks):
            height, sets = part.stop - part.start, columns(part)
            picked = [self._reused(-1 - i, (height, len(set_))) for i, set_ in enumerate(sets)]
            total = np.zeros((height, W.shape[1]), W.dtype)
            start = 0
            for block in blocks:
                stop = start + block.shape[1]
                for set_, values in zip(sets, picked, strict=True):
                    first, last = np.searchsorted(set_, (start, stop))
                    if first < last:
                        gather_columns(block, set_[first:last], start, values[:, first:last])
                if start not in slabs:
                    slabs[start] = np.asfortranarray(W[start:stop])
                total += times(block, slabs[start])
                start = stop
            return visit(part, total, picked)

        return tile_map(
            lambda task: pick_and_multiply(*task()), self._row_parts(index, True), self.n_jobs
        )

    def gram_rows(self, index: np.ndarray, W: np.ndarray, middle: Callable) -> np.ndarray:
        """Z[index].T @ middle(Z[index] @ W) in one pass; `index` ascends.

        `middle` is a function of a slice of `index` and the product of those rows.
        """
        W = np.asarray(W, self.product_dtype(W))
        total = _vectors(*W.shape)

        def product(task):
            part, blocks = task()
            blocks = list(blocks)
            inner = middle(part, _times(blocks, W))
            return _transposed_times(blocks, np.asarray(inner, W.dtype))

        for summand in tile_map(product, self._row_parts(index, False), self.n_jobs):
            total += summand
        return total

    def _row_parts(self, index: np.ndarray, one_at_a_time: bool) -> list[Callable]:
        """Functions that give each a slice of the ascending `index` and these rows' blocks."""
        tile = index // self._height
        n_kept = int(np.searchsorted(tile, self._n_kept))
        cuts = np.flatnonzero(np.diff(tile[:n_kept])) + 1
        cuts = np.r_[0, cuts, n_kept] if n_kept else np.zeros(1, int)
        parts: list[Callable] = [
            partial(self._kept_part, index, slice(*pair), one_at_a_time)
            for pair in pairwise(cuts.tolist())
        ]
        rest = len(index) - n_kept
        if rest:
            # Of one block at a time only that block is in memory, whatever the rows' length.
            height = _TILE_ROWS[1] if one_at_a_time else self._height
            n_parts = _PARTS * -(-rest // (_PARTS * height))
            cuts = n_kept + np.arange(n_parts + 1) * rest // n_parts
            parts += [
                partial(self._computed_part, index, slice(*pair), one_at_a_time)
                for pair in pairwise(cuts.tolist())
                if pair[0] < pair[1]
            ]
        return parts

    def _buffers(self, one_at_a_time):
        return (lambda _, shape: self._reused(0, shape)) if one_at_a_time else self._reused

    def _computed_part(self, index, part, one_at_a_time):
        return part, self.compute(index[part], self._buffers(one_at_a_time))

    def _kept_part(self, index, part, one_at_a_time):
        tile, buffer = index[part.start] // self._height, self._buffers(one_at_a_time)
        offset = index[part] - tile * self._height

        def blocks():
            for number, block in enumerate(self._blocks(tile)):
                out = buffer(number, (len(offset), block.shape[1]))
                yield np.take(block, offset, axis=0, out=out, mode="clip")

        return part, blocks()

    def column_norms(self) -> np.ndarray:
        """Euclidean norm of each column."""

        def squares(tile):
            return np.concatenate([np.einsum("ij,ij->j", b, b) for b in self._blocks(tile)])

        total = np.zeros(self.shape[1])
        return np.sqrt(sum_tiles(squares, range(len(self._tiles)), total, self.n_jobs))


def _times(blocks, W):
    """Sum of the blocks times their rows of W."""
    total, start = None, 0
    for block in blocks:
        part = times(block, W[start : start + block.shape[1]])
        total = part if total is None else np.add(total, part, out=total)
        start += block.shape[1]
    return total


def with_middle(middle, rows, inner, beside):
    """What `middle` gives for some rows of the inner product and what is beside it."""
    if beside is not None:
        inner = inner + beside
    inner = middle(rows, inner) if callable(middle) else middle[rows] * inner
    if beside is not None:
        beside[...] = inner
    return inner


def _transposed_times(blocks, V):
    parts = [transposed_times(block, V) for block in blocks]
    return parts[0] if len(parts) == 1 else np.hstack([part.T for part in parts]).T


def _vectors(size, count):
    """Zeros of shape (size, count), a vector's numbers next to each other: sums are fast."""
    return np.zeros((count, size)).T


def moved(array, out):
    """`array`, or `out` with its values."""
    if out is None:
        return array
    out[...] = array
    return out
