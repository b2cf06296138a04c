"""Kernels of the Euclidean distance, one length scale for all columns or one for each."""

import numpy as np
from scipy import special

from rkhs.compute import (
    exponential,
    exponential_distances,
    gaussians,
    matern,
    squared_distances,
)
from rkhs.kernels._base import StationaryKernel

_TURN = 2.0 * np.pi
_LARGE_ORDER = 50  # of a Bessel function, from which its asymptotic form is exact enough


class RadialKernel(StationaryKernel):
    """A function of r = ||(x - x') / length_scale||: subclasses give profile and law.

    `_squared_factor` is multiplied into r^2 before `_profile` sees it, for free.
    """

    def _squared_factor(self) -> float:
        return 1.0

    def tile(self, left, right, out):
        (x, half_x), (y, half_y) = left, right
        squared_distances(x, half_x, y, half_y, self._squared_factor(), out, self._is_rough())
        self._profile(out)

    def _is_rough(self) -> bool:
        """Whether the kernel has a kink at r = 0, where rounding of r^2 would show."""
        return False

    def _profile(self, tile: np.ndarray) -> None:
        """Replace ``_squared_factor() * r^2`` by the kernel's value, in place."""
        raise NotImplementedError

    def frequencies(self, draw, n_columns):
        return self._law(draw, n_columns) * (self._inverse_scale(n_columns) / _TURN)

    def _law(self, draw, n_columns):
        """Angular frequencies for length scale 1."""
        raise NotImplementedError


class Gaussian(RadialKernel):
    r"""The Gaussian kernel, :math:`k(x, x') = \exp(-r^2 / 2)`.

    Parameters
    ----------
    length_scale : float, array of shape (n_columns,), "auto" or "median", default=1.0
        The distance at which the kernel has fallen to 0.61. A string is turned into a
        number by `resolve`, which estimators and feature maps call on their data.

    Examples
    --------
    >>> from rkhs.kernels import Gaussian
    >>> Gaussian(length_scale=2.0)([[0.0, 0.0]], [[2.0, 0.0]]).round(4)
    array([[0.6065]])
    """

    def tile(self, left, right, out):
        (x, half_x), (y, half_y) = left, right
        gaussians(x, half_x, y, half_y, out)

    def metric_profile(self, metric, slope):
        metric *= -0.5
        exponential(metric)
        np.multiply(metric, -0.5, out=slope)

    def _law(self, draw, n_columns):
        return draw.normal(n_columns)


class Exponential(RadialKernel):
    r"""The exponential kernel of the Euclidean distance, :math:`k(x, x') = \exp(-r)`.

    EigenPro's "Laplace" kernel. `Laplacian` is the one of the L1 distance.

    Parameters
    ----------
    length_scale : float, array of shape (n_columns,), "auto" or "median", default=1.0
        The distance at which the kernel has fallen to 1/e.

    Examples
    --------
    >>> from rkhs.kernels import Exponential
    >>> Exponential()([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.0067]])
    """

    def tile(self, left, right, out):
        (x, half_x), (y, half_y) = left, right
        exponential_distances(x, half_x, y, half_y, out)

    def metric_profile(self, metric, slope):
        np.sqrt(metric, out=metric)
        # Pairs in one place: the distance by which the slope is multiplied is zero there.
        np.maximum(metric, 1e-6, out=slope)
        np.negative(metric, out=metric)
        exponential(metric)
        np.divide(metric, slope, out=slope)
        slope *= -0.5

    def _law(self, draw, n_columns):
        return draw.student(n_columns, 1.0)


