"""Matrices side by side, some of them too long to be held dense."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from rkhs.operators._base import Operator


class ConcatenatedOperator(Operator):
    """The columns of several operators, one after the other.

    Parameters
    ----------
    parts : sequence of Operator
        With the same rows and precision.
    n_jobs : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.operators import ConcatenatedOperator, DenseOperator
    >>> left, right = np.eye(2, dtype=np.float32), np.ones((2, 1), np.float32)
    >>> both = ConcatenatedOperator([DenseOperator(left), DenseOperator(right)])
    >>> both.matmat(np.ones((3, 1)))
    array([[2.],
           [2.]], dtype=float32)
    """

    def __init__(self, parts: Sequence[Operator], n_jobs=None):
        widths = [part.shape[1] for part in parts]
        super().__init__((parts[0].shape[0], sum(widths)), parts[0].dtype, 0, n_jobs)
        self.parts = tuple(parts)
        self.is_sparse = any(part.is_sparse for part in parts)
        ends = np.cumsum(widths).tolist()
        self.columns = tuple(
            slice(end - width, end) for end, width in zip(ends, widths, strict=True)
        )

    @property
    def prefers_rows(self):
        return any(part.prefers_rows for part in self.parts) and self.precise is not None

    @property
    def precise(self):
        parts = [exact for part in self.parts if (exact := part.precise) is not None]
        return ConcatenatedOperator(parts, self.n_jobs) if len(parts) == len(self.parts) else None

    @property
    def keeps_all(self):
        return all(part.keeps_all for part in self.parts)

    @property
    def working_bytes(self):
        # One part after the other, but each keeps its buffers.
        return sum(part.working_bytes for part in self.parts)

    def matmat(self, W):
        total = np.zeros((self.shape[0], W.shape[1]), self.dtype)
        for part, columns in zip(self.parts, self.columns, strict=True):
            total += part.matmat(W[columns])
        return total

    def rmatmat(self, V, out=None):
        out = np.empty((self.shape[1], V.shape[1])) if out is None else out
        for part, columns in zip(self.parts, self.columns, strict=True):
            part.rmatmat(V, out[columns])
        return out

    def gram(self, W, middle, out=None, beside=None):
        # The first part is read once: its tiles wait for the other parts' products only.
        first, *others = zip(self.parts, self.columns, strict=True)
        inner = np.zeros((self.shape[0], W.shape[1]), self.dtype) if beside is None else beside
        for part, columns in others:
            inner += part.matmat(W[columns])
        out = np.empty(W.shape) if out is None else out
        first[0].gram(W[first[1]], middle, out[first[1]], inner)
        for part, columns in others:
            part.rmatmat(inner, out[columns])
        return out

    def outer(self, V):
        return sum(part.outer(V) for part in self.parts)

    def take(self, index):
        """The given rows: a CSR matrix if any part is sparse."""
        rows = [part.take(index) for part in self.parts]
        return sparse.hstack(rows, "csr") if self.is_sparse else np.hstack(rows)
