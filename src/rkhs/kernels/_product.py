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
        widths = self._widths(draw, n_columns)
        if widths is None:
            return super().widths(draw, n_columns)
        # An infinite length scale gives infinite bins: the column is ignored.
        inverse = self._inverse_scale(n_columns)
        return np.divide(widths, inverse, out=np.full_like(widths, np.inf), where=inverse > 0)

    def _widths(self, draw, n_columns):
        """Bin widths for length scale 1, of density delta k''(delta); None without a profile."""
        if self.profile(np.ones(1)) is None:
            return None
        return widths_of_profile(draw.uniform(n_columns), self.profile)

    def profile(self, delta):
        """k and its derivative at distances of one column, if k is convex; else None."""
        return None  # noqa: RET501


def widths_of_profile(u, profile):
    """Where the distribution of bin widths reaches `u`.

    Its density is delta k''(delta), so it is 1 - k(delta) + delta k'(delta), by parts.
    """
    low, high = np.full(u.shape, -40.0), np.full(u.shape, 60.0)  # logarithms
    for _ in range(60):
        half = 0.5 * (low + high)
        delta = np.exp(half)
        value, slope = profile(delta)
        below = 1.0 - value + delta * slope < u
        low, high = np.where(below, half, low), np.where(below, high, half)
    return np.exp(high)


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
    metric_power = 1
    has_grids = True

    def metric_profile(self, metric, slope):
        np.negative(metric, out=metric)
        exponential(metric)
        np.negative(metric, out=slope)

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
