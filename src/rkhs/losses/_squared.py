"""Squared error, and its robust form."""

import numpy as np

from rkhs.losses._base import Loss, RegressionOnly
from rkhs.losses._softmax import softmax


class SquaredError(Loss):
    """Half the squared error, ``(f - t)^2 / 2``: kernel ridge regression.

    For classes the targets are -1 and +1, and probabilities are ``(f + 1) / 2``, clipped, or, with
    `sharpness`, the softmax of so many times f: the larger, the surer.

    Parameters
    ----------
    sharpness : float, optional
        For three or more classes, such as is learnt from rows that were not fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import SquaredError
    >>> SquaredError().value(np.array([[3.0]]), np.array([[1.0]]))
    2.0
    """

    tasks = ("regression", "classification")
    curvature = 1.0
    quadratic = True
    has_probability = True

    def __init__(self, sharpness=None):
        self.sharpness = sharpness

    def check(self):
        if self.sharpness is not None and not self.sharpness > 0:
            raise ValueError(f"SquaredError needs sharpness > 0 or None, got {self.sharpness!r}.")

    def elementwise(self, f, t):
        return 0.5 * np.square(f - t)

    def derivative(self, f, t):
        return f - t

    def second_derivative(self, f, t):
        return np.ones_like(f)

    def probability(self, f):
        if self.sharpness is None or f.shape[1] == 1:
            return super().probability(f)
        return softmax(self.sharpness * f)


class Huber(RegressionOnly):
    """Squared for residuals up to `delta`, linear beyond: outliers pull with bounded force.

    Parameters
    ----------
    delta : float, default=1.0
        Where the loss turns linear, in the units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import Huber
    >>> Huber(delta=1.0).value(np.array([[3.0]]), np.array([[0.0]]))
    2.5
    """

    curvature = 1.0

    def __init__(self, delta=1.0):
        self.delta = delta

    def check(self):
        if not self.delta > 0:
            raise ValueError(f"Huber needs delta > 0, got {self.delta!r}.")

    def elementwise(self, f, t):
        size = np.abs(f - t)
        inside = np.minimum(size, self.delta)
        return inside * (size - 0.5 * inside)

    def derivative(self, f, t):
        return np.clip(f - t, -self.delta, self.delta)

    def second_derivative(self, f, t):
        return (np.abs(f - t) <= self.delta).astype(f.dtype)
