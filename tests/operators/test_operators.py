"""Operators against their dense matrices, however much of them is kept."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from rkhs.data import RowSource
from rkhs.features import Nystrom, RandomFourier
from rkhs.kernels import Gaussian, Laplacian
from rkhs.operators import (
    DenseOperator,
    KernelOperator,
    StreamedOperator,
    WhitenedOperator,
    gram_factor,
)

rng = np.random.default_rng(9)
# More than two tiles of rows, the last cut short; centres and features of two blocks.
X = np.where(rng.random((1100, 4)) < 0.6, rng.normal(size=(1100, 4)), 0.0)
CENTERS = rng.normal(size=(1030, 4))
FOURIER = RandomFourier(1301, Gaussian(), random_state=0).fit(X)
NYSTROM = Nystrom(150, Laplacian(), random_state=0).fit(X)
KINDS = ["dense", "streamed", "kernel", "whitened"]
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-9}

_dense = {}


def matrix(kind):
    """The whole matrix in float64, from the exact kernel or the map's transform."""
    if kind not in _dense:
        _dense[kind] = {
            "dense": lambda: np.sin(X @ CENTERS[:90].T),
            "streamed": lambda: FOURIER.transform(X),
            "kernel": lambda: Gaussian(1.3)(X, CENTERS),
            "whitened": lambda: (
                np.linalg.solve(
                    np.linalg.cholesky(Laplacian()(NYSTROM.centers_)),
                    Laplacian()(NYSTROM.centers_, X),
                ).T
            ),
        }[kind]()
    return _dense[kind]


def operator(kind, dtype=np.float64, keep=0.0, n_jobs=None, rows=X):
    """An operator that may keep the share `keep` of its matrix."""
    source = RowSource(rows)
    bytes_kept = int(keep * len(source) * matrix(kind).shape[1] * np.dtype(dtype).itemsize)
    if kind == "dense":
        return DenseOperator(matrix(kind).astype(dtype), n_jobs)
    if kind == "streamed":
        return StreamedOperator(FOURIER, source, dtype, bytes_kept, n_jobs)
    if kind == "kernel":
        return KernelOperator(Gaussian(1.3), source, RowSource(CENTERS), dtype, bytes_kept, n_jobs)
    inner = KernelOperator(
        Laplacian(), source, RowSource(NYSTROM.centers_), dtype, bytes_kept, n_jobs
    )
    return WhitenedOperator(inner, gram_factor(Laplacian(), NYSTROM.centers_, np.dtype(dtype)))


# Room for the last, shorter tile counts as that of a whole one.
KEEP = pytest.mark.parametrize("keep", [0.0, 0.6, 1.5], ids=["nothing", "some", "all"])
ALL = pytest.mark.parametrize("kind", KINDS)
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@ALL
@KEEP
@TYPES
def test_products_of_some_rows_are_those_of_the_dense_matrix(kind, keep, dtype):
    Z, Q = matrix(kind), operator(kind, dtype, keep)
    W = rng.normal(size=(Z.shape[1], 2))
    rows = np.sort(rng.permutation(len(Z))[:333])
    scale = rng.uniform(0.5, 2.0, size=(len(rows), 1))
    expected = Z[rows].T @ (scale * (Z[rows] @ W))
    for _ in range(2):  # the second time from what was kept
        product = Q.gram_rows(rows, W, lambda part, inner: scale[part] * inner)
        assert np.abs(product - expected).max() < TOLERANCE[dtype] * np.abs(expected).max()


@KEEP
@TYPES
def test_some_rows_are_visited_with_their_product_and_columns(keep, dtype):
    Z, Q = matrix("kernel"), operator("kernel", dtype, keep)
    W = rng.normal(size=(Z.shape[1], 2))
    rows = np.sort(rng.permutation(len(Z))[:333])
    columns = [np.sort(rng.permutation(Z.shape[1])[:size]) for size in (40, 700)]
    product, first, second = np.empty((333, 2)), np.empty((333, 40)), np.empty((333, 700))
    second[...] = Z[np.ix_(rows, columns[1])]

    def visit(part, inner, entries):
        product[part], first[part], second[part, part.start :] = inner, *entries
        return part.stop - part.start

    def sets(part):
        return columns[0], columns[1][part.start :]

    assert sum(Q.visit_rows(rows, W, visit, sets)) == 333
    assert np.abs(product - Z[rows] @ W).max() < TOLERANCE[dtype] * np.abs(Z @ W).max()
    for entries, chosen in zip((first, second), columns, strict=True):
        assert np.abs(entries - Z[np.ix_(rows, chosen)]).max() < TOLERANCE[dtype]


