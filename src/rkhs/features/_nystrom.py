"""Nyström features."""

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import clone
from sklearn.utils import check_array

from rkhs.compute import uniform
from rkhs.data import RowSource
from rkhs.expansion import KernelExpansion
from rkhs.features._base import FeatureMap
from rkhs.features._centers import SAMPLINGS, distinct_rows
from rkhs.operators import KernelOperator, WhitenedOperator, gram_factor

_CENTER_STREAM = 1005
_TOLERATED_ROUNDING = 1e-4  # relative to the norm of the function


class Nystrom(FeatureMap):
    r"""Features of the subspace spanned by kernel functions of some centres.

    :math:`z(x) = L^{-1} k(C, x)` with :math:`k(C, C) = L L^T`: inner products of features
    are those of the kernel's projection on the span of the centres. [williams2001]_

    Parameters
    ----------
    n_centers : int, default=100
        Number of centres, at most the number of different rows.
    kernel : str or Kernel, optional
        By default the estimator's, or `Gaussian` with ``length_scale="auto"`` alone.
    sampling : {"uniform", "kmeans++", "leverage"}, default="uniform"
        Which rows become centres: any; far from each other in the kernel's own distance;
        or by approximate ridge leverage scores [rudi2018]_.
    random_state : int, RandomState or None
    centers : array of shape (centres, columns), optional
        The centres themselves, which need not be rows of the table: nothing is drawn then, and
        `n_centers` does not count.

    Attributes
    ----------
    kernel_ : Kernel
        With numeric length scales.
    centers_ : array of shape (n_outputs, n_columns)
    factor_ : array of shape (n_outputs, n_outputs)
        The lower triangular L.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.features import Nystrom
    >>> from rkhs.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Z = Nystrom(3, kernel=Gaussian(), random_state=0).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, Gaussian()(X)))
    True
    """

    size_parameter = "n_centers"

    def __init__(
        self, n_centers=100, kernel=None, sampling="uniform", random_state=None, centers=None
    ):
        self.n_centers = n_centers
        self.kernel = kernel
        self.sampling = sampling
        self.random_state = random_state
        self.centers = centers

    def _fit_rows(self, source, weight, dtype, n_jobs):
        if self.sampling not in SAMPLINGS:
            names = ", ".join(map(repr, SAMPLINGS))
            raise ValueError(f"sampling must be one of {names}; got {self.sampling!r}.")
        if self.centers is not None:
            centers = self._given_centers(source.shape[1])
        else:
            centers = source.floats(self._drawn_rows(source, weight, n_jobs))
        self.centers_ = distinct_rows(centers)
        self.factor_ = gram_factor(self.kernel_, self.centers_, np.dtype(dtype))

    def _drawn_rows(self, source, weight, n_jobs):
        possible = np.flatnonzero(weight > 0)
        if len(possible) > self.n_centers:
            keys = uniform(self.seed_, _CENTER_STREAM, 0, (len(source),))
            possible = SAMPLINGS[self.sampling](
                self.kernel_, source, weight, self.n_centers, keys, n_jobs
            )
        return np.sort(possible)

    def _given_centers(self, n_columns):
        centers = check_array(self.centers, input_name="centers")
        if centers.shape[1] != n_columns:
            raise ValueError(
                f"centers must have the table's {n_columns} columns, got {centers.shape[1]}."
            )
        return RowSource(centers).floats(slice(None))

    def continues(self, last):
        centers, other = self.centers, getattr(last, "centers", None)
        if centers is None or other is None:
            return super().continues(last)
        same = np.shape(centers) == np.shape(other) and np.array_equal(centers, other)
        return same and clone(self).set_params(centers=None).continues(
            clone(last).set_params(centers=None)
        )

    def fit_bytes(self):
        return 8 * (self.n_centers if self.centers is None else np.shape(self.centers)[0]) ** 2

    @property
    def n_outputs(self):
        return len(self.centers_)

    def _kernel_operator(self, source, dtype, keep_bytes=0, n_jobs=None):
        return KernelOperator(
            self.kernel_, source, RowSource(self.centers_), dtype, keep_bytes, n_jobs
        )

    def write(self, X, out):
        (out[...],) = self.operator(RowSource(X), out.dtype).compute(slice(None))

    def operator(self, source, dtype=np.float32, keep_bytes=0, n_jobs=None):
        return WhitenedOperator(
            self._kernel_operator(source, dtype, keep_bytes, n_jobs), self.factor_
        )

    def expansion(self, coef):
        """In terms of the centres, so that predicting needs no factor."""
        weights = solve_triangular(
            self.factor_, coef.astype(np.float64), lower=True, trans=1, check_finite=False
        )
        # Large coefficients that cancel keep their float64: a product in float32 would
        # lose them in rounding.
        lost = np.finfo(np.float32).eps * np.abs(weights).sum(axis=0)
        if np.all(lost <= _TOLERATED_ROUNDING * np.linalg.norm(coef, axis=0)):
            weights = weights.astype(coef.dtype)
        return KernelExpansion(self.kernel_, self.centers_, weights, coef.dtype.name)
