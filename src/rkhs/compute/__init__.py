"""The hot loops, the threads that run them and the random bits; no policy here."""

from rkhs.compute._bins import BinTable
from rkhs.compute._bits import uniform
from rkhs.compute._distances import (
    exponential_distances,
    gaussians,
    l1_distances,
    one_plus_square_products,
    squared_distances,
)
from rkhs.compute._draws import SAMPLINGS, Draw, IndependentDraw, OrthogonalDraw, QuasiDraw
from rkhs.compute._elementwise import cosine_pairs, cosines, exponential, matern
from rkhs.compute._lapack import invert_lower, solve_lower
from rkhs.compute._memory import available_memory
from rkhs.compute._products import (
    add_cosine_pairs_times,
    gather_columns,
    gram_times,
    times,
    transposed_times,
)
from rkhs.compute._threads import (
    blas_for,
    core_count,
    run_tiles,
    scratch,
    single_threaded_blas,
    slices,
    sum_tiles,
    tile_map,
    together,
)
from rkhs.compute._vectors import (
    absolute_sum,
    add_multiple,
    dots,
    fill,
    multiply,
    multiply_and_add,
)

__all__ = [
    "SAMPLINGS",
    "BinTable",
    "Draw",
    "IndependentDraw",
    "OrthogonalDraw",
    "QuasiDraw",
    "absolute_sum",
    "add_cosine_pairs_times",
    "add_multiple",
    "available_memory",
    "blas_for",
    "core_count",
    "cosine_pairs",
    "cosines",
    "dots",
    "exponential",
    "exponential_distances",
    "fill",
    "gather_columns",
    "gaussians",
    "gram_times",
    "invert_lower",
    "l1_distances",
    "matern",
    "multiply",
    "multiply_and_add",
    "one_plus_square_products",
    "run_tiles",
    "scratch",
    "single_threaded_blas",
    "slices",
    "solve_lower",
    "squared_distances",
    "sum_tiles",
    "tile_map",
    "times",
    "together",
    "transposed_times",
    "uniform",
]
