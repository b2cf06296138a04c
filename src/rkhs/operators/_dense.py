"""A matrix that is in memory already."""

import numpy as np

from rkhs.operators._base import Operator


class DenseOperator(Operator):
    """An array as an operator.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.operators import DenseOperator
    >>> DenseOperator(np.eye(2)).matmat(np.array([[1.0], [2.0]]))
    array([[1.],
           [2.]])
    """

    def __init__(self, array, n_jobs=None):
        super().__init__(array.shape, array.dtype, n_jobs=n_jobs)
        self._array = array

    def compute(self, rows, buffer=None):
        yield self._array[rows]

    def take(self, index):
        return self._array[np.asarray(index)]
