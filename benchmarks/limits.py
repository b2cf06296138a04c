"""How close the two fused loops come to the machine's matrix product.

For 10, 100 and 800 columns: the bare float32 product of the rows with as many columns, and as
multiples of its time `RandomFourier.transform` and the kernel tile product ``K(X, Z) @ A``.

    python benchmarks/limits.py
"""

import numpy as np
from _machine import best_of_each, describe, neighbours

from rkhs.data import RowSource
from rkhs.features import RandomFourier
from rkhs.kernels import Exponential, Gaussian, Laplacian
from rkhs.operators import KernelOperator

ROWS, WIDTH = 16_384, 4096


def measure(n_columns: int, n_outputs: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, n_columns)).astype(np.float32)
    Z = rng.normal(size=(WIDTH, n_columns)).astype(np.float32)
    A = rng.normal(size=(WIDTH, n_outputs)).astype(np.float32)
    right = np.ascontiguousarray(Z.T)
    out = np.empty((ROWS, WIDTH), np.float32)
    scale = np.sqrt(n_columns)
    fourier = RandomFourier(WIDTH, Gaussian(scale), random_state=0).fit(X)
    source, centers = RowSource(X), RowSource(Z)
    seconds = {"bare product": lambda: np.matmul(X, right, out=out)}
    seconds["second product"] = lambda: out @ A
    seconds["RandomFourier.transform"] = lambda: fourier.transform(X)
    for kernel in (Gaussian(scale), Exponential(scale)):
        operator = KernelOperator(kernel, source, centers, np.float32)
        seconds[f"{type(kernel).__name__} K(X, Z) @ A"] = lambda op=operator: op.matmat(A)
    if n_columns <= 100:  # no matrix product inside: shown for what it is
        operator = KernelOperator(Laplacian(scale), source, centers, np.float32)
        seconds["Laplacian K(X, Z) @ A"] = lambda: operator.matmat(A)
    for function in seconds.values():
        function()  # compiles, and warms the caches
    return best_of_each(seconds, 15 if n_columns < 800 else 5)


def main():
    print(describe())
    print(f"{ROWS:,} rows, {WIDTH:,} features or centres, float32; time / bare product")
    with neighbours() as others:
        for n_columns in (10, 100, 800):
            for n_outputs in (1, 10):
                seconds = measure(n_columns, n_outputs)
                bare, second = seconds.pop("bare product"), seconds.pop("second product")
                flops = 2 * ROWS * WIDTH * n_columns / bare
                print(f"\nd = {n_columns}, {n_outputs} outputs: bare {bare * 1e3:.1f} ms", end="")
                print(f" ({flops / 1e9:.0f} Gflop/s)")
                for name, value in seconds.items():
                    print(f"  {name:28s} {value / bare:6.2f}", end="")
                    both = f"   (of X @ Z.T and K @ A together: {value / (bare + second):.2f})"
                    print(both if "@ A" in name else "")
    print(f"\nother processes took {100 * others.share:.1f} % of the CPU meanwhile")


if __name__ == "__main__":
    main()
