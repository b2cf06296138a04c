"""The binned operator: products as those of the CSR matrix, in a few bytes a row and grid."""

import tracemalloc

import numpy as np
import pytest

from rkhs.data import RowSource
from rkhs.features import RandomBinning
from rkhs.kernels import Laplacian
from rkhs.operators import BinnedOperator

rng = np.random.default_rng(0)
N_ROWS = 3000


def fitted(n_grids=20, scale=1.0, n_rows=N_ROWS, memory=None):
    X = rng.normal(size=(n_rows, 4))
    source = RowSource(X)
    binning = RandomBinning(n_grids, Laplacian(scale), random_state=0)
    binning.fit_rows(source, np.ones(n_rows), np.float32, memory=memory)
    return binning, source, X


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("scale", [0.02, 3.0])
@pytest.mark.parametrize("kept", [True, False])
def test_products_are_those_of_the_sparse_matrix(n_outputs, scale, kept):
    binning, source, X = fitted(scale=scale)
    Z = binning.transform(X)
    if not kept:
        source = RowSource(X)  # not the one whose bins are kept
    for dtype, tol in ((np.float32, 1e-5), (np.float64, 1e-12)):
        Q = binning.operator(source, dtype)
        assert Q.keeps_all == kept
        W = rng.normal(size=(binning.n_outputs, n_outputs))
        V = rng.normal(size=(N_ROWS, n_outputs))
        np.testing.assert_allclose(Q.matmat(W), Z @ W, atol=tol)
        np.testing.assert_allclose(Q.rmatmat(V), Z.T @ V, atol=10 * tol)
        weight = rng.random((N_ROWS, 1))
        expected = Z.T @ (weight * (Z @ W))
        np.testing.assert_allclose(Q.gram(W, weight), expected, atol=100 * tol)
        np.testing.assert_allclose(
            Q.gram(W, lambda rows, f, w=weight: w[rows] * f), expected, atol=100 * tol
        )
        out = np.full(W.shape, np.nan)
        assert Q.gram(W, weight, out) is out
        np.testing.assert_allclose(out, expected, atol=100 * tol)
        np.testing.assert_allclose(
            Q.squared_column_sums(weight)[:, 0], Z.multiply(Z).T @ weight[:, 0], atol=tol
        )


@pytest.mark.parametrize("kept", [True, False])
def test_rows_are_taken_in_any_order_from_kept_bins_and_from_keys(kept):
    binning, source, X = fitted(scale=0.5)
    index = rng.integers(N_ROWS, size=50)
    Q = binning.operator(source if kept else RowSource(X), np.float64)
    assert Q.keeps_all == kept
    assert (Q.take(index) != binning.transform(X)[index]).nnz == 0
    rows, far = np.array([7, 3, 0]), np.vstack([X[:5], X[:5] + 1e6])
    Q = binning.operator(RowSource(far), np.float64)
    Q.hold()  # with rows in bins that are not known
    assert (Q.take(rows) != binning.transform(far)[rows]).nnz == 0


def test_rows_in_cells_of_no_training_row_get_nothing():
    binning, _, X = fitted(scale=0.1)
    far = RowSource(X + 1e6)
    Q = binning.operator(far)
    assert not Q.matmat(np.ones((binning.n_outputs, 2))).any()
    assert not Q.rmatmat(np.ones((N_ROWS, 1))).any()