class RationalQuadratic(RadialKernel):
    r"""The rational quadratic kernel, :math:`k(x, x') = (1 + r^2 / (2a))^{-a}`.

    With ``exponent=1`` and ``length_scale=l / sqrt(2)`` it is the rotation-invariant Cauchy
    kernel :math:`1 / (1 + \|x - x'\|^2 / l^2)`.

    Parameters
    ----------
    length_scale : float, array of shape (n_columns,), "auto" or "median", default=1.0
        The distance at which the kernel starts to fall.
    exponent : float, default=1.0
        The exponent a: small for heavy tails; the Gaussian kernel as it grows.

    Examples
    --------
    >>> from rkhs.kernels import RationalQuadratic
    >>> RationalQuadratic(exponent=2.0)([[0.0]], [[2.0]])
    array([[0.25]])
    """

    def __init__(self, length_scale=1.0, exponent=1.0):
        super().__init__(length_scale)
        self.exponent = exponent

    def _squared_factor(self):
        if not self.exponent > 0:
            raise ValueError(f"exponent must be positive, got {self.exponent!r}.")
        return 0.5 / self.exponent

    def _profile(self, tile):
        tile += 1.0
        if self.exponent == 1:
            np.reciprocal(tile, out=tile)
        else:
            np.power(tile, -float(self.exponent), out=tile)

    def metric_profile(self, metric, slope):
        metric *= self._squared_factor()
        metric += 1.0
        np.power(metric, -float(self.exponent) - 1.0, out=slope)
        metric *= slope
        slope *= -0.5

    def _law(self, draw, n_columns):
        normal = draw.normal(n_columns)
        return normal * np.sqrt(draw.gamma(self.exponent) / self.exponent)


class Matern(RadialKernel):
    r"""The Matérn kernel of smoothness :math:`\nu`.

    :math:`k(x, x') = 2^{1-\nu} / \Gamma(\nu)\, s^\nu K_\nu(s)` with :math:`s = \sqrt{2\nu} r`:
    the exponential kernel for 1/2, the Gaussian in the limit.

    Parameters
    ----------
    length_scale : float, array of shape (n_columns,), "auto" or "median", default=1.0
    nu : float, default=1.5
        Smoothness. 0.5, 1.5 and 2.5 have closed forms and are much faster than the rest.

    Examples
    --------
    >>> from rkhs.kernels import Matern
    >>> Matern(nu=2.5)([[0.0]], [[1.0]]).round(4)
    array([[0.524]])
    """

    def __init__(self, length_scale=1.0, nu=1.5):
        super().__init__(length_scale)
        self.nu = nu

    def _squared_factor(self):
        if not 0 < self.nu < np.inf:
            raise ValueError(
                f"nu must be positive and finite, got {self.nu!r}. The limit is Gaussian."
            )
        return 2.0 * self.nu

    def _is_rough(self):
        return self.nu < 1

    def _profile(self, tile):
        if self.nu == 1.5:
            matern(tile)
            return
        s = np.sqrt(tile, out=tile)
        if self.nu not in (0.5, 2.5):
            tile[...] = _bessel_profile(s, float(self.nu))
            return
        decay = -s
        exponential(decay)
        if self.nu == 0.5:
            tile[...] = decay
        else:
            s *= 1.0 + s / 3.0
            s += 1.0
            s *= decay

    def metric_profile(self, metric, slope):
        if self.nu == 0.5:
            Exponential().metric_profile(metric, slope)
            return
        if not self.nu > 1:
            super().metric_profile(metric, slope)
        metric *= self._squared_factor()
        slope[...] = metric
        self._profile(metric)
        # d/ds of s^nu K_nu(s) is -s^nu K_{nu-1}(s).
        Matern(nu=self.nu - 1.0)._profile(slope)
        slope *= -0.5 * self.nu / (self.nu - 1.0)

    def _law(self, draw, n_columns):
        return draw.student(n_columns, 2.0 * self.nu)


def _bessel_profile(s, nu):
    # Through logarithms: s^nu overflows and K_nu underflows long before their product.
    inside = np.clip(s.astype(np.float64), 1e-300, 1e6)
    log_value = (1.0 - nu) * np.log(2.0) - special.gammaln(nu) + nu * np.log(inside)
    if nu < _LARGE_ORDER:
        log_value += np.log(special.kve(nu, inside)) - inside
    else:
        log_value += _log_bessel_of_large_order(nu, inside)
    # Not finite where K_nu overflows close to zero, where the kernel is 1.
    value = np.exp(np.minimum(log_value, 0.0))
    return np.where(np.isfinite(log_value), value, (s < 1.0).astype(np.float64))


def _log_bessel_of_large_order(nu, s):
    """log K_nu(s) by Debye's expansion, whose error falls like nu^-3."""
    z = s / nu
    root = np.sqrt(1.0 + z * z)
    t = 1.0 / root
    eta = root + np.log(z / (1.0 + root))
    first = (3 * t - 5 * t**3) / 24
    second = (81 * t**2 - 462 * t**4 + 385 * t**6) / 1152
    correction = np.log1p(-first / nu + second / nu**2)
    return 0.5 * np.log(np.pi / (2 * nu)) - nu * eta - 0.5 * np.log(root) + correction
