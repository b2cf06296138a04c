"""Losses of the margin t * f for two classes coded -1 and +1; one-vs-rest for more."""

import numpy as np
from scipy.special import expit

from rkhs.losses._base import Box, Loss


class LogLoss(Loss):
    """Logistic loss, ``log(1 + exp(-t f))``.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import LogLoss
    >>> round(LogLoss().value(np.array([[0.0]]), np.array([[1.0]])), 4)
    0.6931
    """

    tasks = ("classification",)
    curvature = 0.25
    has_probability = True

    def elementwise(self, f, t):
        margin = t * f
        # Unlike logaddexp, these are vector instructions.
        return np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))

    def derivative(self, f, t):
        with np.errstate(over="ignore"):  # where it is zero
            return -t / (1.0 + np.exp(t * f))

    def second_derivative(self, f, t):
        e = np.exp(-np.abs(f))
        return e / np.square(1.0 + e)

    def _positive_probability(self, f):
        return expit(f)


class Hinge(Loss):
    """The support vector machine's loss, ``max(0, 1 - t f)``.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import Hinge
    >>> Hinge().value(np.array([[0.25]]), np.array([[1.0]]))
    0.75
    """

    tasks = ("classification",)

    def elementwise(self, f, t):
        return np.maximum(0.0, 1.0 - t * f)

    def derivative(self, f, t):
        return np.where(t * f < 1.0, -t, np.zeros_like(t))

    def dual(self, t):
        return Box(t, np.minimum(t, 0.0), np.maximum(t, 0.0), 0.0)


class SquaredHinge(Loss):
    """Half the squared hinge, ``max(0, 1 - t f)^2 / 2``: the smooth SVM.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([[-1.0]]), np.array([[1.0]]))
    2.0
    """

    tasks = ("classification",)
    curvature = 1.0
    has_probability = True

    def elementwise(self, f, t):
        return 0.5 * np.square(np.maximum(0.0, 1.0 - t * f))

    def derivative(self, f, t):
        return -t * np.maximum(0.0, 1.0 - t * f)

    def second_derivative(self, f, t):
        return (t * f < 1.0).astype(f.dtype)
