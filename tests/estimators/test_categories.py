"""Estimators on random binning take categorical columns as they are."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import cross_val_score

import rkhs
from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import Nystrom, RandomBinning

CITIES = ["Bern", "Oslo", "Rome", "Ulm"]


def make_frame(n_rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n_rows), "city": rng.choice(CITIES, n_rows)})
    effect = frame["city"].map({"Bern": 0.0, "Oslo": 3.0, "Rome": -3.0, "Ulm": 1.0}).to_numpy()
    y = np.sin(2 * frame["x"].to_numpy()) + effect
    return frame, y


TRAIN, Y = make_frame(1500, 0)
TEST, Y_TEST = make_frame(500, 1)
REGRESSOR = {"kernel": "laplacian", "features": RandomBinning(256), "random_state": 0}


def test_what_depends_on_a_category_is_learnt():
    assert KernelRegressor(**REGRESSOR).fit(TRAIN, Y).score(TEST, Y_TEST) > 0.97
    # Every other category: no smooth function of their order.
    labels, expected = (np.isin(f["city"], ["Bern", "Rome"]) for f in (TRAIN, TEST))
    model = KernelClassifier(kernel="laplacian", features="random_binning", random_state=0)
    assert model.fit(TRAIN, labels).score(TEST, expected) > 0.99


def test_a_column_of_codes_alone_gives_the_mean_of_each_category():
    model = KernelRegressor(**REGRESSOR, alpha=1e-8).fit(TRAIN[["city"]], Y)
    means = pd.Series(Y).groupby(TRAIN["city"].to_numpy()).mean()
    got = model.predict(pd.DataFrame({"city": CITIES}))
    np.testing.assert_allclose(got, means[CITIES], atol=1e-2)


def test_pandas_and_polars_give_the_same_model():
    expected = KernelRegressor(**REGRESSOR).fit(TRAIN, Y).predict(TEST)
    for kind in (pl.String, pl.Categorical, pl.Enum(CITIES[::-1])):
        train, test = (
            pl.from_pandas(f).with_columns(pl.col("city").cast(kind)) for f in (TRAIN, TEST)
        )
        model = KernelRegressor(**REGRESSOR).fit(train, Y)
        np.testing.assert_array_equal(model.predict(test), expected)
        np.testing.assert_array_equal(model.predict(TEST), expected)


def test_new_categories_and_missing_values_at_prediction():
    model = KernelRegressor(**REGRESSOR).fit(TRAIN, Y)
    lima, missing = TEST.assign(city="Lima"), TEST.assign(city=None)
    assert np.isfinite(model.predict(lima)).all()
    np.testing.assert_array_equal(model.predict(lima), model.predict(missing))
    # Both know no more of a row than its number.
    np.testing.assert_array_less(np.abs(model.predict(lima)), np.abs(Y).max())


def test_missing_values_in_training_are_a_category():
    frame = TRAIN.assign(city=TRAIN["city"].where(TRAIN["city"] != "Rome", None))
    model = KernelRegressor(**REGRESSOR).fit(frame, Y)
    assert model.categories_ == [None, ["Bern", "Oslo", "Ulm", None]]
    test = TEST.assign(city=TEST["city"].where(TEST["city"] != "Rome", None))
    assert model.score(test, Y_TEST) > 0.97


def test_pickled_and_saved_models_predict_the_same(tmp_path):
    model = KernelClassifier(features="random_binning", kernel="laplacian", random_state=0)
    model.fit(TRAIN, TRAIN["city"])
    rkhs.save(model, tmp_path / "model.safetensors")
    for again in (pickle.loads(pickle.dumps(model)), rkhs.load(tmp_path / "model.safetensors")):
        assert again.categories_ == model.categories_
        np.testing.assert_array_equal(again.predict_proba(TEST), model.predict_proba(TEST))


def test_the_fitted_map_takes_the_frame_too():
    model = KernelRegressor(**REGRESSOR).fit(TRAIN.rename(columns={"x": 0, "city": 1}), Y)
    Z = model.features_.transform(TEST.rename(columns={"x": 0, "city": 1}))
    f = Z @ model.expansion_.coef
    np.testing.assert_allclose(
        f[:, 0], model.predict(TEST.rename(columns={"x": 0, "city": 1})), rtol=1e-4, atol=1e-5
    )


def test_cross_validation_early_stopping_and_callbacks():
    model = KernelRegressor(**REGRESSOR, early_stopping=True)
    assert cross_val_score(model, TRAIN, Y, cv=3).min() > 0.9
    monitor = ScoringMonitor(scoring="r2")
    model.set_callbacks(monitor).fit(TRAIN, Y)
    assert monitor.get_logs().data[0]["r2"] == pytest.approx(model.score(TRAIN, Y))


def test_a_warm_start_keeps_the_codes_and_takes_new_categories():
    model = KernelRegressor(**REGRESSOR, warm_start=True)
    known = TRAIN["city"] != "Bern"
    model.fit(TRAIN[known], Y[known])
    model.fit(TRAIN, Y)
    assert model.categories_ == [None, ["Oslo", "Rome", "Ulm", "Bern"]]
    assert model.features_.categories_ == model.categories_
    assert model.score(TEST, Y_TEST) > 0.97
    steps = model.n_iter_
    assert model.fit(TRAIN, Y).n_iter_ < steps


def test_columns_are_checked():
    model = KernelRegressor(**REGRESSOR).fit(TRAIN, Y)
    assert list(model.feature_names_in_) == ["x", "city"]
    with pytest.raises(ValueError, match="same order"):
        model.predict(TEST[["city", "x"]])
    with pytest.raises(ValueError, match="Give a data frame"):
        model.predict(np.zeros((2, 2)))
    numbers = KernelRegressor(**REGRESSOR).fit(TRAIN[["x"]], Y)
    assert numbers.categories_ is None
    with pytest.raises(ValueError, match="feature names"):
        numbers.predict(TEST)


@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier", Nystrom(10)])
def test_other_features_refuse_and_name_the_way(features):
    with pytest.raises(ValueError, match=r"'city'.*OneHotEncoder.*features=\"random_binning\""):
        KernelRegressor(features=features).fit(TRAIN, Y)
