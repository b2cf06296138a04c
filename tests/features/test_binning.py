"""Random binning: the kernel in expectation, cells of training rows only, grids from a seed."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from rkhs import KernelRegressor
from rkhs.compute import IndependentDraw
from rkhs.data import RowSource
from rkhs.features import RandomBinning
from rkhs.kernels import Cauchy, Gaussian, Laplacian
from rkhs.kernels._product import ProductKernel

rng = np.random.default_rng(0)
N_GRIDS, N_SEEDS = 64, 40


class Hyperbola(ProductKernel):
    """1 / (1 + |x - x'| / l)^2 in each column: convex, with heavy tails."""

    def profile(self, delta):
        return (1.0 + delta) ** -2, -2.0 * (1.0 + delta) ** -3

    def exact(self, X):
        distance = np.abs(X[:, None] - X[None]) / self.length_scale
        return np.prod((1.0 + distance) ** -2, axis=2)


def table(n_rows=40):
    """Dense, nearly constant, constant and whole-number columns."""
    X = rng.normal(size=(n_rows, 5))
    X[:, 1] = (rng.random(n_rows) < 0.1) * rng.integers(1, 4, n_rows)
    X[:, 2] = 7.0
    X[:, 3] = rng.integers(0, 3, n_rows)
    return X


def deviations(kernel, exact, X, value_of=None):
    """Standardised errors of the mean kernel estimate over seeds, for all pairs of rows."""
    total = 0.0
    for seed in range(N_SEEDS):
        binning = RandomBinning(N_GRIDS, kernel=kernel, random_state=seed).fit(X)
        Z = binning.transform(X)
        if value_of is not None:
            Z = Z.astype(bool) * value_of(binning)
        total = total + (Z @ Z.T).toarray()
    first, second = np.triu_indices(len(X), 1)
    exact = exact[first, second]
    scale = kernel.diag(X[:1])[0]
    share = exact / scale  # a collision is a coin with this probability
    often = share * N_GRIDS * N_SEEDS > 10  # enough of them for the standard error to mean much
    assert often.mean() > 0.4
    first, second, exact, share = first[often], second[often], exact[often], share[often]
    error = scale * np.sqrt(share * (1 - share) / (N_GRIDS * N_SEEDS))
    return (total[first, second] / N_SEEDS - exact) / np.maximum(error, 1e-12)


KERNELS = [
    Laplacian(1.0),
    Laplacian(np.array([0.5, 2.0, 1.0, np.inf, 3.0])),
    2.5 * Laplacian(2.0),
    Laplacian(0.5) + 3.0 * Laplacian(4.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_collisions_are_the_kernel(kernel):
    X = table()
    z = deviations(kernel, kernel(X), X)
    # Hundreds of pairs that depend on each other: none beyond 4, a mean square of order one.
    assert np.abs(z).max() < 4
    assert 0.2 < np.mean(z**2) < 4


def test_any_convex_profile_has_its_law_of_widths():
    kernel, X = Hyperbola(1.5), table()
    assert np.abs(deviations(kernel, kernel.exact(X), X)).max() < 4


def test_widths_of_a_profile_are_those_of_the_closed_form():
    class Generic(ProductKernel):
        def profile(self, delta):
            return np.exp(-delta), -np.exp(-delta)

    widths = Generic().widths(IndependentDraw(0, 0, 1), 5000)[0]
    assert stats.kstest(widths, stats.gamma(2).cdf).pvalue > 1e-3
    widths = Laplacian(3.0).widths(IndependentDraw(0, 0, 1), 5000)[0]
    assert stats.kstest(widths, stats.gamma(2, scale=3.0).cdf).pvalue > 1e-3


def test_the_value_of_the_papers_box_is_wrong():
    # One over the root of the number of features, not of grids, would shrink the kernel.
    X = table()
    z = deviations(Laplacian(1.0), Laplacian(1.0)(X), X, lambda b: b.n_outputs**-0.5)
    assert np.abs(z).max() > 20


def test_cells_without_training_rows_have_no_feature():
    X = table()
    binning = RandomBinning(32, Laplacian(0.5), random_state=0).fit(X)
    far = X + 1000.0
    Z = binning.transform(far)
    assert Z.shape == (len(X), binning.n_outputs)
    assert Z[:, :].nnz == 0
    before = binning.transform(X)
    assert (before.getnnz(axis=1) == 32).all()
    np.testing.assert_array_equal((binning.transform(X) != before).nnz, 0)
    # A dictionary of training and test rows would have more features.
    both = RandomBinning(32, Laplacian(0.5), random_state=0).fit(np.vstack([X, far]))
    assert both.n_outputs > binning.n_outputs


def test_every_row_has_one_entry_a_grid_of_the_same_value():
    Z = RandomBinning(50, Laplacian(), random_state=0).fit_transform(table())
    assert (Z.getnnz(axis=1) == 50).all()
    np.testing.assert_allclose(Z.data, 50**-0.5)
    assert Z.has_sorted_indices
    assert (Z.getnnz(axis=0) > 0).all()


def test_grids_depend_on_the_seed_and_their_number_alone():
    X = table(200)
    few = RandomBinning(8, Laplacian(), random_state=3).fit(X)
    many = RandomBinning(20, Laplacian(), random_state=3).fit(X)
    np.testing.assert_array_equal(many.keys_[: many.starts_[8]], few.keys_)
    other = RandomBinning(8, Laplacian(), random_state=4).fit(X)
    assert not np.array_equal(other.keys_[:20], few.keys_[:20])
    for a, b in zip(few.grid(5), many.grid(5), strict=True):
        np.testing.assert_array_equal(a, b)


def test_sparse_tables_give_the_same_features():
    X = rng.random((300, 40)) * (rng.random((300, 40)) < 0.05)
    X[:, 0] = rng.normal(size=300)
    dense = RandomBinning(16, Laplacian(0.3), random_state=0).fit(X)
    listed = RandomBinning(16, Laplacian(0.3), random_state=0).fit(sparse.csr_matrix(X))
    np.testing.assert_array_equal(dense.keys_, listed.keys_)
    for table_ in (X, sparse.csr_matrix(X), sparse.csc_matrix(X)):
        np.testing.assert_array_equal(
            dense.transform(table_).toarray(), listed.transform(table_).toarray()
        )


def test_a_column_usually_not_zero_is_listed_and_found_in_sparse_tables():
    X = rng.normal(size=(300, 3))
    X[:, 1] = np.where(rng.random(300) < 0.05, 0.0, 4.0)
    binning = RandomBinning(16, Laplacian(1.0), random_state=0).fit(X)
    assert binning.sparse_.tolist() == [False, True, False]
    np.testing.assert_array_equal(
        binning.transform(sparse.csr_matrix(X)).toarray(), binning.transform(X).toarray()
    )


def test_few_collisions_of_keys():
    """All cells of a fine lattice get keys of their own, in every grid."""
    side = np.arange(40.0)
    X = np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3)
    binning = RandomBinning(8, Laplacian(1e-3), random_state=0).fit(X)  # a cell for each row
    np.testing.assert_array_equal(np.diff(binning.starts_), len(X))


@pytest.mark.parametrize("kernel", [Gaussian(), Cauchy(), Laplacian() * Laplacian(2.0)], ids=str)
def test_kernels_without_grids_are_refused(kernel):
    with pytest.raises(ValueError, match="laplacian"):
        RandomBinning(4, kernel).fit(table())


def test_an_estimators_kernel_without_grids_is_refused_with_advice():
    with pytest.raises(ValueError, match='kernel="laplacian"'):
        KernelRegressor(kernel="gaussian", features="random_binning").fit(table(), np.arange(40.0))


def test_columns_of_any_size():
    X = table()
    X[:, 0] = X[:, 0] * 1e30 + 1e32
    X[:, 4] = 1e-300 * X[:, 4]
    X[0, 3] = 1e100
    Z = RandomBinning(16, random_state=0).fit(X).transform(X)
    assert (Z.getnnz(axis=1) == 16).all()


def test_one_row_and_no_column_that_varies():
    for X in (np.ones((1, 3)), np.ones((5, 2))):
        binning = RandomBinning(4, random_state=0).fit(X)
        assert binning.n_outputs == 4
        np.testing.assert_allclose(binning.transform(X).toarray(), 0.5)


def test_transform_before_fit():
    with pytest.raises(NotFittedError):
        RandomBinning().transform(table())


def test_a_pickle_holds_keys_and_no_rows():
    X = table(2000)
    binning = RandomBinning(64, Laplacian(3.0), random_state=0)
    binning.fit_rows(RowSource(X), np.ones(2000), np.float32)
    data = pickle.dumps(binning)
    assert len(data) < binning.keys_.nbytes + 20_000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.transform(X).toarray(), binning.transform(X).toarray())


def test_the_order_of_rows_makes_no_difference():
    X = np.vstack([table(150)] * 2)  # every row twice
    X[:, 4] = rng.integers(0, 4, 300)
    mixed = rng.permutation(300)
    one = RandomBinning(16, Laplacian(0.7), random_state=0).fit(X)
    two = RandomBinning(16, Laplacian(0.7), random_state=0).fit(X[mixed])
    np.testing.assert_array_equal(one.keys_, two.keys_)


@parametrize_with_checks([RandomBinning()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_fullest_cell_of_each_grid():
    binning = RandomBinning(16, Laplacian(2.0), random_state=0).fit(X := table(200))
    counts = binning.transform(X).getnnz(axis=0)
    fullest = np.maximum.reduceat(counts, binning.starts_[:-1])
    np.testing.assert_allclose(binning.largest_cell_, fullest / 200)


def test_more_grids_continue_a_map():
    binning = RandomBinning(8, Laplacian(), random_state=0).fit(table())
    assert RandomBinning(8, Laplacian()).continues(binning)
    assert RandomBinning(9, Laplacian()).continues(binning)
    assert not RandomBinning(7, Laplacian()).continues(binning)
    assert not RandomBinning(9, Laplacian(2.0)).continues(binning)
    assert not RandomBinning(9, Laplacian()).continues(None)


def test_a_continued_map_is_the_same_function_on_more_grids_and_rows():
    X, new = table(), table(60)
    last = RandomBinning(8, Laplacian(), random_state=0).fit(X)
    coef = rng.normal(size=(last.n_outputs, 2))
    source = RowSource(np.vstack([X, new]))
    binning, moved = RandomBinning(12, Laplacian()).resume(last, coef, source)
    assert binning.n_outputs > last.n_outputs
    np.testing.assert_allclose(binning.transform(X) @ moved, last.transform(X) @ coef)
    assert (binning.transform(new).getnnz(axis=1) == 12).all()


def test_entries_of_a_sparse_table_that_come_twice_are_added():
    X = rng.random((200, 20)) * (rng.random((200, 20)) < 0.1)
    once = sparse.coo_matrix(X)
    rows, columns = np.tile(once.row, 2), np.tile(once.col, 2)
    halves = sparse.coo_matrix((np.tile(once.data / 2, 2), (rows, columns)), shape=X.shape)
    twice = sparse.csr_matrix((200, 20))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(halves.row, minlength=200))])
    order = np.argsort(halves.row, kind="stable")
    twice = sparse.csr_matrix((halves.data[order], halves.col[order], indptr), shape=X.shape)
    assert not twice.has_canonical_format
    binning = RandomBinning(16, Laplacian(0.3), random_state=0).fit(X)
    np.testing.assert_array_equal(
        binning.transform(twice).toarray(), binning.transform(X).toarray()
    )


def test_one_far_row_does_not_merge_the_others():
    X = rng.normal(size=(300, 1))
    X[0] = 1e9
    binning = RandomBinning(64, Laplacian(1.0), random_state=0).fit(X)
    K = (binning.transform(X[1:50]) @ binning.transform(X[1:50]).T).toarray()
    assert np.abs(K - Laplacian(1.0)(X[1:50])).mean() < 0.06
