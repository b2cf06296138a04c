"""Counter-based random bits: the same numbers for the same address, on any machine."""

import numpy as np


def uniform(seed: int, stream: int, index: int, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform numbers in the open interval (0, 1) at an address.

    The address is a seed (which model), a stream (what for) and an index (which block).
    Philox guarantees its raw stream, so nothing but the address decides the result.

    Examples
    --------
    >>> from rkhs.compute import uniform
    >>> bool((uniform(7, 0, 3, (4,)) == uniform(7, 0, 3, (4,))).all())
    True
    """
    bits = np.random.Philox(key=[seed, stream], counter=[0, 0, 0, index])
    raw = bits.random_raw(int(np.prod(shape)))
    # 53 bits, shifted by half a step so that neither 0 nor 1 occurs.
    return (((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)
