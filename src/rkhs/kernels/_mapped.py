"""A kernel of rows under a linear map."""

import numpy as np

from rkhs.kernels._base import Kernel


class Mapped(Kernel):
    r"""A kernel of rows under a linear map, :math:`k(M x, M x')`.

    A kernel of the Euclidean distance becomes one of the Mahalanobis distance
    :math:`\sqrt{(x - x')^T M^T M (x - x')}`: length scales along any directions, not along the
    columns alone. Random frequencies are those of k times M. ``metric="full"`` of an
    estimator learns such a map.

    Parameters
    ----------
    kernel : Kernel
        Of the mapped rows.
    matrix : array of shape (directions, columns)
        The map M, a direction in each row.

    Examples
    --------
    >>> from rkhs.kernels import Gaussian, Mapped
    >>> along_the_sum = Mapped(Gaussian(), [[1.0, 1.0]])
    >>> along_the_sum([[0.0, 0.0]], [[2.0, -2.0], [1.0, 0.0]]).round(4)
    array([[1.    , 0.6065]])
    """

    def __init__(self, kernel, matrix):
        self.kernel = kernel
        self.matrix = matrix

    def _matrix(self, n_columns: int) -> np.ndarray:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != n_columns or not len(matrix):
            raise ValueError(
                f"matrix has shape {matrix.shape}, but the data has {n_columns} columns. Give a "
                "direction in each row, with a number for each column."
            )
        if not np.isfinite(matrix).all():
            raise ValueError(
                "matrix has entries that are not finite. Use zeros for columns that do not count."
            )
        return matrix

    def _map(self, X) -> np.ndarray:
        X = np.asarray(X, dtype=np.float64)
        return X @ self._matrix(X.shape[1]).T

    def embed(self, X, shift, dtype):
        rows = self._map(np.subtract(X, shift, dtype=np.float64))
        return self.kernel.embed(rows, np.zeros(rows.shape[1]), dtype)

    def tile(self, left, right, out):
        self.kernel.tile(left, right, out)

    def diag(self, X):
        return self.kernel.diag(self._map(X))

    def frequencies(self, draw, n_columns):
        # w.(M x) = (M^T w).x
        matrix = self._matrix(n_columns)
        return self.kernel.frequencies(draw, len(matrix)) @ matrix

    def needs_rotation_invariance(self):
        return self.kernel.needs_rotation_invariance()

    def resolve(self, X, weight=None, categorical=None):
        return type(self)(self.kernel.resolve(self._map(X), weight), self.matrix)

    @property
    def length_scale(self) -> np.ndarray:
        """Of each column: how far rows that differ in it alone are one length scale apart."""
        directions = np.asarray(self.matrix) / np.reshape(self.kernel.length_scale, (-1, 1))
        with np.errstate(divide="ignore"):  # a column that does not count
            return 1.0 / np.linalg.norm(directions, axis=0)

    def __repr__(self):
        return f"Mapped({self.kernel!r}, matrix of shape {np.shape(self.matrix)})"
