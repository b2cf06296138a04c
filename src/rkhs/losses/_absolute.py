"""Losses that grow linearly with the residual: medians, tubes and quantiles."""

import numpy as np

from rkhs.losses._base import Box, RegressionOnly


class EpsilonInsensitive(RegressionOnly):
    """Support vector regression, ``max(0, |f - t| - epsilon)``.

    Parameters
    ----------
    epsilon : float, default=0.1
        Residuals up to this size cost nothing; in the units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(epsilon=0.5).value(np.array([[2.0]]), np.array([[0.0]]))
    1.5
    """

    def __init__(self, epsilon=0.1):
        self.epsilon = epsilon

    def check(self):
        if not self.epsilon >= 0:
            raise ValueError(f"EpsilonInsensitive needs epsilon >= 0, got {self.epsilon!r}.")

    def elementwise(self, f, t):
        return np.maximum(0.0, np.abs(f - t) - self.epsilon)

    def derivative(self, f, t):
        r = f - t
        return np.where(np.abs(r) > self.epsilon, np.sign(r), np.zeros_like(r))

    def dual(self, t):
        return Box(t, np.full_like(t, -1.0), np.full_like(t, 1.0), float(self.epsilon))


class AbsoluteError(RegressionOnly):
    """Least absolute deviations, ``|f - t|``: the conditional median.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import AbsoluteError
    >>> AbsoluteError().value(np.array([[2.0]]), np.array([[-1.0]]))
    3.0
    """

    def elementwise(self, f, t):
        return np.abs(f - t)

    def derivative(self, f, t):
        return np.sign(f - t)

    def dual(self, t):
        return Box(t, np.full_like(t, -1.0), np.full_like(t, 1.0), 0.0)


class Pinball(RegressionOnly):
    """Quantile loss: ``quantile * (t - f)`` above, ``(1 - quantile) * (f - t)`` below.

    Parameters
    ----------
    quantile : float, default=0.5
        The conditional quantile that minimises the loss, strictly between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import Pinball
    >>> round(Pinball(quantile=0.9).value(np.array([[0.0]]), np.array([[1.0]])), 4)
    0.9
    """

    def __init__(self, quantile=0.5):
        self.quantile = quantile

    def check(self):
        if not 0 < self.quantile < 1:
            raise ValueError(f"Pinball needs 0 < quantile < 1, got {self.quantile!r}.")

    def elementwise(self, f, t):
        r = t - f
        return np.maximum(self.quantile * r, (self.quantile - 1.0) * r)

    def derivative(self, f, t):
        above = np.full_like(f, -self.quantile)
        return np.where(t > f, above, np.where(t < f, above + 1.0, np.zeros_like(f)))

    def dual(self, t):
        return Box(t, np.full_like(t, self.quantile - 1.0), np.full_like(t, self.quantile), 0.0)
