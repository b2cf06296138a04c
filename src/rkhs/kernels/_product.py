"""Kernels that are products over the columns."""

import numpy as np

from rkhs.compute import exponential, l1_distances, one_plus_square_products
from rkhs.kernels._base import StationaryKernel

_TURN = 2.0 * np.pi


class ProductKernel(StationaryKernel):
    """A product of one function per column: its law has independent columns."""

    per_column_median = True

    def needs_rotation_invariance(self):
        return type(self).__name__

    def frequencies(self, draw, n_columns):
        return self._law(draw, n_columns) * (self._inverse_scale(n_columns) / _TURN)

    def _law(self, draw, n_columns):
        """Angular frequencies for length scale 1."""
        raise NotImplementedError

    def widths(self, draw, n_columns):
        # An infinite length scale gives infinite bins: the column is ignored.
        widths = self._widths(draw, n_columns)
        return (
            widths / self._inverse_scale(n_columns)
            if widths is not None
            else super().widths(draw, n_columns)
        )

    def _widths(self, draw, n_columns):
        """Bin widths for length scale 1, of density delta k''(delta); None if k is not convex."""
        return


class Laplacian(ProductKernel):
    r"""The Laplacian kernel of the L1 distance, :math:`\exp(-\sum_j |x_j - x'_j| / l_j)`.

    The kernel of random binning. `Exponential` is the one of the Euclidean distance.

    Parameters
    ----------
    length_scale : float, array of shape (n_columns,), "auto" or "median", default=1.0

    Examples
    --------
    >>> from rkhs.kernels import Laplacian
    >>> Laplacian()([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    norm = "l1"

    def tile(self, left, right, out):
        l1_distances(left.values, right.values, out)
        np.negative(out, out=out)
        exponential(out)

    def _law(self, draw, n_columns):
        return draw.cauchy(n_columns)

    def _widths(self, draw, n_columns):
        # Gamma of shape 2: the sum of two exponentials.
        return -np.log(draw.uniform(n_columns)) - np.log(draw.uniform(n_columns))


class Cauchy(ProductKernel):
    r"""The Cauchy kernel, :math:`\prod_j 1 / (1 + (x_j - x'_j)^2 / l_j^2)`.

    `RationalQuadratic` with ``exponent=1`` is the rotation-invariant one.

    Parameters
    ----------
    length_scale : float, array of shape (n_columns,), "auto" or "median", default=1.0

    Examples
    --------
    >>> from rkhs.kernels import Cauchy
    >>> Cauchy()([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.25]])
    """

    def tile(self, left, right, out):
        one_plus_square_products(left.values, right.values, out)
        np.reciprocal(out, out=out)

    def _law(self, draw, n_columns):
        return draw.laplace(n_columns)
