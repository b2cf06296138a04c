"""Tables that are computed, not read."""

import numpy as np
from sklearn.utils import check_random_state

N_LINKS = 8
_LARGEST_ANGLE = np.pi / 4
_TARGET = (0.1, 0.1)


def robot_arm(n_rows=10_000, *, noise=0.01, random_state=None):
    r"""How far the hand of a planar robot arm is from a target, given its joint angles.

    The arm has eight links of length 1/8 and starts at the origin along the x axis. Each
    joint turns by an angle :math:`\theta_j`, uniform between -45 and 45 degrees, so that

    .. math::

        y = \Big\| \tfrac18 \sum_{i=1}^{8}
            \big(\cos(\theta_1 + \dots + \theta_i), \sin(\theta_1 + \dots + \theta_i)\big)
            - (0.1, 0.1) \Big\| + \text{noise}.

    A smooth function in which all columns act together: a linear model explains a third of
    its variance, a kernel machine on ten thousand rows all but the noise and little more.

    Parameters
    ----------
    n_rows : int, default=10_000
    noise : float, default=0.01
        Standard deviation of the normal noise; the arm has length 1.
    random_state : int, RandomState or None

    Returns
    -------
    X : array of shape (n_rows, 8)
        Joint angles in radians, from the shoulder to the hand.
    y : array of shape (n_rows,)
        Distances.

    Examples
    --------
    >>> from rkhs.datasets import robot_arm
    >>> X, y = robot_arm(500, random_state=0)
    >>> X.shape, y.shape
    ((500, 8), (500,))
    """
    random = check_random_state(random_state)
    X = random.uniform(-_LARGEST_ANGLE, _LARGEST_ANGLE, (n_rows, N_LINKS))
    directions = np.cumsum(X, axis=1)  # of each link, from the x axis
    hand = np.cos(directions).mean(axis=1), np.sin(directions).mean(axis=1)
    distance = np.hypot(hand[0] - _TARGET[0], hand[1] - _TARGET[1])
    return X, distance + noise * random.standard_normal(n_rows)
