"""Whole vector registers for a compiled loop. Imported late, as all of Numba."""

from typing import Any

from numba import types
from numba.extending import intrinsic


def _typed_wide(typing_context):
    def generate(context, builder, signature, arguments):
        # llvmlite lists the attributes that it knows, and this is none of them.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate


# Called by a loop's own function. LLVM takes half of a register's 512 bits on CPUs whose clock
# may fall with all of them: a good rule for a few such instructions between others, not for
# loops next to a BLAS that takes all of them. CPUs without such registers see no difference.
wide: Any = intrinsic(_typed_wide)
