"""What every feature map can do."""

import numbers

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rkhs.compute import run_tiles, slices, uniform
from rkhs.data import RowSource, learn_categories, refuse_text
from rkhs.expansion import FeatureExpansion
from rkhs.kernels import KERNELS, Gaussian, Kernel
from rkhs.kernels._length_scale import SAMPLE
from rkhs.operators import Operator, StreamedOperator
from rkhs.registry import build

_SAMPLE_STREAM = 1001
_ROWS = 512


def new_seed(random_state) -> int:
    """A seed for counter-based bits from scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def sample_rows(source: RowSource, weight, seed: int, size: int = SAMPLE):
    """At most `size` rows and their weights, rows drawn as if repeated `weight` times.

    Few rows are all taken. Of many, every (1/size)-th of the total weight gives one.
    """
    if len(source) <= size:
        return source[slice(None)], weight
    cumulative = np.cumsum(weight)
    offset = uniform(seed, _SAMPLE_STREAM, 0, (size,))
    index = np.searchsorted(cumulative, (np.arange(size) + offset) / size * cumulative[-1])
    return source[np.minimum(index, len(source) - 1)], np.ones(size)


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features z(x) with z(x).z(x') = k(x, x'), in expectation or on a subspace.

    Subclasses implement `_fit_rows` (what is learnt from data), `write` and `n_outputs`.

    Attributes
    ----------
    kernel_ : Kernel
        With numeric length scales.
    seed_ : int
        All randomness of the map.
    """

    size_parameter = ""
    is_sparse = False
    by_columns = True  # whether a solver may take its features one by one
    regenerates = False  # whether a block of features comes back from its number alone
    grows = False  # whether a fitted map can go on with new rows
    takes_categories = False
    default_kernel: type[Kernel] = Gaussian

    def fit(self, X, y=None, sample_weight=None):
        """Choose length scales, seed and (if there are any) centres.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, columns)
        y : ignored
        sample_weight : array of shape (rows,), optional
            A row of weight w counts like w copies of it.
        """
        categories = None
        if self.takes_categories:
            X, categories = learn_categories(X)
        else:
            refuse_text(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.sum() > 0:
            raise ValueError("All sample weights are zero: no row counts. Give positive weights.")
        used = np.flatnonzero(weight > 0)  # a row of weight zero is no row
        rows = None if len(used) == len(weight) else used
        return self.fit_rows(RowSource(X, rows, categories), weight[used], X.dtype)

    def fit_rows(
        self,
        source: RowSource,
        weight,
        dtype,
        kernel: Kernel | None = None,
        n_jobs=None,
        memory: int | None = None,
    ):
        """`fit` on a row source; `kernel` is used if the map has none of its own.

        `memory` is how many bytes the map may keep of the rows; None is no limit.
        """
        size = getattr(self, self.size_parameter)
        if not isinstance(size, numbers.Integral) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{self.size_parameter} must be a positive integer, got {size!r}.")
        self.seed_ = new_seed(self.random_state)
        if self.kernel is not None:
            kernel = build(self.kernel, KERNELS, Kernel, "kernel", length_scale="auto")
        kernel = self.default_kernel("auto") if kernel is None else kernel
        rows, row_weight = sample_rows(source, weight, self.seed_)
        self.kernel_ = kernel.resolve(rows, row_weight, source.categorical)
        self.n_features_in_ = source.shape[1]
        self._fit_rows(source, weight, dtype, n_jobs)
        self._take_rows(source, n_jobs, memory)
        return self

    def _fit_rows(self, source, weight, dtype, n_jobs) -> None:
        raise NotImplementedError

    def _take_rows(self, source, n_jobs, memory) -> None:
        """Prepare for products with these rows; nothing by default."""

    def continues(self, last: "FeatureMap | None") -> bool:
        """Whether a warm start may go on from that fitted map: all but the seed is the same."""
        return type(self) is type(last) and repr(_plain(self)) == repr(_plain(last))

    def covers(self, rows: np.ndarray) -> bool:
        """Whether the fitted map serves rows such as these, which it was not fitted to."""
        return True

    def resume(self, last: "FeatureMap", coef, source, n_jobs=None, memory=None):
        """The map and the coefficients to go on with, on new rows, from those of a last fit."""
        return last, coef

    @property
    def n_outputs(self) -> int:
        """Number of features."""
        raise NotImplementedError

    @property
    def _n_features_out(self):
        check_is_fitted(self)
        return self.n_outputs

    @property
    def nbytes(self) -> int:
        """Bytes of what predicting needs of the map, beside its law and seed."""
        return 0

    def fit_bytes(self) -> int:
        """Memory that fitting and holding the map takes."""
        return 0

    def write(self, X: np.ndarray, out: np.ndarray) -> None:
        """Write the features of dense rows to `out`, of shape (rows, n_outputs)."""
        raise NotImplementedError

    def operator(self, source: RowSource, dtype=np.float32, keep_bytes=0, n_jobs=None) -> Operator:
        """The features of a row source as something to multiply with."""
        return StreamedOperator(self, source, dtype, keep_bytes, n_jobs)

    def evaluate(self, source: RowSource, coef: np.ndarray, n_jobs=None) -> np.ndarray:
        """The function with these coefficients on each row of the source."""
        return self.operator(source, coef.dtype, n_jobs=n_jobs).matmat(coef)

    def expansion(self, coef: np.ndarray):
        """The function with these coefficients."""
        return FeatureExpansion(self, coef)

    def transform(self, X):
        """The features of X: an array of shape (rows, features), float32 if X is."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        source = RowSource(X)
        out = np.empty((len(source), self.n_outputs), X.dtype)

        def fill(rows):
            self.write(source[rows], out[rows])

        run_tiles(fill, slices(len(source), _ROWS))
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _plain(feature_map):
    """The map's parameters without its seed, which a new fit draws anew."""
    params = feature_map.get_params()
    params.pop("random_state")
    return params
