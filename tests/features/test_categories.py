"""Categorical columns in random binning: equality bins, against the exact kernel."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import pdist

import rkhs
from rkhs.features import Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Laplacian

rng = np.random.default_rng(6)
ROWS = pd.DataFrame(
    {
        "height": [0.0, 0.3, 0.3, 1.0, -0.7, 0.3],
        "city": ["Rome", "Oslo", "Rome", "Oslo", "Bern", None],
        "sort": pd.Categorical([3, 3, 1, 3, 1, 1]),
    }
)
SCALES = np.array([0.8, 1.5, 0.6])


def distances(frame):
    """|x_j - x'_j| of all pairs of rows and columns, 0 or 1 where j is categorical."""
    height, city, sort = (frame[name].to_numpy() for name in ("height", "city", "sort"))
    city = frame["city"].fillna("missing").to_numpy()
    return np.stack(
        [
            np.abs(height[:, None] - height),
            (city[:, None] != city).astype(float),
            (np.asarray(sort)[:, None] != np.asarray(sort)).astype(float),
        ]
    )


def exact(frame, scales):
    return np.exp(-np.einsum("jab,j->ab", distances(frame), 1 / np.asarray(scales)))


def large_frame(n_rows=400):
    return pd.DataFrame(
        {
            "height": rng.normal(size=n_rows),
            "city": rng.choice(["Rome", "Oslo", "Bern", "Ulm"], n_rows),
            "sort": pd.Categorical(rng.choice([1, 2, 3], n_rows, p=[0.95, 0.03, 0.02])),
        }
    )


def assert_estimates(Z, truth, n_grids):
    estimate = (Z @ Z.T).toarray()
    error = np.sqrt(truth * (1 - truth) / n_grids)
    assert (np.abs(estimate - truth) <= 4 * error + 1e-6).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_is_a_product_with_equality_of_categories(seed):
    features = RandomBinning(20_000, Laplacian(SCALES), random_state=seed)
    assert_estimates(features.fit_transform(ROWS), exact(ROWS, SCALES), 20_000)


def test_rare_categories_are_the_same_kernel():
    frame = large_frame()
    features = RandomBinning(4000, Laplacian(SCALES), random_state=0).fit(frame)
    np.testing.assert_array_equal(features.sparse_, [False, False, True])
    few = frame.iloc[np.r_[np.flatnonzero(frame["sort"] != 1)[:10], :10]]
    assert_estimates(features.transform(few), exact(few, SCALES), 4000)


def test_a_sum_of_kernels_has_both_parts():
    kernel = 0.5 * Laplacian(0.7) + 1.5 * Laplacian(3.0)
    Z = RandomBinning(20_000, kernel, random_state=0).fit_transform(ROWS)
    truth = 0.5 * exact(ROWS, [0.7] * 3) + 1.5 * exact(ROWS, [3.0] * 3)
    assert_estimates(Z / np.sqrt(2.0), truth / 2.0, 20_000)


def test_a_new_category_is_different_from_all_others():
    n_grids = 20_000
    features = RandomBinning(n_grids, Laplacian(SCALES), random_state=0).fit(ROWS)
    new = ROWS.assign(city="Lima")
    estimate = (features.transform(new) @ features.transform(ROWS).T).toarray()
    # Rows of the table's own sorts and heights, all with another city.
    distance = distances(ROWS)
    distance[1] = 1.0
    truth = np.exp(-np.einsum("jab,j->ab", distance, 1 / SCALES))
    error = np.sqrt(truth * (1 - truth) / n_grids)
    assert (np.abs(estimate - truth) <= 4 * error).all()


def test_codes_of_many_categories_are_told_apart():
    n = 300_000
    frame = pd.DataFrame({"name": np.arange(n).astype(str)})
    features = RandomBinning(4, Laplacian(0.01), random_state=0).fit(frame)
    np.testing.assert_array_equal(np.diff(features.starts_), n)


@pytest.mark.parametrize("spec", ["auto", "median"])
def test_length_scales_look_at_equality_alone(spec):
    frame = large_frame()
    features = RandomBinning(1, Laplacian(spec), random_state=0).fit(frame)
    pairs = np.triu_indices(len(frame), k=1)
    distance = distances(frame)[:, *pairs]
    # Two rows of independent draws are twice the variance apart.
    mean_square = (distance**2).mean(axis=1) * (len(frame) - 1) / len(frame)
    unit = np.sqrt(0.5 * mean_square)
    if spec == "median":
        unit = [np.median(pdist(frame[["height"]].to_numpy())), 1.0, 1.0]
    unit = np.asarray(unit)
    expected = unit * np.median(distance.T @ (1 / unit))
    np.testing.assert_allclose(features.kernel_.length_scale, expected, rtol=1e-3)


