"""Turning uniform numbers into the laws that kernels ask for.

A `Draw` stands for n points of some dimension. A kernel asks it for normal, Cauchy,
Laplace or gamma columns, one set after the other; how the points are spread (independent,
orthogonal, quasi-random) is the draw's business, so every law works with every spread.
"""

import numpy as np
from scipy import special

from rkhs.compute._bits import uniform

_POINTS, _SHIFTS = 0, 1  # streams of one seed
_SOBOL_COLUMNS = 21_201


class Draw:
    """n points addressed by (seed, index); subclasses say how they are spread."""

    def __init__(self, seed: int, index: int, n_points: int):
        self.seed = seed
        self.index = index
        self.n_points = n_points
        self._used = 0

    def uniform(self, n_columns: int) -> np.ndarray:  # (points, columns)
        raise NotImplementedError

    def normal(self, n_columns: int) -> np.ndarray:
        return special.ndtri(self.uniform(n_columns))

    def cauchy(self, n_columns: int) -> np.ndarray:
        return np.tan(np.pi * (self.uniform(n_columns) - 0.5))

    def laplace(self, n_columns: int) -> np.ndarray:
        u = self.uniform(n_columns) - 0.5
        return -np.sign(u) * np.log1p(-2.0 * np.abs(u))

    def gamma(self, shape: float) -> np.ndarray:  # (points, 1), scale 1
        return special.gammaincinv(shape, self.uniform(1))

    def student(self, n_columns: int, freedom: float) -> np.ndarray:
        """Multivariate t: normal rows, each divided by the root of its own chi-square."""
        rows = self.normal(n_columns)
        return rows / np.sqrt(self.gamma(freedom / 2.0) * 2.0 / freedom)


class IndependentDraw(Draw):
    """Independent points."""

    def uniform(self, n_columns):
        # Each request has a stream of its own, so a law may ask for several sets.
        stream = _POINTS + 2 * self._used
        self._used += 1
        return uniform(self.seed, stream, self.index, (self.n_points, n_columns))


class OrthogonalDraw(IndependentDraw):
    """Normal rows orthogonal to each other in groups of as many as there are columns.

    The direction of each row is uniform and its length that of a normal vector, so each
    row alone is normal; together they cover the directions more evenly.
    """

    def normal(self, n_columns):
        group = min(n_columns, self.n_points)
        n_groups = -(-self.n_points // group)
        raw = special.ndtri(
            uniform(self.seed, 2 * self._used, self.index, (n_groups, n_columns, group))
        )
        self._used += 1
        q, r = np.linalg.qr(raw)
        # The signs make the law of q uniform over rotations.
        q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
        rows = q.transpose(0, 2, 1).reshape(-1, n_columns)[: self.n_points]
        return rows * np.sqrt(2.0 * self.gamma(n_columns / 2.0))


class QuasiDraw(Draw):
    """Points of a Sobol sequence, shifted at random: block `index` continues the last."""

    def uniform(self, n_columns):
        from scipy.stats import qmc  # late: it takes a second to import

        stop = self._used + n_columns
        if stop > _SOBOL_COLUMNS:
            raise ValueError(
                f'sampling="qmc" needs at most {_SOBOL_COLUMNS} columns, got {n_columns}. '
                'Use sampling="orthogonal" or "iid".'
            )
        sequence = qmc.Sobol(stop, scramble=False, bits=30)
        if self.index:
            sequence.fast_forward(self.index * self.n_points)
        points = sequence.random(self.n_points)[:, self._used :]
        shift = uniform(self.seed, _SHIFTS, 0, (stop,))[self._used :]
        self._used = stop
        # The half step keeps every coordinate inside (0, 1) whatever the shift.
        return np.clip((points + shift) % 1.0, 2.0**-54, 1.0 - 2.0**-53)


SAMPLINGS: dict[str, type[Draw]] = {
    "iid": IndependentDraw,
    "orthogonal": OrthogonalDraw,
    "qmc": QuasiDraw,
}
