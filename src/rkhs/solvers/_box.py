"""An interior point method for the duals of kinked losses."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

_STEPS = 200
_CENTERING = 0.1
_TO_BOUNDARY = 0.99


def minimise(gram, linear, lower, upper, epsilon, tol):
    """Minimise ``a.Ga/2 - linear.a + epsilon |a|_1`` over lower <= a <= upper.

    With epsilon > 0, a = p - q is split into two parts of the box; otherwise one part
    measured from its lower end does. Each part x has a slack s to its upper end and
    multipliers for both ends; every Newton step is one n x n Cholesky factor.
    """
    if epsilon > 0:
        signs, widths, base = [1.0, -1.0], [upper, -lower], np.zeros_like(linear)
    else:
        signs, widths, base = [1.0], [upper - lower], lower
    x = [0.5 * width for width in widths]
    slack = [width - part for width, part in zip(widths, x, strict=True)]
    scale = max(1.0, float(np.abs(linear).max()), epsilon)
    low = [np.full_like(linear, scale) for _ in x]  # multipliers of x >= 0
    high = [np.full_like(linear, scale) for _ in x]  # and of slack >= 0
    n_pairs = 2 * len(x) * len(linear)
    product = gram @ _position(base, signs, x)
    for _ in range(_STEPS):
        gap = sum(
            float(part @ a + rest @ b) for part, rest, a, b in zip(x, slack, low, high, strict=True)
        )
        slope = product - linear
        unmet = max(
            float(np.abs(sign * slope + epsilon - a + b).max())
            for sign, a, b in zip(signs, low, high, strict=True)
        )
        a = _position(base, signs, x)
        value = 0.5 * float(a @ product) - float(linear @ a) + epsilon * float(np.abs(a).sum())
        if gap <= tol * max(abs(value), 1e-300) and unmet <= tol * scale:
            break
        barrier = _CENTERING * gap / n_pairs
        bends, pulls = [], []
        for sign, part, rest, a_low, a_high in zip(signs, x, slack, low, high, strict=True):
            bends.append(a_low / part + a_high / rest)
            pulls.append(-(sign * slope + epsilon) + barrier / part - barrier / rest)
        stiffness = 1.0 / sum(1.0 / bend for bend in bends)
        wish = sum(s * pull / bend for s, pull, bend in zip(signs, pulls, bends, strict=True))
        product_move = _solve(gram, stiffness, wish)
        size = 1.0
        moves = []
        for i, sign in enumerate(signs):
            d = (pulls[i] - sign * product_move) / bends[i]
            d_low = (barrier - low[i] * d) / x[i] - low[i]
            d_high = (barrier + high[i] * d) / slack[i] - high[i]
            moves.append((d, d_low, d_high))
            pairs = ((x[i], d), (slack[i], -d), (low[i], d_low), (high[i], d_high))
            size = min(size, *(_longest(v, dv) for v, dv in pairs))
        for i, (d, d_low, d_high) in enumerate(moves):
            x[i] = x[i] + size * d
            slack[i] = slack[i] - size * d
            low[i] = low[i] + size * d_low
            high[i] = high[i] + size * d_high
        product = product + size * product_move
    return _snapped(base, signs, x, slack, low, high, widths)


def _position(base, signs, x):
    return base + sum(sign * part for sign, part in zip(signs, x, strict=True))


def _solve(gram, stiffness, wish):
    """G times the move with (E + G) move = E wish."""
    system = gram.copy()
    jitter = 0.0
    while True:
        system[np.diag_indices_from(system)] = np.diagonal(gram) * (1.0 + jitter) + stiffness
        try:
            move = cho_solve(cho_factor(system, lower=True), stiffness * wish)
            return gram @ move
        except LinAlgError:
            jitter = max(10.0 * jitter, 1e-15)


def _longest(value, change):
    falling = change < 0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_BOUNDARY * float((-value[falling] / change[falling]).min()))


def _snapped(base, signs, x, slack, low, high, widths):
    """The parts whose multiplier outweighs them put exactly at their end of the box."""
    parts = []
    for part, rest, a_low, a_high, width in zip(x, slack, low, high, widths, strict=True):
        unit = np.maximum(width, 1e-300)
        at_low = (part / unit < 1e-6) & (part / unit < a_low)
        at_high = (rest / unit < 1e-6) & (rest / unit < a_high)
        parts.append(np.where(at_low, 0.0, np.where(at_high, width, part)))
    return _position(base, signs, parts)