def test_two_categories_have_the_scale_of_a_column_of_zeros_and_ones():
    codes = rng.integers(0, 2, 300)
    frame = pd.DataFrame({"x": rng.normal(size=300), "c": np.where(codes, "yes", "no")})
    number = frame.assign(c=codes.astype(float))
    scales = [RandomBinning(1, random_state=0).fit(f).kernel_.length_scale for f in (frame, number)]
    np.testing.assert_allclose(*scales, rtol=1e-12)


def test_a_column_of_one_category_is_ignored():
    frame = pd.DataFrame({"x": [0.0, 1.0], "c": ["a", "a"]})
    features = RandomBinning(64, random_state=0).fit(frame)
    assert features.kernel_.length_scale[1] == np.inf
    other = features.transform(frame.assign(c="b"))
    np.testing.assert_array_equal(other.toarray(), features.transform(frame).toarray())


def test_pandas_and_polars_and_the_order_of_categories_make_no_difference():
    frame = large_frame()
    expected = RandomBinning(32, random_state=0).fit(frame)
    others = [
        frame.astype({"city": "category"}),
        frame.assign(city=pd.Categorical(frame["city"], ["Ulm", "Lima", "Oslo", "Rome", "Bern"])),
        frame.assign(sort=frame["sort"].cat.reorder_categories([3, 1, 2])),
    ]
    for other in others:
        features = RandomBinning(32, random_state=0).fit(other)
        np.testing.assert_array_equal(features.keys_, expected.keys_)
        np.testing.assert_array_equal(
            features.transform(frame).indices, expected.transform(frame).indices
        )
    names = frame[["height", "city"]]
    expected = RandomBinning(32, random_state=0).fit(names)
    for kind in (pl.String, pl.Categorical, pl.Enum(["Ulm", "Oslo", "Rome", "Bern"])):
        other = pl.from_pandas(names).with_columns(pl.col("city").cast(kind))
        features = RandomBinning(32, random_state=0).fit(other)
        np.testing.assert_array_equal(features.keys_, expected.keys_)
        np.testing.assert_array_equal(
            features.transform(other).indices, expected.transform(names).indices
        )


def test_float32_stays():
    frame = ROWS.astype({"height": np.float32})
    assert RandomBinning(4, random_state=0).fit_transform(frame).dtype == np.float32


def test_grids_of_numbers_are_those_of_a_table_without_categories():
    features = RandomBinning(8, Laplacian(1.0), random_state=0).fit(ROWS)
    numbers = RandomBinning(8, Laplacian(1.0), random_state=0).fit(
        ROWS[["height"]].assign(b=0, c=0)
    )
    for g in range(8):
        assert features.grid(g).inverse_width[0] == numbers.grid(g).inverse_width[0]
        assert features.grid(g).offset[0] == numbers.grid(g).offset[0]


def test_pickled_and_saved_maps_know_the_categories(tmp_path):
    features = RandomBinning(64, random_state=0).fit(ROWS)
    expected = features.transform(ROWS).toarray()
    rkhs.save(features, tmp_path / "map.safetensors")
    for again in (pickle.loads(pickle.dumps(features)), rkhs.load(tmp_path / "map.safetensors")):
        assert again.categories_ == [None, ["Bern", "Oslo", "Rome", None], [1, 3]]
        np.testing.assert_array_equal(again.transform(ROWS).toarray(), expected)


def test_columns_are_checked_by_name():
    features = RandomBinning(4).fit(ROWS)
    assert list(features.feature_names_in_) == ["height", "city", "sort"]
    with pytest.raises(ValueError, match="feature names"):
        features.transform(ROWS[["city", "height", "sort"]])
    with pytest.raises(ValueError, match="Give a data frame"):
        features.transform(np.zeros((2, 3)))


@pytest.mark.parametrize("features", [Nystrom(2), RandomFourier(2)])
def test_other_maps_refuse_categories_and_name_one_that_does_not(features):
    with pytest.raises(ValueError, match=r"'city', 'sort'.*features=\"random_binning\""):
        features.fit(ROWS)
