"""LAPACK without Python's lock, which SciPy's own functions hold: threads can share the cores."""

import ctypes
from functools import cache

import numpy as np

_LETTER = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


@cache
def _routine(name: str):
    """A LAPACK routine of SciPy's that takes five addresses; ctypes lets go of the lock."""
    from numba.extending import get_cython_function_address

    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(address)


def invert_lower(A: np.ndarray) -> bool:
    """The inverse of a positive definite matrix, in place; whether it was positive definite.

    Only the lower triangle is read and written.
    """
    if not (A.flags.c_contiguous and A.flags.writeable and A.shape[0] == A.shape[1]):
        raise ValueError("The matrix must be square, writeable and in C order.")
    # 64 bits for LAPACK's integers of 32: on little-endian machines one reads as the other.
    size, failed = np.array([len(A), 0], np.int64).reshape(2, 1)
    triangle = ctypes.create_string_buffer(b"U")  # by columns, our lower one is the upper
    for name in ("potrf", "potri"):
        _routine(_LETTER[A.dtype] + name)(
            ctypes.addressof(triangle),
            size.ctypes.data,
            A.ctypes.data,
            size.ctypes.data,
            failed.ctypes.data,
        )
        if failed[0]:
            return False
    return True
