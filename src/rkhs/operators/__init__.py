"""Matrices that are multiplied, never stored whole."""

from rkhs.operators._base import Operator
from rkhs.operators._binned import BinBlock, BinnedOperator
from rkhs.operators._concatenated import ConcatenatedOperator
from rkhs.operators._dense import DenseOperator
from rkhs.operators._kernel import KernelOperator, WhitenedOperator, gram_factor
from rkhs.operators._streamed import StreamedOperator

__all__ = [
    "BinBlock",
    "BinnedOperator",
    "ConcatenatedOperator",
    "DenseOperator",
    "KernelOperator",
    "Operator",
    "StreamedOperator",
    "WhitenedOperator",
    "gram_factor",
]
