"""An interior point method for the duals of kinked losses."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

_STEPS = 200
_CENTERING = 0.1
_TO_BOUNDARY = 0.99
_UNMET = 1e-7  # of the dual's own conditions, in units of the linear term


def minimise(gram, linear, lower, upper, epsilon, tol):
    """Minimise ``a.Ga/2 - linear.a + epsilon |a|_1`` over lower <= a <= upper.

    With epsilon > 0, a = p - q is split into two parts of the box; otherwise one part
    measured from its lower end does. Each part x has a slack s to its upper end and
    multipliers for both ends; every Newton step is one n x n Cholesky factor.
    """
    # In units of the linear term the solution and the multipliers are of size one.
    unit = max(float(np.abs(linear).max()), epsilon)
    if unit == 0.0:
        return np.clip(np.zeros_like(linear), lower, upper)
    linear, lower, upper, epsilon = (v / unit for v in (linear, lower, upper, epsilon))
    signs = [1.0, -1.0] if epsilon > 0 else [1.0]
    ends = [(0.0 * upper, upper), (0.0 * lower, -lower)] if epsilon > 0 else [(lower, upper)]
    # Start close to a = 0, however wide the box is.
    starts = []
    for low_end, high_end in ends:
        inside = np.minimum(1.0, 0.5 * (high_end - low_end))
        starts.append(np.clip(0.0, low_end + inside, high_end - inside))
    x = [start - low_end for start, (low_end, _) in zip(starts, ends, strict=True)]
    slack = [high_end - start for start, (_, high_end) in zip(starts, ends, strict=True)]
    low = [1.0 / part for part in x]  # multipliers of x >= 0
    high = [1.0 / rest for rest in slack]  # and of slack >= 0
    a = sum(sign * start for sign, start in zip(signs, starts, strict=True))
    n_pairs = 2 * len(x) * len(linear)
    best, least = (a, low, high), np.inf
    for _ in range(_STEPS):
        product = gram @ a
        slope = product - linear
        gap = sum(
            float(part @ z + rest @ v) for part, rest, z, v in zip(x, slack, low, high, strict=True)
        )
        unmet = max(
            float(np.abs(sign * slope + epsilon - z + v).max())
            for sign, z, v in zip(signs, low, high, strict=True)
        )
        value = 0.5 * float(a @ product) - float(linear @ a) + epsilon * float(np.abs(a).sum())
        # Beyond what rounding allows, further steps lead away again: the best one counts.
        distance = max(gap / abs(value) if value else np.inf, unmet)
        if distance < least:
            best, least = (a, list(low), list(high)), distance
        if gap <= tol * abs(value) and unmet <= _UNMET:
            break
        barrier = _CENTERING * gap / n_pairs
        bends, pulls = [], []
        for sign, part, rest, z, v in zip(signs, x, slack, low, high, strict=True):
            bends.append(z / part + v / rest)
            pulls.append(-(sign * slope + epsilon) + barrier / part - barrier / rest)
        stiffness = 1.0 / sum(1.0 / bend for bend in bends)
        wish = sum(s * pull / bend for s, pull, bend in zip(signs, pulls, bends, strict=True))
        move = _solve(gram, stiffness, wish)
        size = 1.0
        moves = []
        for i, d in enumerate(_parted(gram, move, signs, pulls, bends)):
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
        # Sums of moves drift out of the box, which parts that begin at zero do not; a part
        # that begins at its lower end has lost the digits.
        a = x[0] - x[1] if epsilon > 0 else a + size * move
    a, low, high = best
    return unit * _snapped(a, signs, ends, low, high)


def _solve(gram, stiffness, wish):
    """The move with (E + G) move = E wish."""
    system = gram.copy()
    jitter = 0.0
    while True:
        system[np.diag_indices_from(system)] = np.diagonal(gram) * (1.0 + jitter) + stiffness
        try:
            return cho_solve(cho_factor(system, lower=True), stiffness * wish)
        except LinAlgError:
            jitter = max(10.0 * jitter, 1e-15)


def _parted(gram, move, signs, pulls, bends):
    """The move's parts: of two, the stiffer one by its own condition, the other by what is left.

    Divided by a small bend, the rounding of the product would be all there is.
    """
    if len(signs) == 1:
        return [move]
    product_move = gram @ move
    own = [(p - s * product_move) / b for s, p, b in zip(signs, pulls, bends, strict=True)]
    first = bends[0] > bends[1]
    return [np.where(first, own[0], move + own[1]), np.where(first, own[0] - move, own[1])]


def _longest(value, change):
    falling = change < 0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_BOUNDARY * float((-value[falling] / change[falling]).min()))


def _snapped(a, signs, ends, low, high):
    """Coefficients whose multiplier outweighs their distance put at that end of the box."""
    if len(signs) == 2:  # zero is where both parts end
        a = np.where(_at_end(a, low[0]) & _at_end(a, low[1]), 0.0, a)
        lower, upper, low_multiplier, high_multiplier = -ends[1][1], ends[0][1], high[1], high[0]
    else:
        (lower, upper), low_multiplier, high_multiplier = ends[0], low[0], high[0]
    a = np.where(_at_end(a - lower, low_multiplier), lower, a)
    return np.clip(np.where(_at_end(upper - a, high_multiplier), upper, a), lower, upper)


def _at_end(distance, multiplier):
    distance = np.abs(distance)
    return (distance < 1e-8) & (1e3 * distance < multiplier)
