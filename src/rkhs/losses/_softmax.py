"""Cross-entropy of several classes at once."""

import numpy as np

from rkhs.losses._base import Loss


def softmax(f):
    """Exponentials of each row as shares of their sum."""
    # SciPy's own costs a millisecond a call before it computes anything.
    e = np.exp(f - f.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e


class Softmax(Loss):
    """Multinomial logistic loss, ``-f_y + log sum_c exp(f_c)``; targets are one-hot rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.losses import Softmax
    >>> round(Softmax().value(np.zeros((1, 4)), np.array([[0.0, 1.0, 0.0, 0.0]])), 4)
    1.3863
    """

    tasks = ("classification",)
    curvature = 0.5
    coupled = True
    has_probability = True

    def encode(self, codes, n_classes):
        return (codes[:, None] == np.arange(n_classes)).astype(np.float64)

    def elementwise(self, f, t):
        shifted = f - f.max(axis=1, keepdims=True)
        return t * (np.log(np.exp(shifted).sum(axis=1, keepdims=True)) - shifted)

    def derivative(self, f, t):
        return softmax(f) - t

    def second_derivative(self, f, t):
        p = softmax(f)
        return p * (1.0 - p)

    def hessian_product(self, f, t, v):
        p = softmax(f)
        return p * (v - (p * v).sum(axis=1, keepdims=True))

    def probability(self, f):
        return softmax(f)
