"""Bins of random grids: keys, the numbers that stand for them, and sums over them."""

import numpy as np

_SMALLEST = 8  # binary logarithm of the first table's size
_EMPTY = 0xFFFFFFFF


class BinTable:
    """Consecutive numbers for 64-bit keys, in order of first appearance.

    An open-addressing table at most half full: it grows with the keys, 8 bytes each, and holds
    4 bytes a slot.

    Parameters
    ----------
    keys : array of uint64, optional
        Keys known from the start, all different.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.compute import BinTable
    >>> table = BinTable()
    >>> table.add(np.array([7, 9, 7], np.uint64))
    array([0, 1, 0], dtype=uint32)
    >>> table.find(np.array([9, 8], np.uint64))  # 8 is unknown: the number after the last
    array([1, 2], dtype=uint32)
    """

    def __init__(self, keys: np.ndarray | None = None):
        self._known = np.empty(0, np.uint64) if keys is None else keys
        self._count = len(self._known)
        self._rebuild()

    def __len__(self):
        return self._count

    @property
    def keys(self) -> np.ndarray:
        """The known keys, by number."""
        return self._known[: self._count]

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._table.nbytes

    def _rebuild(self):
        from rkhs.compute import _bin_loops

        bits = max(_SMALLEST, int(np.ceil(np.log2(max(2 * self._count, 1)))))
        self._shift = np.uint64(64 - bits)
        self._table = np.full(1 << bits, _EMPTY, np.uint32)
        _bin_loops.fill_table(self.keys, self._table, self._shift)

    def add(self, keys: np.ndarray) -> np.ndarray:
        """The number of each key; new keys get the next ones."""
        from rkhs.compute import _bin_loops

        bins = np.empty(len(keys), np.uint32)
        position = 0
        while True:
            position, self._count = _bin_loops.insert(
                keys, self._table, self._shift, self._known, self._count, position, bins
            )
            if position == len(keys):
                return bins
            if self._count == len(self._known):
                room = np.empty(max(64, 2 * self._count), np.uint64)
                room[: self._count] = self._known
                self._known = room
            if 2 * self._count >= len(self._table):
                self._table = np.full(4 * len(self._table), _EMPTY, np.uint32)
                self._shift -= np.uint64(2)
                _bin_loops.fill_table(self.keys, self._table, self._shift)

    def trim(self) -> None:
        """Give back room for keys that did not come."""
        self._known = self.keys.copy()

    def find(self, keys: np.ndarray, bins: np.ndarray | None = None) -> np.ndarray:
        """The number of each key, written to `bins` if given; if unknown, the number of keys."""
        from rkhs.compute import _bin_loops

        bins = np.empty(len(keys), np.uint32) if bins is None else bins
        _bin_loops.look_up(keys, self._table, self._shift, self.keys, bins)
        return bins
