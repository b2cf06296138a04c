"""Fitted functions: what predicting, saving and inspecting need, and nothing more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rkhs.data import RowSource
from rkhs.kernels import Kernel
from rkhs.operators import ConcatenatedOperator, KernelOperator, Operator

if TYPE_CHECKING:
    from rkhs.features import FeatureMap


class Expansion:
    """A function f(x) = sum_j coef_j phi_j(x) with one column of `coef` an output."""

    coef: np.ndarray

    def operator(self, source: RowSource, n_jobs=None) -> Operator:
        """The matrix phi_j(x_i) of a row source."""
        raise NotImplementedError

    def evaluate(self, source: RowSource, n_jobs=None) -> np.ndarray:
        """f on each row of the source, shape (rows, outputs)."""
        if len(source) == 0:
            return np.empty((0, self.coef.shape[1]), self.coef.dtype)
        return self._evaluate(source, n_jobs)

    def _evaluate(self, source, n_jobs):
        return self.operator(source, n_jobs).matmat(self.coef)

    @property
    def nbytes(self) -> int:
        """Bytes that the function needs in a model file."""
        raise NotImplementedError


@dataclass(frozen=True)
class FeatureExpansion(Expansion):
    """Coefficients of a feature map's features.

    Parameters
    ----------
    feature_map : FeatureMap
        Fitted: a law and a seed, not a matrix.
    coef : array of shape (features, outputs)
    """

    feature_map: "FeatureMap"
    coef: np.ndarray

    def operator(self, source, n_jobs=None):
        return self.feature_map.operator(source, self.coef.dtype, n_jobs=n_jobs)

    def _evaluate(self, source, n_jobs):
        return self.feature_map.evaluate(source, self.coef, n_jobs)

    @property
    def nbytes(self):
        return self.coef.nbytes + self.feature_map.nbytes


@dataclass(frozen=True)
class KernelExpansion(Expansion):
    """Coefficients of kernel functions at centres.

    Parameters
    ----------
    kernel : Kernel
        With numeric length scales.
    centers : array of shape (centres, columns)
        As precise as the table they come from.
    coef : array of shape (centres, outputs)
        Its dtype is the one of the sum over centres.
    dtype : "float32" or "float64"
        Of kernel values.
    """

    kernel: Kernel
    centers: np.ndarray
    coef: np.ndarray
    dtype: str = "float32"

    def operator(self, source, n_jobs=None):
        return KernelOperator(
            self.kernel, source, RowSource(self.centers), self.dtype, n_jobs=n_jobs
        )

    @property
    def nbytes(self):
        return self.coef.nbytes + self.centers.nbytes


@dataclass(frozen=True)
class SumExpansion(Expansion):
    """The sum of functions.

    Parameters
    ----------
    parts : tuple of Expansion
        With as many outputs each.
    """

    parts: tuple[Expansion, ...]

    @property
    def coef(self) -> np.ndarray:  # type: ignore[override]
        """The parts' coefficients, one after the other."""
        return np.vstack([part.coef for part in self.parts])

    def operator(self, source, n_jobs=None):
        return ConcatenatedOperator([part.operator(source, n_jobs) for part in self.parts], n_jobs)

    def _evaluate(self, source, n_jobs):
        first, *others = (part.evaluate(source, n_jobs) for part in self.parts)
        return sum(others, first)

    @property
    def nbytes(self):
        return sum(part.nbytes for part in self.parts)
