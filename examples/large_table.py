"""A table of many rows within a memory limit, everything else left to "auto".

Run with: python examples/large_table.py [number of rows]
"""

import sys
import time

import numpy as np

from rkhs import KernelClassifier

N_COLUMNS = 5


def table(n_rows, seed):
    """Two classes separated by a wavy surface, one row in twenty mislabelled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0.3 * X[:, 3]
    return X, y ^ (rng.random(n_rows) < 0.05)


def main(n_rows=30_000):
    X, y = table(n_rows, seed=0)
    X_new, y_new = table(10_000, seed=1)
    model = KernelClassifier(loss="squared_error", memory_limit="1GB", random_state=0)
    begin = time.perf_counter()
    model.fit(X, y)
    print(f"{n_rows:,} rows, {len(model.expansion_.coef):,} centres, {model.solver_}")
    print(f"fitted in {time.perf_counter() - begin:.1f} s, {model.n_iter_} epochs")
    print(model.stop_reason_)
    print(f"accuracy on new rows: {model.score(X_new, y_new):.3f} (at best 0.95)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
