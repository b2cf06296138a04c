"""Kernel matrices K(rows, centres), and the same in orthonormal coordinates."""

from copy import copy

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.lapack import dsygst

from rkhs.compute import blas_for, slices
from rkhs.kernels._base import middle
from rkhs.operators._base import Operator, moved

_BLOCK = 1024
_TOLERATED_ROUNDING = 2e-6


class KernelOperator(Operator):
    """The kernel matrix between a row source and centres.

    Parameters
    ----------
    kernel : Kernel
        With numeric length scales.
    source : RowSource
        One row of the matrix each.
    centers : RowSource
        One column of the matrix each; kept in memory, in units of the length scale.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import RowSource
    >>> from rkhs.kernels import Gaussian
    >>> from rkhs.operators import KernelOperator
    >>> rows = RowSource(np.array([[0.0], [1.0]]))
    >>> KernelOperator(Gaussian(), rows, rows, np.float64).matmat(np.ones((2, 1))).round(3)
    array([[1.607],
           [1.607]])
    """

    def __init__(self, kernel, source, centers, dtype, keep_bytes=0, n_jobs=None):
        super().__init__((len(source), len(centers)), dtype, keep_bytes, n_jobs)
        self._kernel = kernel
        self._source = source
        self.entry_work = source.shape[1]
        chunks = [centers[columns] for columns in slices(len(centers), _BLOCK)]
        self._shift = middle(centers)
        self._centers = [kernel.embed(chunk, self._shift, self.dtype) for chunk in chunks]
        self._widths = [len(chunk) for chunk in chunks]

    _moment_dtype = np.float64

    def product_dtype(self, factor):
        # Coefficients of kernel functions are large and cancel: solvers, which hold them in
        # float64, get products in float64 of tiles in float32.
        return np.result_type(self.dtype, factor.dtype)

    def compute(self, rows, buffer=None):
        buffer = buffer or self.fresh
        block = self._source[rows]
        left = self._kernel.embed(block, self._shift, self.dtype)
        for index, (right, width) in enumerate(zip(self._centers, self._widths, strict=True)):
            tile = buffer(index, (len(block), width))
            self._kernel.tile(left, right, tile)
            yield tile


def gram_factor(kernel, centers: np.ndarray, dtype) -> np.ndarray:
    """The Cholesky factor L of K(centres, centres), with as little added as it takes.

    In float64: it is applied to vectors that tiles of `dtype` are then multiplied with.
    """
    centers = centers.astype(np.float64, copy=False)
    diagonal = kernel.diag(centers)
    # Tiles come in `dtype`: directions below its rounding must not be blown up.
    jitter = float(np.finfo(dtype).eps)
    while True:
        gram = kernel(centers)
        np.fill_diagonal(gram, diagonal * (1.0 + jitter))
        try:
            with blas_for(len(gram)):
                # Transposed, the matrix is the same and in LAPACK's order: no copy.
                return cholesky(gram.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            jitter *= 10.0
            if jitter > 1e-2:
                raise ValueError(
                    f"The kernel matrix of the centres is not positive definite: {kernel!r} "
                    "is not a valid kernel on these rows."
                ) from None


class WhitenedOperator(Operator):
    """Z = K(rows, centres) L^-T with K(centres, centres) = L L^T: Nyström features.

    The kernel tiles are all that is computed and kept; L is applied to the few columns of
    the other factor.
    """

    def __init__(self, kernel_operator: KernelOperator, factor: np.ndarray):
        # No tiles of its own: every product is one of the kernel operator.
        super().__init__(kernel_operator.shape, kernel_operator.dtype, 0, kernel_operator.n_jobs)
        self._inner = kernel_operator
        self._factor = factor
        self.entry_work = kernel_operator.entry_work
        # The factor's inverse multiplies rounding errors by up to this; if they stay small
        # all the same, products in the precision of the tiles will do, at twice the speed.
        growth = np.sqrt(np.square(factor).sum(axis=1).max()) / np.abs(np.diagonal(factor)).min()
        exact_enough = growth * np.finfo(self.dtype).eps <= _TOLERATED_ROUNDING
        self._product_dtype = self.dtype if exact_enough else np.dtype(np.float64)

    @property
    def precise(self):
        out = copy(self)
        out._product_dtype = np.dtype(np.float64)
        return out

    @property
    def working_bytes(self):
        return self._inner.working_bytes

    @property
    def factor(self) -> np.ndarray:
        """The lower triangular L."""
        return self._factor

    def _solve(self, V, transposed):
        V = np.asarray(V, np.float64)
        return solve_triangular(
            self._factor, V, lower=True, trans=int(transposed), check_finite=False
        )

    def compute(self, rows, buffer=None):
        yield self._whiten(np.hstack(list(self._inner.compute(rows))))

    def take(self, index):
        return self._whiten(self._inner.take(index))

    def _whiten(self, block):
        return np.ascontiguousarray(self._solve(block.T, False).T, self.dtype)

    def _narrow(self, V):
        return np.asarray(V, self._product_dtype)

    def matmat(self, W):
        return self._inner.matmat(self._narrow(self._solve(W, True)))

    def rmatmat(self, V, out=None):
        return moved(self._solve(self._inner.rmatmat(self._narrow(V)), False), out)

    def second_moment(self, index, share):
        # Two-sided, the factor meets a matrix of centres instead of all the rows.
        moment = self._inner.second_moment(index, share)
        with blas_for(len(moment)):
            return dsygst(moment.T, self._factor, lower=1, overwrite_a=1)[0]

    def gram(self, W, middle, out=None, beside=None):
        inner = self._inner.gram(self._narrow(self._solve(W, True)), middle, None, beside)
        return moved(self._solve(inner, False), out)

    def gram_rows(self, index, W, middle):
        inner = self._inner.gram_rows(index, self._narrow(self._solve(W, True)), middle)
        return self._solve(inner, False)
