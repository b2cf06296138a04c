"""Random Fourier features."""

import numpy as np

from rkhs.compute import SAMPLINGS, cosines, slices, uniform
from rkhs.features._base import FeatureMap, sample_rows
from rkhs.kernels._length_scale import weighted_median

_PHASE_STREAM = 1003
_LARGEST = 1e15  # of a coordinate or a frequency: products stay finite in float32
_CACHE_BYTES = 256 * 2**20  # frequencies beyond it are regenerated at each use


class RandomFourier(FeatureMap):
    r"""Random Fourier features of a stationary kernel.

    Frequencies :math:`\omega` of the kernel's spectral law come in pairs of features
    :math:`\sqrt{2/n}\,[\cos \omega^T x, \sin \omega^T x]`, whose products have the kernel
    as their mean. They are regenerated block by block from the seed: a fitted map holds a
    law, a seed and a shift, not a matrix. [rahimi2007]_

    Parameters
    ----------
    n_features : int, default=1000
        Number of features. An odd one gives the last frequency a single feature
        :math:`\sqrt{2/n}\cos(\omega^T x + b)` with a random phase.
    kernel : str or Kernel, optional
        By default the estimator's, or `Gaussian` with ``length_scale="auto"`` alone.
    sampling : {"iid", "orthogonal", "qmc"}, default="iid"
        How frequencies are spread. "orthogonal" [yu2016]_ needs a rotation-invariant
        kernel; "qmc" uses a Sobol sequence. Both lower the error at the same size.
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : Kernel
        With numeric length scales.
    seed_ : int
        Seed of all frequencies.
    shift_, scale_ : arrays of shape (n_columns,)
        Rows are centred and divided by these before the product, and frequencies multiplied
        by the scale: numbers of any size stay within float32, and no feature changes.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.features import RandomFourier
    >>> from rkhs.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0]])
    >>> Z = RandomFourier(4096, kernel=Gaussian(), random_state=0).fit_transform(X)
    >>> float(Z[0] @ Z[1]), float(Gaussian()(X)[0, 1])  # doctest: +ELLIPSIS
    (0.6..., 0.606...)
    """

    size_parameter = "n_features"
    block_size = 1024

    def __init__(self, n_features=1000, kernel=None, sampling="iid", random_state=None):
        self.n_features = n_features
        self.kernel = kernel
        self.sampling = sampling
        self.random_state = random_state

    def _fit_rows(self, source, weight, dtype, n_jobs):
        if self.sampling not in SAMPLINGS:
            raise ValueError(
                f"sampling must be one of {', '.join(map(repr, SAMPLINGS))}; got {self.sampling!r}."
            )
        stranger = self.kernel_.needs_rotation_invariance()
        if self.sampling == "orthogonal" and stranger:
            raise ValueError(
                f'sampling="orthogonal" needs a rotation-invariant kernel, and {stranger} is '
                'not one. Use sampling="qmc" or "iid".'
            )
        self.kernel_(np.zeros((1, self.n_features_in_)))  # refuses bad parameters
        rows, weight = sample_rows(source, weight, self.seed_)
        rows = rows.astype(np.float64)
        self.shift_ = np.array([weighted_median(column, weight) for column in rows.T])
        deviation = np.abs(rows - self.shift_).max(axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self._cache = {}
        self.block(0)  # a kernel without Fourier features is refused here

    @property
    def n_outputs(self):
        return self.n_features

    def block(self, index: int) -> np.ndarray:
        """Frequencies of one block in turns, (columns, frequencies); two features each."""
        n_left = self.n_features - index * self.block_size
        if index < 0 or n_left <= 0:
            raise IndexError(f"{self!r} has no block {index}.")
        draw = SAMPLINGS[self.sampling](self.seed_, index, self.block_size // 2)
        frequencies = self.kernel_.frequencies(draw, self.n_features_in_)
        return frequencies[: (n_left + 1) // 2].T

    def _cached_block(self, index, dtype):
        cache = self.__dict__.setdefault("_cache", {})
        key = index, np.dtype(dtype).char
        if key in cache:
            return cache[key]
        scaled = np.clip(self.block(index) * self.scale_[:, None], -_LARGEST, _LARGEST)
        block = np.ascontiguousarray(scaled, dtype)
        if (len(cache) + 1) * block.nbytes <= _CACHE_BYTES:
            cache[key] = block
        return block

    def write(self, X, out):
        shifted = (X - self.shift_) / self.scale_
        np.clip(shifted, -_LARGEST, _LARGEST, out=shifted)
        shifted = shifted.astype(out.dtype, copy=False)
        scale = np.sqrt(2.0 * self.kernel_.diag(np.zeros((1, X.shape[1])))[0] / self.n_features)
        for index, columns in enumerate(slices(self.n_features, self.block_size)):
            tile = out[:, columns]
            frequencies = self._cached_block(index, out.dtype)
            pairs = tile.shape[1] // 2
            # Cosines of the angles, then of the angles a quarter turn back: the sines.
            np.matmul(shifted, frequencies[:, :pairs], out=tile[:, :pairs])
            np.subtract(tile[:, :pairs], 0.25, out=tile[:, pairs : 2 * pairs])
            if tile.shape[1] % 2:
                phase = uniform(self.seed_, _PHASE_STREAM, index, (1,))[0]
                tile[:, -1] = shifted @ frequencies[:, -1] + out.dtype.type(phase)
            cosines(out, scale, columns)

    def __getstate__(self):
        # The frequencies are a cache: seed and law bring them back.
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_cache"}
