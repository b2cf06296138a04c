"""What every loss can do."""

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator


class Box(NamedTuple):
    """The dual of a kinked loss for weight 1: maximise linear*a - epsilon*|a| in a box."""

    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    epsilon: float


class Loss(BaseEstimator):
    """How wrong a decision value f is for a target t.

    Decision values and targets are arrays of the same shape (rows, outputs). Classes are
    turned into targets by `encode`; losses of several outputs add up.

    Attributes
    ----------
    tasks : tuple of str
        "regression", "classification" or both.
    curvature : float or None
        Lipschitz constant of the derivative; None for a loss with a kink.
    quadratic : bool
        Whether the second derivative is the constant 1.
    """

    tasks: tuple[str, ...] = ("regression",)
    curvature: float | None = None
    quadratic = False
    coupled = False  # whether outputs of one row depend on each other
    has_probability = False

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def elementwise(self, f, t):
        """The loss of each row and output."""
        raise NotImplementedError

    def value(self, f, t, weight=None) -> float:
        """The mean loss over rows (outputs added), rows counted `weight` times."""
        rows = self.elementwise(f, t).sum(axis=1, dtype=np.float64)
        return float(np.average(rows, weights=weight))

    def derivative(self, f, t):
        """d loss / d f, in the shape of f."""
        raise NotImplementedError

    def second_derivative(self, f, t):
        """The (generalised) second derivative of each row and output; smooth losses only."""
        raise NotImplementedError

    def hessian_product(self, f, t, v):
        """The loss's Hessian at f, row by row, times v."""
        return self.second_derivative(f, t) * v

    def dual(self, t) -> Box:
        """The dual problem's box; kinked losses only."""
        raise NotImplementedError

    def encode(self, codes: np.ndarray, n_classes: int) -> np.ndarray:
        """Targets -1 and +1 of class codes: one column for two classes, else one a class."""
        if n_classes == 2:
            return np.where(codes == 1, 1.0, -1.0)[:, None]
        return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)

    def predict(self, f) -> np.ndarray:
        """Class codes of decision values."""
        return (f[:, 0] > 0).astype(np.intp) if f.shape[1] == 1 else f.argmax(axis=1)

    def probability(self, f) -> np.ndarray:
        """Class probabilities of decision values, for losses that determine them."""
        positive = self._positive_probability(f)
        if f.shape[1] == 1:
            return np.hstack([1.0 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1.0 / f.shape[1])

    def _positive_probability(self, f):
        # The minimiser of a squared loss of targets -1, +1 is f = 2p - 1.
        return np.clip(0.5 * (f + 1.0), 0.0, 1.0)


class RegressionOnly(Loss):
    """A loss of the residual f - t."""

    def encode(self, codes, n_classes):
        raise ValueError(f"{self!r} is a loss for regression, not for classes.")
