"""Cross-entropy of several classes at once."""

import numpy as np
from scipy.special import logsumexp, softmax

from rkhs.losses._base import Loss


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
        return t * (logsumexp(f, axis=1, keepdims=True) - f)

    def derivative(self, f, t):
        return softmax(f, axis=1) - t

    def second_derivative(self, f, t):
        p = softmax(f, axis=1)
        return p * (1.0 - p)

    def hessian_product(self, f, t, v):
        p = softmax(f, axis=1)
        return p * (v - (p * v).sum(axis=1, keepdims=True))

    def probability(self, f):
        return softmax(f, axis=1)
