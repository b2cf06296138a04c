"""What every kernel can do."""

import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from rkhs.compute import run_tiles, slices
from rkhs.compute._draws import Draw
from rkhs.kernels._length_scale import choose_length_scale

_ROWS = 512
# In length scales: squares of larger coordinates would overflow.
_LARGEST_COORDINATE = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e145}
_SAMPLE = 1000


def middle(rows) -> np.ndarray:
    """Column medians of (some of) the rows: a shift by it keeps most squared norms small.

    The mean would not do: one far row could move it away from all others.
    """
    step = -(-len(rows) // _SAMPLE)
    return np.median(np.asarray(rows[::step], dtype=np.float64), axis=0)


class Rows(NamedTuple):
    """A block of rows in units of the length scale, as a kernel's `tile` wants it."""

    values: np.ndarray
    half_squares: np.ndarray


class Kernel(BaseEstimator):
    """A positive definite function of two rows.

    Kernels are values: nothing in the library changes one. They add and multiply
    (``k1 + k2``, ``k1 * k2``, ``0.3 * k``), and ``kernel(X, Y)`` is the exact Gram matrix.
    """

    def embed(self, X: np.ndarray, shift: np.ndarray, dtype) -> Any:
        """Rows prepared for `tile`: shifted, scaled, with what is needed once per row."""
        raise NotImplementedError

    def tile(self, left: Any, right: Any, out: np.ndarray) -> None:
        """Write the exact kernel values of two embedded blocks to `out`."""
        raise NotImplementedError

    def diag(self, X) -> np.ndarray:
        """k(x, x) for each row."""
        raise NotImplementedError

    def frequencies(self, draw: Draw, n_columns: int) -> np.ndarray:
        """Random frequencies of the kernel's spectral law, in turns: (points, columns)."""
        raise ValueError(f"{self!r} has no Fourier features. Use Nystrom features.")

    def widths(self, draw: Draw, n_columns: int) -> np.ndarray:
        """Random bin widths of the kernel's grids, in the data's units: (points, columns)."""
        raise ValueError(
            f"{self!r} has no random binning features: they need a product of convex functions "
            'of the columns. Use kernel="laplacian", or features="nystrom".'
        )

    def needs_rotation_invariance(self) -> str | None:
        """Name of the first part whose spectral law is not rotation invariant, or None."""
        return None

    def resolve(self, X, weight=None, categorical=None) -> "Kernel":
        """The same kernel with each ``length_scale="auto"`` or "median" as a number of X.

        `categorical`, an array of booleans, says which columns of X hold codes of categories.
        """
        raise NotImplementedError

    def __call__(self, X, Y=None) -> np.ndarray:
        X = check_array(X, dtype=[np.float64, np.float32])
        Y = X if Y is None else check_array(Y, dtype=[np.float64, np.float32])
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns and Y has {Y.shape[1]}; they must be the same."
            )
        dtype = np.result_type(X, Y)
        shift = middle(Y)
        right = self.embed(Y, shift, dtype)
        gram = np.empty((len(X), len(Y)), dtype)

        def fill(rows):
            self.tile(self.embed(X[rows], shift, dtype), right, gram[rows])

        run_tiles(fill, slices(len(X), _ROWS))
        return gram

    def __add__(self, other):
        from rkhs.kernels._composite import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other):
        from rkhs.kernels._composite import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, numbers.Real):
            return Scaled(self, float(other))
        return NotImplemented

    __rmul__ = __mul__

    def __repr__(self):  # all parameters, defaults too: errors quote it
        params = ", ".join(f"{k}={v!r}" for k, v in self.get_params(deep=False).items())
        return f"{type(self).__name__}({params})"


class StationaryKernel(Kernel):
    """A function of the scaled difference (x - x') / length_scale, with k(x, x) = 1."""

    norm = "l2"  # the distance that the median trick looks at
    per_column_median = False
    # The kernel is a function of sum_j (|x_j - x'_j| / l_j)^power, if `metric_profile` says so.
    metric_power = 2
    has_grids = False  # whether random binning can represent the kernel

    def __init__(self, length_scale=1.0):
        self.length_scale = length_scale

    def _inverse_scale(self, n_columns: int) -> np.ndarray:
        scale = self.length_scale
        if isinstance(scale, str):
            raise ValueError(
                f"{self!r} has no numeric length scale yet. Call kernel.resolve(X), which "
                "computes it from data, or give a number."
            )
        scale = np.asarray(scale, dtype=np.float64)
        if scale.ndim > 1 or scale.shape not in ((), (1,), (n_columns,)):
            raise ValueError(
                f"length_scale has shape {scale.shape}, but the data has {n_columns} columns. "
                "Give one number, or one per column."
            )
        if not (scale > 0).all():
            raise ValueError(f"length_scale must be positive, got {self.length_scale!r}.")
        return np.broadcast_to(1.0 / scale, (n_columns,))

    def embed(self, X, shift, dtype):
        inverse = self._inverse_scale(X.shape[1])
        used = np.flatnonzero(inverse)
        if 0 < len(used) < len(inverse):  # columns of infinite scale would cost what others do
            X, shift, inverse = np.take(X, used, axis=1), shift[used], inverse[used]
        values = np.subtract(X, shift, dtype=np.float64)
        values *= inverse
        largest = _LARGEST_COORDINATE[np.dtype(dtype)]
        with np.errstate(over="ignore"):  # infinity is clipped like the rest
            values = values.astype(dtype, copy=False)
        np.clip(values, -largest, largest, out=values)
        return Rows(values, 0.5 * np.einsum("ij,ij->i", values, values))

    def diag(self, X):
        return np.ones(len(X))

    def metric_profile(self, metric: np.ndarray, slope: np.ndarray) -> None:
        """Replace the sum that `metric_power` names by the kernel; its derivative to `slope`."""
        raise ValueError(
            f"{self!r} has no gradient by its length scales, so they cannot be learnt. Use "
            'kernel="laplacian", "gaussian", "exponential", "matern" or "rational_quadratic", or '
            'length_scale="auto".'
        )

    def resolve(self, X, weight=None, categorical=None):
        scale = choose_length_scale(
            self.length_scale,
            X,
            weight,
            norm=self.norm,
            per_column=self.per_column_median,
            categorical=categorical,
        )
        return type(self)(**{**self.get_params(deep=False), "length_scale": scale})