@ALL
@KEEP
@TYPES
def test_products_are_those_of_the_dense_matrix(kind, keep, dtype):
    Z, Q = matrix(kind), operator(kind, dtype, keep)
    W, V = rng.normal(size=(Z.shape[1], 3)), rng.normal(size=(Z.shape[0], 2))
    scale = rng.uniform(0.5, 2.0, size=(len(Z), 1))
    assert Q.shape == Z.shape
    assert Q.dtype == dtype
    expected = Z @ W, Z.T @ V, Z.T @ (scale * (Z @ W))
    for _ in range(2):  # the second pass reads what the first one kept
        product = Q.gram(W, lambda rows, inner: scale[rows] * inner)
        results = Q.matmat(W), Q.rmatmat(V), product
        for result, truth in zip(results, expected, strict=True):
            tolerance = TOLERANCE[dtype] * np.abs(truth).max()
            np.testing.assert_allclose(result, truth, atol=tolerance)
        assert results[1].dtype == results[2].dtype == np.float64  # sums over tiles


@ALL
def test_products_are_as_precise_as_their_factors_and_tiles(kind):
    W = rng.normal(size=(matrix(kind).shape[1], 1))
    assert operator(kind, np.float64).matmat(W).dtype == np.float64
    product = operator(kind, np.float32).matmat(W)
    # Coefficients of kernel functions cancel, so that their own precision counts.
    if kind != "whitened":
        assert product.dtype == (np.float64 if kind == "kernel" else np.float32)


def test_whitened_products_are_wide_where_the_factor_blows_up_rounding():
    X = rng.normal(size=(300, 2)).astype(np.float32)
    W = rng.normal(size=(20, 1))
    for length_scale, expected in ((1e-2, np.float32), (3.0, np.float64)):
        features = Nystrom(20, Gaussian(length_scale), random_state=0).fit(X)
        product = features.operator(RowSource(X), np.float32).matmat(W)
        assert product.dtype == expected
        truth = features.transform(X) @ W
        np.testing.assert_allclose(product, truth, atol=1e-4 * np.abs(truth).max())


def test_coefficients_that_cancel_lose_nothing_in_a_float32_kernel_operator():
    Q = operator("kernel", np.float32)
    tiles = Q.rows(0, 1100).astype(np.float64)
    W = 1e6 * rng.normal(size=(Q.shape[1], 1))
    W -= np.linalg.pinv(tiles[:20]) @ (tiles[:20] @ W)  # nothing is left on the first rows
    np.testing.assert_allclose(Q.matmat(W)[:20], 0.0, atol=1e-5)


@ALL
@KEEP
@TYPES
def test_rows_are_those_of_the_dense_matrix(kind, keep, dtype):
    Z, Q = matrix(kind), operator(kind, dtype, keep)
    index = np.array([1099, 3, 512, 511, 3, 0])
    for _ in range(2):
        np.testing.assert_allclose(Q.rows(500, 600), Z[500:600], atol=TOLERANCE[dtype])
        np.testing.assert_allclose(Q.rows(0, 1100), Z, atol=TOLERANCE[dtype])
        np.testing.assert_allclose(Q.take(index), Z[index], atol=TOLERANCE[dtype])
        assert Q.take(index).dtype == dtype
        assert Q.take(np.array([], int)).shape == (0, Z.shape[1])
        norms = np.linalg.norm(Z, axis=0)
        np.testing.assert_allclose(Q.column_norms(), norms, rtol=TOLERANCE[dtype])


@ALL
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_array])
def test_sparse_rows_give_the_same_products(kind, container):
    if kind == "dense":
        container = np.asarray
    Q = operator(kind, rows=container(X))
    W = rng.normal(size=(Q.shape[1], 2))
    np.testing.assert_allclose(Q.matmat(W), matrix(kind) @ W, atol=1e-7)
    np.testing.assert_allclose(Q.take(np.array([5, 2])), matrix(kind)[[5, 2]], atol=1e-9)


@ALL
@TYPES
@pytest.mark.parametrize("keep", [0.0, 0.6])
def test_the_number_of_threads_changes_no_bit(kind, dtype, keep):
    V = rng.normal(size=(1100, 2))
    W = rng.normal(size=(matrix(kind).shape[1], 2))

    def results(n_jobs):
        Q = operator(kind, dtype, keep, n_jobs)
        return (
            Q.matmat(W),
            Q.rmatmat(V),
            Q.gram(W, lambda rows, inner: 2 * inner),
            Q.column_norms(),
            Q.take(np.arange(1099, 0, -3)),
        )

    one = results(1)
    for n_jobs in (2, 3):
        for expected, result in zip(one, results(n_jobs), strict=True):
            np.testing.assert_array_equal(result, expected)