@pytest.mark.parametrize("kept", [True, False])
def test_any_number_of_threads_gives_the_same_bits(kept):
    binning, source, X = fitted()
    source = source if kept else RowSource(X)
    W, V = rng.normal(size=(binning.n_outputs, 2)), rng.normal(size=(N_ROWS, 2))
    one, two = (binning.operator(source, np.float32, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.matmat(W), two.matmat(W))
    np.testing.assert_array_equal(one.rmatmat(V), two.rmatmat(V))
    again = RandomBinning(20, Laplacian(1.0), random_state=0)
    again.fit_rows(source, np.ones(N_ROWS), np.float32, n_jobs=1)
    np.testing.assert_array_equal(again.keys_, binning.keys_)


def test_bin_numbers_take_two_bytes_where_they_fit():
    binning, source, _ = fitted(scale=1.0)
    Q = binning.operator(source)
    assert {block.bins.dtype for _, _, blocks in Q._chunks for block in blocks} == {
        np.dtype(np.uint16)
    }


def test_more_than_65536_cells_take_four():
    n_rows = 70_000
    source = RowSource(np.arange(n_rows, dtype=float)[:, None])
    binning = RandomBinning(2, Laplacian(1e-6), random_state=0)
    binning.fit_rows(source, np.ones(n_rows), np.float32)
    np.testing.assert_array_equal(np.diff(binning.starts_), n_rows)
    Q = binning.operator(source)
    v = rng.normal(size=(n_rows, 1)).astype(np.float32)
    np.testing.assert_allclose(Q.matmat(Q.rmatmat(v)), v, rtol=1e-5)  # the kernel is the identity


@pytest.mark.parametrize("scale", [1e-4, 1.0])
def test_kept_bins_take_at_most_four_bytes_a_row_and_grid(scale):
    n_rows, n_grids = 70_000, 32
    source = RowSource(rng.normal(size=(n_rows, 2)))
    RandomBinning(2, Laplacian(scale), random_state=0).fit_rows(source, np.ones(n_rows), np.float32)
    binning = RandomBinning(n_grids, Laplacian(scale), random_state=0)
    tracemalloc.start()
    try:
        binning.fit_rows(source, np.ones(n_rows), np.float32)
        tables = sum(table.nbytes for table in binning._tables) + binning.keys_.nbytes
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    small = 16 * n_rows + 2**18  # the order of the rows, and what does not grow
    assert kept - tables <= 4 * n_rows * n_grids + small
    if scale == 1.0:  # fewer cells than 65,536
        assert kept - tables <= 2 * n_rows * n_grids + small
    # While grids are built, two threads hold eight grids each, and their keys.
    assert peak <= kept + tables + 2 * n_rows * (8 * 4 + 8 * 4 + 8) + 100 * n_rows + 2**20


def test_little_memory_keeps_the_first_rows_only():
    binning, source, X = fitted(scale=3.0)
    whole = binning.fit_bytes()
    small, source, X = fitted(scale=3.0, memory=whole // 2)
    Q = small.operator(source)
    assert not Q.keeps_all
    assert small.fit_bytes() <= whole
    W = rng.normal(size=(small.n_outputs, 1))
    np.testing.assert_allclose(Q.matmat(W), small.transform(X) @ W, atol=1e-5)
    V = rng.normal(size=(N_ROWS, 1))
    np.testing.assert_allclose(Q.rmatmat(V), small.transform(X).T @ V, atol=1e-4)


def test_cells_that_do_not_fit_are_refused_with_advice():
    with pytest.raises(MemoryError, match="length_scale"):
        fitted(scale=1e-3, memory=200_000)


def test_some_rows_as_a_csr_matrix():
    binning, source, X = fitted()
    index = np.array([5, 2, 2, 900])
    taken = binning.operator(source).take(index)
    np.testing.assert_array_equal(
        taken.toarray(), binning.transform(X.astype(np.float32))[index].toarray()
    )


def test_bins_are_forgotten_with_their_rows():
    binning, source, X = fitted()
    assert len(binning._training) == 1
    del source
    assert len(binning._training) == 0
    assert not BinnedOperator(binning, RowSource(X)).keeps_all


@pytest.mark.parametrize("n_outputs", [1, 5])
@pytest.mark.parametrize("kept", [True, False])
def test_the_product_of_both_sides_is_that_of_the_kernel_matrix(n_outputs, kept):
    X = np.random.default_rng(0).normal(size=(700, 3))
    source = RowSource(X if kept else X.copy())
    features = RandomBinning(37, random_state=0).fit_rows(
        source, np.ones(len(X)), np.float32, Laplacian(1.0)
    )
    if not kept:
        source = RowSource(X)  # rows that the grids do not remember
    V = np.random.default_rng(1).normal(size=(700, n_outputs))
    Z = features.transform(X)
    found = [features.operator(source, n_jobs=n).outer(V) for n in (1, 2)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], Z @ (Z.T @ V), atol=1e-5 * np.abs(V).sum())
    operator = features.operator(source)
    assert operator.prefers_rows == kept
    if kept:
        np.testing.assert_allclose(
            operator.squared_row_norm, np.asarray((Z.multiply(Z)).sum(axis=1)).ravel()
        )


@pytest.mark.parametrize("n_cells", [50, 60_000])  # summed four grids and two at a time
@pytest.mark.parametrize("n_grids", [1, 3, 7])
def test_any_number_of_grids_and_cells_is_summed(n_cells, n_grids):
    from rkhs.compute import _bin_loops

    draw = np.random.default_rng(1)
    bins = draw.integers(n_cells, size=(n_grids, 400)).astype(np.uint16)
    starts = 5 + n_cells * np.arange(n_grids)  # other grids' cells lie before
    stops = starts + n_cells
    w, v = draw.normal(size=stops[-1]), draw.normal(size=400)
    gathered = np.zeros(300)
    _bin_loops.gather_one(bins, starts, stops, w, gathered, 100)
    np.testing.assert_allclose(gathered, w[starts[:, None] + bins[:, 100:]].sum(axis=0), rtol=1e-9)
    expected = np.bincount((starts[:, None] + bins).ravel(), np.tile(v, n_grids), stops[-1])
    summed = np.full(stops[-1], 3.0)
    _bin_loops.scatter_one(bins, starts, stops, v, summed, True)
    np.testing.assert_allclose(summed[5:], expected[5:], atol=1e-12)
    np.testing.assert_array_equal(summed[:5], 3.0)
    _bin_loops.scatter_one(bins, starts, stops, v, summed, False)
    np.testing.assert_allclose(summed[5:], 2 * expected[5:], atol=1e-12)
