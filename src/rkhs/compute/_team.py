"""What compiled loops that share work between threads need: counters, and arrays by address.

The work of such a loop is a run of stages, each cut into the same number of units. A thread takes
units of a stage until none is left and goes on to the next, where it first waits for the last
one's units. All of those are in someone's hands, so that a thread which comes late or never
holds up nobody.

Imported late: Numba takes its time.
"""

import os
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_SPINS = 2000  # before a thread that waits lets others run

if os.name == "posix":
    _let_others_run = types.ExternalFunction("sched_yield", types.int32())
else:

    @njit(cache=True, nogil=True)
    def _let_others_run():
        return 0


def _element(context, builder, signature, arguments):
    """Address of an element of a one-dimensional array."""
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, kind, array, [arguments[1]])


def _typed_add(typing_context, counters, index, amount):
    signature = types.int64(counters, types.intp, types.int64)

    def generate(context, builder, signature, arguments):
        address = _element(context, builder, signature, arguments)
        return builder.atomic_rmw("add", address, arguments[2], "seq_cst")

    return signature, generate


def _typed_read(typing_context, counters, index):
    signature = types.int64(counters, types.intp)

    def generate(context, builder, signature, arguments):
        address = _element(context, builder, signature, arguments)
        return builder.load_atomic(address, "seq_cst", 8)

    return signature, generate


def _typed_pointer(typing_context, address):
    signature = types.voidptr(types.int64)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return signature, generate


_add: Any = intrinsic(_typed_add)  # atomic; what the element was before
_read: Any = intrinsic(_typed_read)  # atomic
_pointer: Any = intrinsic(_typed_pointer)


@njit(nogil=True, inline="always")
def claim(claims, stage, first):
    """A unit of a stage that nobody has taken, `first` or the next free one; -1 if none is left.

    Threads that begin at units of their own find in cache what they left there a stage ago.
    """
    n_units = claims.shape[1]
    for k in range(n_units):
        unit = (first + k) % n_units
        if _read(claims[stage], unit) == 0 and _add(claims[stage], unit, 1) == 0:
            return unit
    return -1


@njit(nogil=True, inline="always")
def finish(done, stage):
    """Count a unit of a stage as done."""
    _add(done, stage, 1)


@njit(nogil=True, inline="always")
def wait(done, stage, n_units):
    """Return when all units of a stage are done: others work on those that are not."""
    spins = 0
    while _read(done, stage) < n_units:
        spins += 1
        if spins > _SPINS:
            _let_others_run()


@njit(nogil=True, inline="always")
def numbers16(address, length):
    """The unsigned integers of two bytes at an address."""
    return carray(_pointer(address), (length,), np.uint16)


@njit(nogil=True, inline="always")
def numbers32(address, length):
    """The unsigned integers of four bytes at an address."""
    return carray(_pointer(address), (length,), np.uint32)
