"""Sums, products and multiples of kernels."""

import numpy as np

from rkhs.kernels._base import Kernel


class _Pair(Kernel):
    """Two kernels on the same rows."""

    def __init__(self, left, right):
        self.left = left
        self.right = right

    def embed(self, X, shift, dtype):
        return self.left.embed(X, shift, dtype), self.right.embed(X, shift, dtype)

    def _both(self, left, right, out):
        """The tiles of both kernels, the first of them in `out`."""
        self.left.tile(left[0], right[0], out)
        other = np.empty_like(out)
        self.right.tile(left[1], right[1], other)
        return other

    def resolve(self, X, weight=None, categorical=None):
        parts = (part.resolve(X, weight, categorical) for part in (self.left, self.right))
        return type(self)(*parts)

    def needs_rotation_invariance(self):
        return self.left.needs_rotation_invariance() or self.right.needs_rotation_invariance()


class Sum(_Pair):
    """The sum of two kernels; ``k1 + k2`` builds it.

    Examples
    --------
    >>> from rkhs.kernels import Gaussian
    >>> (Gaussian() + 0.5 * Gaussian(10.0))([[0.0]])
    array([[1.5]])
    """

    def tile(self, left, right, out):
        out += self._both(left, right, out)

    def diag(self, X):
        return self.left.diag(X) + self.right.diag(X)

    def frequencies(self, draw, n_columns):
        # A mixture: each frequency comes from a part with probability its share of k(x, x).
        row = np.zeros((1, n_columns))
        left, right = self.left.diag(row)[0], self.right.diag(row)[0]
        choice = draw.uniform(1) < left / (left + right)
        parts = (kernel.frequencies(draw, n_columns) for kernel in (self.left, self.right))
        return np.where(choice, *parts)

    def widths(self, draw, n_columns):
        row = np.zeros((1, n_columns))
        left, right = self.left.diag(row)[0], self.right.diag(row)[0]
        choice = draw.uniform(1) < left / (left + right)
        return np.where(
            choice, self.left.widths(draw, n_columns), self.right.widths(draw, n_columns)
        )


class Product(_Pair):
    """The product of two kernels; ``k1 * k2`` builds it.

    Examples
    --------
    >>> from rkhs.kernels import Gaussian
    >>> (Gaussian() * Gaussian())([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    def tile(self, left, right, out):
        out *= self._both(left, right, out)

    def diag(self, X):
        return self.left.diag(X) * self.right.diag(X)

    def frequencies(self, draw, n_columns):
        # The law of a product is the convolution: frequencies add.
        return self.left.frequencies(draw, n_columns) + self.right.frequencies(draw, n_columns)


class Scaled(Kernel):
    """A kernel times a positive number; ``0.3 * k`` builds it.

    Examples
    --------
    >>> from rkhs.kernels import Gaussian
    >>> (3 * Gaussian()).diag([[0.0], [1.0]])
    array([3., 3.])
    """

    def __init__(self, kernel, factor=1.0):
        self.kernel = kernel
        self.factor = factor

    def embed(self, X, shift, dtype):
        if not 0 < self.factor < np.inf:
            raise ValueError(f"A kernel's factor must be positive, got {self.factor!r}.")
        return self.kernel.embed(X, shift, dtype)

    def tile(self, left, right, out):
        self.kernel.tile(left, right, out)
        out *= out.dtype.type(self.factor)

    def diag(self, X):
        return self.factor * self.kernel.diag(X)

    def frequencies(self, draw, n_columns):
        return self.kernel.frequencies(draw, n_columns)

    def widths(self, draw, n_columns):
        return self.kernel.widths(draw, n_columns)

    def resolve(self, X, weight=None, categorical=None):
        return type(self)(self.kernel.resolve(X, weight, categorical), self.factor)

    def needs_rotation_invariance(self):
        return self.kernel.needs_rotation_invariance()
