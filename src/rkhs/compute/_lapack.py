"""LAPACK without Python's lock, which SciPy's own functions hold: threads can share the cores."""

import ctypes
from functools import cache

import numpy as np

_LETTER = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


@cache
def _routine(name: str, n_arguments: int):
    """A LAPACK routine of SciPy's that takes addresses; ctypes lets go of the lock."""
    from numba.extending import get_cython_function_address

    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _call(name: str, A: np.ndarray, *rows: np.ndarray) -> bool:
    """Apply a routine to the lower triangle of A, and to rows if it takes any; its success."""
    for array in (A, *rows):
        if not (array.flags.c_contiguous and array.flags.writeable and array.dtype == A.dtype):
            raise ValueError("Arrays must be writeable, in C order and of one type.")
        if array.shape[1] != len(A):
            raise ValueError("The matrix must be square, and rows as long as it.")
    # 64 bits for LAPACK's integers of 32: on little-endian machines one reads as the other.
    numbers = np.array([len(A), 0, *map(len, rows)], np.int64)
    size, failed, *count = (numbers[i:].ctypes.data for i in range(len(numbers)))
    triangle = ctypes.create_string_buffer(b"U")  # by columns, our lower one is the upper
    arrays = [address for array in (A, *rows) for address in (array.ctypes.data, size)]
    arguments = [ctypes.addressof(triangle), size, *count, *arrays, failed]
    _routine(_LETTER[A.dtype] + name, len(arguments))(*arguments)
    return not numbers[1]


def invert_lower(A: np.ndarray) -> bool:
    """The inverse of a positive definite matrix, in place; whether it was positive definite.

    Only the lower triangle is read and written.
    """
    return _call("potrf", A) and _call("potri", A)


def solve_lower(A: np.ndarray, rows: np.ndarray) -> bool:
    """Each row times the inverse of A, in place; whether A was positive definite.

    Of A only the lower triangle is read; its Cholesky factor takes its place.
    """
    return _call("posv", A, rows)
