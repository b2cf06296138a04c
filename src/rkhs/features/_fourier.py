"""Random Fourier features."""

import copy

import numpy as np

from rkhs.compute import (
    SAMPLINGS,
    add_cosine_pairs_times,
    cosine_pairs,
    run_tiles,
    scratch,
    slices,
    tile_map,
    uniform,
)
from rkhs.features._base import FeatureMap, sample_rows
from rkhs.kernels._length_scale import weighted_median

_PHASE_STREAM = 1003
_LARGEST = 1e15  # of a coordinate or a frequency: products stay finite in float32
_CACHE_BYTES = 256 * 2**20  # frequencies beyond it are regenerated at each use
_ROWS = 16_384  # that a block of frequencies serves before it is dropped
_TILE = 256  # rows whose angles stay in cache
_GROUP = 8  # blocks of frequencies at hand at a time


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
    regenerates = True

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

    def _take_rows(self, source, n_jobs, memory):
        self._cache_bytes = _CACHE_BYTES if memory is None else min(_CACHE_BYTES, memory // 4)

    def sized(self, n_features: int) -> "RandomFourier":
        """The same map with another number of features: those that both have are the same."""
        other = copy.copy(self)
        other.n_features = n_features
        return other

    def _cached_block(self, index, dtype):
        # Whole blocks are kept, so that maps of any size may share them.
        cache = self.__dict__.setdefault("_cache", {})
        key = index, np.dtype(dtype).char
        block = cache.get(key)
        if block is None:
            whole = self.sized((index + 1) * self.block_size).block(index)
            scaled = np.clip(whole * self.scale_[:, None], -_LARGEST, _LARGEST)
            block = np.ascontiguousarray(scaled, dtype)
            room = getattr(self, "_cache_bytes", _CACHE_BYTES)
            if (len(cache) + 1) * block.nbytes <= room:
                cache[key] = block
        n_left = self.n_features - index * self.block_size
        return block[:, : (n_left + 1) // 2]

    def _scaled(self, X, dtype):
        shifted = (X - self.shift_) / self.scale_
        np.clip(shifted, -_LARGEST, _LARGEST, out=shifted)
        return shifted.astype(dtype, copy=False)

    @property
    def _value(self):
        """Size of a feature: the square root of 2 k(x, x) / n."""
        variance = self.kernel_.diag(np.zeros((1, self.n_features_in_)))[0]
        return float(np.sqrt(2.0 * variance / self.n_features))

    def write(self, X, out):
        X = self._scaled(X, out.dtype)
        for index, columns in enumerate(slices(self.n_features, self.block_size)):
            tile = out[:, columns]
            frequencies = self._cached_block(index, out.dtype)
            pairs = tile.shape[1] // 2
            self._write_pairs(X, frequencies[:, :pairs], self._value, out, columns.start)
            if tile.shape[1] % 2:
                tile[:, -1] = self._single(X, frequencies[:, -1])

    @staticmethod
    def _write_pairs(X, frequencies, scale, out, start=0):
        turns = scratch("turns", (len(X), frequencies.shape[1]), out.dtype)
        np.matmul(X, frequencies, out=turns)
        cosine_pairs(turns, scale, out, start)

    def _single(self, X, frequency):
        """The last feature of an odd number: a cosine with a random phase."""
        index = (self.n_features - 1) // self.block_size
        phase = uniform(self.seed_, _PHASE_STREAM, index, (1,))[0]
        turns = X @ frequency + X.dtype.type(phase)
        return X.dtype.type(self._value) * np.cos(
            X.dtype.type(2 * np.pi) * (turns - np.rint(turns))
        )

    def write_pairs(self, X, start: int, stop: int, out, scale=1.0) -> None:
        """Cosines, then sines, of the frequencies `start` to `stop`, times `scale`."""
        X = self._scaled(X, out.dtype)
        half = self.block_size // 2
        parts = []
        for index in range(start // half, -(-stop // half)):
            whole = self.sized((index + 1) * self.block_size)._cached_block(index, out.dtype)
            parts.append(whole[:, max(start - index * half, 0) : stop - index * half])
        self._write_pairs(X, np.hstack(parts) if len(parts) > 1 else parts[0], scale, out)

    def from_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """Coefficients of the features from those of cosines and sines that are not scaled.

        `pairs` has the shape (frequencies, 2, outputs).
        """
        blocks = [
            pairs[part].transpose(1, 0, 2).reshape(-1, pairs.shape[2])
            for part in slices(len(pairs), self.block_size // 2)
        ]
        return np.vstack([np.empty((0, pairs.shape[2])), *blocks]) / self._value

    def evaluate(self, source, coef, n_jobs=None):
        dtype = coef.dtype
        out = np.zeros((len(source), coef.shape[1]), dtype)
        columns = slices(self.n_features, self.block_size)
        scaled = coef * dtype.type(self._value)
        for rows in slices(len(source), _ROWS):
            X = self._scaled(source[rows], dtype)
            here = out[rows]
            for group in slices(len(columns), _GROUP):
                indices = range(len(columns))[group]
                blocks = list(tile_map(lambda i: self._cached_block(i, dtype), indices, n_jobs))
                weights = [scaled[columns[i]] for i in indices]

                def add(tile, X=X, here=here, blocks=blocks, weights=weights):
                    for block, W in zip(blocks, weights, strict=True):
                        pairs = len(W) // 2
                        turns = scratch("turns", (tile.stop - tile.start, pairs), dtype)
                        np.matmul(X[tile], block[:, :pairs], out=turns)
                        add_cosine_pairs_times(turns, W[: 2 * pairs], here[tile])
                        if len(W) % 2:
                            here[tile] += np.outer(
                                self._single(X[tile], block[:, -1]), W[-1] / self._value
                            ).astype(dtype)

                run_tiles(add, slices(len(X), _TILE), n_jobs)
        return out

    def __getstate__(self):
        # The frequencies are a cache: seed and law bring them back.
        state = super().__getstate__()
        left_out = ("_cache", "_cache_bytes")
        return {name: value for name, value in state.items() if name not in left_out}