@ALL
@pytest.mark.parametrize("n_outputs", [1, 2, 20])
@pytest.mark.parametrize("as_function", [False, True], ids=["array", "function"])
def test_what_stands_beside_a_product_is_added_and_replaced(kind, n_outputs, as_function):
    Q, Z = operator(kind, np.float64), matrix(kind)
    W = rng.normal(size=(Z.shape[1], n_outputs))
    scale = rng.uniform(size=(len(Z), 1))
    beside = rng.normal(size=(len(Z), n_outputs))
    expected = scale * (Z @ W + beside)
    middle = (lambda rows, inner: scale[rows] * inner) if as_function else scale
    product = Q.gram(W, middle, None, beside)
    np.testing.assert_allclose(beside, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(product, Z.T @ expected, rtol=1e-4, atol=1e-3)


@ALL
def test_what_is_kept_changes_no_bit(kind):
    W = rng.normal(size=(matrix(kind).shape[1], 2))
    expected = operator(kind, np.float32).matmat(W)
    for keep in (0.6, 1.5):
        Q = operator(kind, np.float32, keep)
        for _ in range(2):
            np.testing.assert_array_equal(Q.matmat(W), expected)


@pytest.mark.parametrize("kind", ["streamed", "kernel", "whitened"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.6, 1.0, 1.5])
def test_kept_memory_stays_within_its_limit(kind, keep):
    whole = 1100 * matrix(kind).shape[1] * 4
    W = np.ones((matrix(kind).shape[1], 1), np.float32)
    operator(kind, np.float32).matmat(W)  # compiles, and fills the map's own cache
    Q = operator(kind, np.float32, keep)
    tracemalloc.start()
    try:
        Q.matmat(W)
        Q.rmatmat(np.ones((1100, 1)))
        Q.column_norms()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    slack = 64 * 1024
    # Threads hold on to one tile's buffer each.
    assert kept <= keep * whole + Q.working_bytes / 2 + slack
    if keep >= 1.5:
        assert kept >= whole  # it does keep what it may
    # Work in progress is what it says, twice over for temporaries of the tiles.
    assert peak <= keep * whole + 3 * Q.working_bytes + slack


@pytest.mark.parametrize("kind", ["streamed", "kernel"])
def test_kept_tiles_are_computed_once(kind):
    W = np.ones((matrix(kind).shape[1], 1))

    def count(keep):
        Q = operator(kind, keep=keep, n_jobs=1)
        calls, compute = [], Q.compute
        Q.compute = lambda rows, buffer=None: calls.append(rows) or compute(rows, buffer)
        for _ in range(3):
            Q.matmat(W)
        return len(calls)

    assert count(0.0) == 3 * 3
    assert count(0.6) == 3 + 2 * 2
    assert count(1.5) == 3
    assert operator(kind, keep=1.5).keeps_all
    assert not operator(kind, keep=0.6).keeps_all


def test_the_middle_of_a_gram_product_sees_each_row_once():
    Q, seen = operator("kernel", n_jobs=2), []
    W = rng.normal(size=(Q.shape[1], 1))

    def middle(rows, inner):
        np.testing.assert_allclose(inner, matrix("kernel")[rows] @ W, atol=1e-9)
        seen.extend(range(rows.start, rows.stop))
        return inner

    Q.gram(W, middle)
    assert sorted(seen) == list(range(1100))


def test_far_centres_do_not_cost_float32_its_digits():
    offset = 2.0**14
    rows = np.round(X * 64) / 64 + offset
    Q = KernelOperator(Gaussian(), RowSource(rows), RowSource(rows[:50]), np.float32)
    np.testing.assert_allclose(Q.rows(0, 1100), Gaussian()(rows, rows[:50]), atol=1e-5)


def test_integer_rows_are_numbers():
    whole = rng.integers(0, 5, size=(40, 3)).astype(np.uint8)
    Q = KernelOperator(Gaussian(), RowSource(whole), RowSource(whole), np.float64)
    np.testing.assert_allclose(Q.rows(0, 40), Gaussian()(whole.astype(float)), atol=1e-12)


def test_wide_matrices_have_lower_tiles():
    # A tile of 512 rows would take 400 MB here.
    wide = KernelOperator(
        Gaussian(),
        RowSource(X),
        RowSource(np.zeros((1, 4)).repeat(200_000, 0)),
        np.float32,
        n_jobs=1,
    )
    assert wide.working_bytes <= 2 * 64 * 200_000 * 4


@TYPES
def test_a_gram_factor_is_the_cholesky_factor(dtype):
    factor = gram_factor(Laplacian(), CENTERS[:60], np.dtype(dtype))
    assert factor.dtype == np.float64
    np.testing.assert_array_equal(np.triu(factor, 1), 0)
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(factor @ factor.T, Laplacian()(CENTERS[:60]), atol=tolerance)


@TYPES
def test_a_singular_gram_matrix_has_a_factor_too(dtype):
    rows = np.vstack([CENTERS[:30], CENTERS[:30]])  # every centre twice
    factor = gram_factor(Gaussian(), rows, np.dtype(dtype))
    np.testing.assert_allclose(factor @ factor.T, Gaussian()(rows), atol=1e-5)


def test_what_is_not_a_kernel_is_refused():
    class Negative(Gaussian):
        def tile(self, left, right, out):
            super().tile(left, right, out)
            out *= np.where(out > 0.999, 1.0, -1.0)

    with pytest.raises(ValueError, match="not positive definite: Negative"):
        gram_factor(Negative(5.0), CENTERS[:20], np.dtype(np.float64))
