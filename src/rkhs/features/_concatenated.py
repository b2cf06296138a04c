"""Features of several maps, side by side."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs.compute import slices, uniform
from rkhs.data import RowSource
from rkhs.expansion import SumExpansion
from rkhs.features._base import FeatureMap, new_seed
from rkhs.features._binning import RandomBinning
from rkhs.features._fourier import RandomFourier
from rkhs.kernels import KERNELS, Kernel
from rkhs.operators import ConcatenatedOperator
from rkhs.registry import build

_SEED_STREAM = 1007
_ROWS = 4096


class Concatenated(FeatureMap):
    r"""Features of several maps side by side: those of the sum of their kernels.

    Each representation does what it is good at. `Nystrom` features of long length scales and
    `RandomBinning` ones of short scales, say, are a smooth function and its details; a kernel
    times a number, ``0.1 * Laplacian(0.5)``, gives a part more or less weight.

    Parameters
    ----------
    maps : sequence of FeatureMap, optional
        `RandomFourier` and `RandomBinning` by default.
    kernel : str or Kernel, optional
        Of the maps that have none of their own.
    random_state : int, RandomState or None
        Of the maps that have none of their own.

    Attributes
    ----------
    kernel_ : Kernel
        The sum of the maps' kernels.
    maps_ : list of FeatureMap
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.features import Concatenated, Nystrom, RandomFourier
    >>> from rkhs.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> maps = [Nystrom(3, kernel=Gaussian()), Nystrom(3, kernel=0.5 * Gaussian(10.0))]
    >>> Z = Concatenated(maps, random_state=0).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, Gaussian()(X) + 0.5 * Gaussian(10.0)(X)))
    True
    """

    by_columns = False

    def __init__(self, maps: Sequence[FeatureMap] | None = None, kernel=None, random_state=None):
        self.maps = maps
        self.kernel = kernel
        self.random_state = random_state

    @property
    def _maps(self) -> Sequence[FeatureMap]:
        return (RandomFourier(), RandomBinning()) if self.maps is None else self.maps

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return any(getattr(part, "is_sparse", False) for part in self._maps)

    def fit_rows(self, source, weight, dtype, kernel=None, n_jobs=None, memory=None):
        maps = self._maps
        if not (isinstance(maps, (list, tuple)) and maps) or not all(
            isinstance(part, FeatureMap) for part in maps
        ):
            raise ValueError(f"maps must be a list of one feature map or more, got {self.maps!r}.")
        self.seed_ = new_seed(self.random_state)
        if self.kernel is not None:
            kernel = build(self.kernel, KERNELS, Kernel, "kernel", length_scale="auto")
        share = None if memory is None else memory // len(maps)
        self.maps_ = []
        for number, part in enumerate(map(clone, maps)):
            if part.random_state is None:
                part.random_state = int(2**31 * uniform(self.seed_, _SEED_STREAM, number, (1,))[0])
            self.maps_.append(part.fit_rows(source, weight, dtype, kernel, n_jobs, share))
        self.kernel_ = reduce(add, (part.kernel_ for part in self.maps_))
        self.n_features_in_ = source.shape[1]
        return self

    def continues(self, last):
        """Never: a new fit begins anew."""
        return False

    @property
    def n_outputs(self):
        return sum(part.n_outputs for part in self.maps_)

    @property
    def nbytes(self):
        return sum(part.nbytes for part in self.maps_)

    def fit_bytes(self):
        return sum(part.fit_bytes() for part in getattr(self, "maps_", self._maps))

    def write(self, X, out):
        start = 0
        for part in self.maps_:
            part.write(X, out[:, start : start + part.n_outputs])
            start += part.n_outputs

    def operator(self, source, dtype=np.float32, keep_bytes=0, n_jobs=None):
        if not self.is_sparse:
            return super().operator(source, dtype, keep_bytes, n_jobs)
        share = keep_bytes // len(self.maps_)
        parts = [part.operator(source, dtype, share, n_jobs) for part in self.maps_]
        return ConcatenatedOperator(parts, n_jobs)

    def expansion(self, coef):
        """The sum of the parts' own functions."""
        ends = np.cumsum([part.n_outputs for part in self.maps_])[:-1]
        parts = zip(self.maps_, np.split(coef, ends), strict=True)
        return SumExpansion(tuple(part.expansion(np.ascontiguousarray(own)) for part, own in parts))

    def transform(self, X):
        """The features of X: a CSR matrix if a map's features are, else an array."""
        if not self.is_sparse:
            return super().transform(X)
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        operator = self.operator(RowSource(X), X.dtype)
        parts = slices(X.shape[0], _ROWS)
        return sparse.vstack([operator.take(np.arange(p.start, p.stop)) for p in parts], "csr")
