"""A loaded model is the saved one to the bit, and a bad file is refused in a sentence."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import rkhs
from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import FEATURES, Nystrom, RandomFourier
from rkhs.kernels import KERNELS, Gaussian, Laplacian, Matern, RationalQuadratic
from rkhs.losses import LOSSES, Huber
from rkhs.persistence import FORMAT_VERSION, read_header
from rkhs.solvers import SGD, SOLVERS, ConjugateGradient, Exact, NewtonCG

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(90, 3))
X_NEW = RANDOM.normal(size=(40, 3))
LABELS = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])
Y = np.sin(X[:, 0]) + X[:, 1]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def again(model, path):
    rkhs.save(model, path)
    return rkhs.load(path)


CLASSIFIERS = {
    "exact": KernelClassifier(random_state=0),
    "nystrom_newton": KernelClassifier(features=Nystrom(30), random_state=1),
    "nystrom_cg": KernelClassifier(
        loss="squared_error",
        features=Nystrom(30, sampling="kmeans++"),
        solver=ConjugateGradient(tol=1e-5),
        random_state=1,
    ),
    "fourier_newton": KernelClassifier(
        kernel=0.5 * Gaussian(2.0) + Laplacian("median") * Matern([1.0, 2.0, np.inf], nu=2.5),
        features=RandomFourier(101, sampling="qmc"),
        solver=NewtonCG(max_inner=20),
        random_state=2,
    ),
    "fourier_sgd_hinge": KernelClassifier(
        loss="hinge", features="random_fourier", solver=SGD(batch_size=7), max_epochs=3
    ),
    "early_stopping": KernelClassifier(
        features="nystrom", early_stopping=True, validation_fraction=0.2, random_state=3
    ),
    "float64": KernelClassifier(features="nystrom", dtype="float64", random_state=4),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifier_predicts_the_same_bits(name, n_classes, path):
    model = CLASSIFIERS[name].fit(X, np.minimum(LABELS, n_classes - 1))
    loaded = again(model, path)
    methods = ["predict", "decision_function"]
    if model.loss_.has_probability:
        methods += ["predict_proba", "predict_log_proba"]
    for method in methods:
        expected, got = getattr(model, method)(X_NEW), getattr(loaded, method)(X_NEW)
        assert got.dtype == expected.dtype
        assert_array_equal(got, expected)
    assert loaded.score(X, LABELS) == model.score(X, LABELS)


@pytest.mark.parametrize(
    "model",
    [
        KernelRegressor(random_state=0),
        KernelRegressor(loss=Huber(delta=0.3), features=Nystrom(25), random_state=0),
        KernelRegressor(
            kernel=RationalQuadratic("auto", exponent=np.float64(1.5)),
            features=RandomFourier(64, sampling="orthogonal"),
            solver="conjugate_gradient",
            random_state=0,
        ),
    ],
    ids=["exact", "nystrom", "fourier"],
)
@pytest.mark.parametrize(
    "y",
    [Y, Y[:, None], np.stack([Y, X[:, 2]], axis=1)],
    ids=["vector", "column", "two"],
)
def test_regressor_predicts_the_same_bits_in_the_same_shape(model, y, path):
    expected = model.fit(X, y).predict(X_NEW)
    got = again(model, path).predict(X_NEW)
    assert got.shape == (len(X_NEW), *y.shape[1:])
    assert_array_equal(got, expected)


def test_wide_nystrom_model_predicts_the_same_bits(path):
    # Many outputs: the memory order of the coefficients decides how BLAS adds.
    wide = RANDOM.normal(size=(300, 5)).astype(np.float32)
    targets = RANDOM.normal(size=(300, 33))
    model = KernelRegressor(features=Nystrom(150), random_state=0).fit(wide, targets)
    loaded = again(model, path)
    assert loaded.expansion_.coef.flags.f_contiguous == model.expansion_.coef.flags.f_contiguous
    assert_array_equal(loaded.predict(wide), model.predict(wide))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, np.float32, np.float64])
def test_centres_keep_their_dtype(dtype, path):
    table = (RANDOM.uniform(0, 3, (50, 4))).astype(dtype)
    model = KernelRegressor(features=Nystrom(20), random_state=0).fit(table, table[:, 0] * 1.0)
    loaded = again(model, path)
    assert loaded.expansion_.centers.dtype == model.expansion_.centers.dtype
    assert_array_equal(loaded.predict(table), model.predict(table))


def test_fitted_attributes_survive(path):
    model = KernelClassifier(
        loss="log_loss", features="nystrom", early_stopping=True, random_state=0
    ).fit(X, LABELS)
    loaded = again(model, path)
    for name in ("stop_reason_", "n_iter_", "alpha_", "n_features_in_", "history_"):
        assert getattr(loaded, name) == getattr(model, name), name
        assert type(getattr(loaded, name)) is type(getattr(model, name)), name
    for name in ("kernel_", "loss_", "features_", "solver_"):
        assert repr(getattr(loaded, name)) == repr(getattr(model, name)), name
    assert_array_equal(loaded.expansion_.centers, model.expansion_.centers)
    assert not hasattr(loaded, "feature_names_in_")


def test_history_with_a_note_and_nan_survives(path):
    model = KernelRegressor().fit(X, Y)
    model.history_ = [{"epoch": 1, "objective": float("nan"), "note": "The step [/] 'was' cut ü"}]
    (row,) = again(model, path).history_
    assert np.isnan(row.pop("objective"))
    assert row == {"epoch": 1, "note": "The step [/] 'was' cut ü"}


def test_parameters_survive_with_their_types(path):
    params = {
        "kernel": Gaussian(np.array([1.0, np.inf, 2.0])) * 2 + Laplacian([1, 2, 3]),
        "loss": "squared_error",
        "features": Nystrom(10, random_state=5),
        "solver": ConjugateGradient(tol=np.float32(1e-3), preconditioner=None),
        "alpha": np.float64(0.1),
        "max_epochs": 7,
        "time_budget": 100.0,
        "memory_limit": "1 GB",
        "n_jobs": -1,
        "random_state": 11,
        "verbose": False,
        "warm_start": True,
        "dtype": "float64",
        "class_weight": {0: 1.0, 1: np.float64(2.0), 2: 3},
    }
    model = KernelClassifier(**params).fit(X, LABELS)
    loaded = again(model, path)
    before, after = model.get_params(), loaded.get_params()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert type(after[name]) is type(value), name
        assert repr(after[name]) == repr(value), name
    loaded.fit(X, LABELS)  # and they are good for a new fit
    assert_array_equal(loaded.predict(X_NEW), model.fit(X, LABELS).predict(X_NEW))


def test_length_scales_and_class_weights_by_name_survive(path):
    names = np.array(["a", "b", "c"])[LABELS]
    weights = {"a": 1.0, "b": 2.0, "c": 0.5}
    scales = np.array([1.0, np.inf, 0.25])
    model = KernelClassifier(
        features="nystrom", length_scale=scales, class_weight=weights, random_state=0
    ).fit(X, names)
    loaded = again(model, path)
    assert loaded.class_weight == weights
    assert_array_equal(loaded.length_scale, scales)
    assert_array_equal(loaded.predict_proba(X_NEW), model.predict_proba(X_NEW))


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, -1, 7]),
        np.array([3, 1, 7], dtype=np.uint8),
        np.array([0.0, 1.0, 2.0]),
        np.array(["x", "yy", "ü"]),
        np.array(["x", "yy", "ü"], dtype=object),
        np.array([True, False, True]),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_classes_keep_dtype_and_values(classes, path):
    model = KernelClassifier(features="nystrom", random_state=0).fit(X, classes[LABELS])
    loaded = again(model, path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_array_equal(loaded.classes_, model.classes_)
    assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))


def test_feature_names_survive(path):
    frame = pd.DataFrame(X, columns=["a", "long name", "ü"])
    loaded = again(KernelRegressor().fit(frame, Y), path)
    assert_array_equal(loaded.feature_names_in_, frame.columns)
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "b"}))


def test_random_state_object_comes_back_as_none(path):
    model = KernelRegressor(features="nystrom", random_state=np.random.RandomState(0)).fit(X, Y)
    loaded = again(model, path)
    assert loaded.random_state is None
    assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc"])
def test_fourier_map_is_a_law_and_a_seed(sampling, path):
    fourier = RandomFourier(3001, sampling=sampling).fit(X)
    expected = fourier.transform(X_NEW)
    loaded = again(fourier, path)
    assert_array_equal(loaded.transform(X_NEW), expected)
    assert path.stat().st_size < 3000  # 1501 frequencies alone would take 36 kB
    assert all(array.shape == (X.shape[1],) for array in load_file(path).values())


def test_nystrom_map_round_trips(path):
    frame = pd.DataFrame(X, columns=list("abc"))
    nystrom = Nystrom(20, kernel="laplacian", random_state=0).fit(frame)
    loaded = again(nystrom, path)
    new = pd.DataFrame(X_NEW, columns=list("abc"))
    assert_array_equal(loaded.transform(new), nystrom.transform(new))
    assert_array_equal(loaded.get_feature_names_out(), nystrom.get_feature_names_out())


def test_arrays_are_stored_once_and_the_factor_not_at_all(path):
    big = RANDOM.normal(size=(400, 50))
    model = KernelRegressor(features=Nystrom(300), random_state=0).fit(big, big[:, 0])
    loaded = again(model, path)
    assert path.stat().st_size < 1.1 * model.expansion_.nbytes + 5000
    with pytest.raises(NotFittedError):
        loaded.features_.transform(big)
    assert loaded.expansion_.kernel is loaded.kernel_


def test_fourier_estimator_shares_its_map(path):
    model = KernelRegressor(features=RandomFourier(50), random_state=0).fit(X, Y)
    loaded = again(model, path)
    assert loaded.features_ is loaded.expansion_.feature_map
    assert_array_equal(loaded.features_.transform(X_NEW), model.features_.transform(X_NEW))


def test_same_model_gives_the_same_file(path, tmp_path):
    model = KernelRegressor(features="nystrom", random_state=0).fit(X, Y)
    rkhs.save(model, path)
    rkhs.save(rkhs.load(path), tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == path.read_bytes()


def test_class_names_of_the_registries_are_unique():
    kinds = {*KERNELS.values(), *LOSSES.values(), *FEATURES.values(), *SOLVERS.values()}
    assert len({kind.__name__ for kind in kinds}) == len(kinds)


# Refusals when saving


@pytest.mark.parametrize("model", [KernelClassifier(), RandomFourier(), Nystrom()], ids=repr)
def test_unfitted_is_refused(model, path):
    with pytest.raises(NotFittedError):
        rkhs.save(model, path)
    assert not path.exists()


def test_failed_fit_counts_as_unfitted(path):
    model = KernelClassifier(alpha=-1.0)
    with pytest.raises(ValueError, match="alpha must be"):
        model.fit(X, LABELS)
    with pytest.raises(NotFittedError):
        rkhs.save(model, path)


def test_stranger_is_refused(path):
    with pytest.raises(TypeError, match=r"save takes one of KernelClassifier.*got Ridge"):
        rkhs.save(Ridge().fit(X, Y), path)


class MyKernel(Gaussian):
    pass


class MyRegressor(KernelRegressor):
    pass


@pytest.mark.parametrize(
    "model", [KernelRegressor(kernel=MyKernel()), MyRegressor()], ids=["kernel", "estimator"]
)
def test_own_classes_are_refused(model, path):
    with pytest.raises(TypeError, match=r"My\w+\(.*not of a class of rkhs itself"):
        rkhs.save(model.fit(X, Y), path)
    assert not path.exists()


def test_unknown_parameter_value_is_refused(path):
    model = KernelRegressor(verbose=pd.Timestamp(0)).fit(X, Y)
    with pytest.raises(TypeError, match=r"cannot hold Timestamp.* of type Timestamp"):
        rkhs.save(model, path)


# Writing


def test_failed_write_leaves_the_old_file_and_no_other(path, monkeypatch):
    old = KernelRegressor().fit(X, Y)
    rkhs.save(old, path)
    content = path.read_bytes()

    def full_disk(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        rkhs.save(KernelRegressor(alpha=1.0).fit(X, Y), path)
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == content


def test_full_disk_while_arrays_are_written(path):
    resource = pytest.importorskip("resource", reason="file size limits are POSIX")
    rkhs.save(KernelRegressor().fit(X, Y), path)
    content = path.read_bytes()
    big = KernelRegressor().fit(RANDOM.normal(size=(300, 50)), RANDOM.normal(size=300))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match=r"model.safetensors' could not be written.*too large"):
            rkhs.save(big, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == content


def test_file_modes_and_links_are_those_of_an_ordinary_write(path, tmp_path):
    model = KernelRegressor().fit(X, Y)
    plain = tmp_path / "plain"
    plain.touch()
    rkhs.save(model, str(path))
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    rkhs.save(model, link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        rkhs.save(KernelRegressor().fit(X, Y), tmp_path / "nowhere" / "model")


# Reading


def refused(path, reason):
    return pytest.raises(ValueError, match=rf"(?s){path.name}' cannot be read.*{reason}")


def test_missing_file_stays_file_not_found(path):
    with pytest.raises(FileNotFoundError):
        rkhs.load(path)


@pytest.mark.parametrize("content", [b"", b"abc", b"\x80\x04N." * 50, b"\xff" * 1000])
def test_foreign_bytes_are_refused(content, path):
    path.write_bytes(content)
    with refused(path, "no safetensors file"):
        rkhs.load(path)


def test_foreign_safetensors_file_is_refused(path):
    save_file({"a": np.zeros(3)}, path)
    with refused(path, "not written by rkhs.save"):
        rkhs.load(path)


def test_truncated_file_is_refused_wherever_it_ends(path):
    rkhs.save(KernelRegressor(features=Nystrom(10)).fit(X, Y), path)
    content = path.read_bytes()
    for end in {*range(0, len(content) - 1, 97), len(content) - 1}:
        path.write_bytes(content[:end])
        with refused(path, "damaged or cut short"):
            rkhs.load(path)


def test_any_changed_byte_is_noticed(path):
    rkhs.save(KernelRegressor(features=Nystrom(10)).fit(X, Y), path)
    content = path.read_bytes()
    for place in range(0, len(content), 13):
        damaged = bytearray(content)
        damaged[place] ^= 0x04
        path.write_bytes(damaged)
        with refused(path, ""):
            rkhs.load(path)


def forge(model, path, change):
    """Rewrite a file with a changed header, and a checksum that fits."""
    from rkhs.persistence import _checksum

    rkhs.save(model, path)
    header, tensors = read_header(path), load_file(path)
    header.pop("checksum")
    change(header)
    header["checksum"] = _checksum(header, tensors)
    save_file(tensors, path, {"rkhs": json.dumps(header)})


def test_later_format_is_refused_with_advice(path):
    def later(header):
        header.update(format_version=FORMAT_VERSION + 1, rkhs_version="99.0")

    forge(KernelRegressor().fit(X, Y), path, later)
    with refused(path, r"rkhs 99\.0 in format 2.*Upgrade rkhs"):
        rkhs.load(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h: h["objects"][0].update({"class": "Popen"}), "'Popen', which rkhs"),
        (lambda h: h["objects"][-1]["attributes"].update(__class__=1), "'__class__'"),
        (lambda h: h["objects"][-1]["attributes"].update(predict=1), "'predict'"),
        (lambda h: h["objects"][-1]["attributes"].pop("expansion_"), "no expansion_"),
        (lambda h: h["objects"][-1]["attributes"].update(kernel_="gaussian"), "no kernel_"),
        (lambda h: h["objects"][-1]["attributes"].update(n_features_in_=7), "shapes"),
        (lambda h: h["objects"][0]["params"].update(length_scale={"object": 0}), "circle"),
        (lambda h: h["objects"][0]["params"].update(length_scale={"code": "1"}), "unknown form"),
        (lambda h: h["objects"][0]["params"].update(colour=1), "colour"),
        (lambda h: h["objects"].pop(), "not an estimator"),
        (lambda h: h["objects"].clear(), "make no sense"),
        (lambda h: h.pop("objects"), "make no sense"),
        (lambda h: h["objects"][-1]["attributes"].update(x_={"array": "77"}), "make no sense"),
        (
            lambda h: h["objects"][-1]["attributes"].update(x_={"scalar": 1, "dtype": "O"}),
            "scalar of dtype object",
        ),
    ],
)
def test_forged_header_is_refused(change, reason, path):
    forge(KernelRegressor().fit(X, Y), path, change)
    with refused(path, reason):
        rkhs.load(path)


def test_forged_preparation_is_refused(path):
    rng = np.random.default_rng(0)
    table = np.stack([rng.normal(size=200), rng.standard_cauchy(200)], axis=1)
    table[::7, 0] = np.nan
    model = KernelRegressor(random_state=0).fit(table, rng.normal(size=200))
    assert model.preparation_.origin_.tolist() == [0, 1, 0, 1]
    swaps = {
        "shift_": "origin_",
        "scale_": "missing_",
        "missing_": "heavy_",
        "heavy_": "missing_",
        "origin_": "shift_",
        "spread_": "shift_",
    }
    for one, other in swaps.items():

        def change(header, one=one, other=other):
            found = next(o for o in header["objects"] if o["class"] == "Preparation")["attributes"]
            found[one] = found[other]

        forge(model, path, change)
        with refused(path, "shapes|make no sense"):
            rkhs.load(path)


@pytest.mark.parametrize("spread", [[0.0], [np.nan], [[1.0, 2.0]]])
def test_preparation_that_would_divide_by_nothing_is_refused(spread, path):
    table = np.random.default_rng(0).standard_cauchy((1200, 1))
    model = KernelRegressor(random_state=0).fit(table, np.sign(table[:, 0]))
    model.preparation_.spread_ = np.array(spread)
    rkhs.save(model, path)
    with refused(path, "shapes"):
        rkhs.load(path)


@pytest.mark.parametrize("columns", [[0, 5], [-1, 0], [], [[0, 1]], [0.0, 1.0], [0, 1, 2]])
def test_columns_that_the_table_or_the_function_does_not_have_are_refused(columns, path):
    table = np.random.default_rng(0).normal(size=(1200, 5))
    model = KernelRegressor(random_state=0).fit(table, np.sin(table[:, 1]) + table[:, 3])
    assert model.columns_.tolist() == [1, 3]
    rkhs.save(model, path)
    np.testing.assert_array_equal(rkhs.load(path).predict(table), model.predict(table))
    model.columns_ = np.array(columns)
    rkhs.save(model, path)
    with refused(path, "shapes"):
        rkhs.load(path)


def stream_of(header):
    return next(o["params"] for o in header["objects"] if o["class"] == "Stream")


def state_of(header):
    return {pair[0]: pair for pair in stream_of(header)["state"]["dict"]}


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["objects"][-1]["attributes"].update(_stream=5),
        lambda h: stream_of(h).update(n_outputs=2),
        lambda h: stream_of(h).update(solver="dsg"),
        lambda h: stream_of(h).update(kernel=None),
        lambda h: stream_of(h).update(features=None),
        lambda h: stream_of(h).update(dtype="object"),
        lambda h: stream_of(h).pop("seed"),
        lambda h: state_of(h)["count"].__setitem__(1, -1),
        lambda h: state_of(h)["scale"].__setitem__(1, {"float": "nan"}),
        lambda h: state_of(h)["agreement"].__setitem__(1, {"float": "nan"}),
        lambda h: state_of(h)["waiting"].__setitem__(1, 5),
        lambda h: state_of(h)["coef"].__setitem__(1, state_of(h)["drift"][1]),
    ],
)
def test_forged_stream_is_refused(change, path):
    model = KernelRegressor(solver="dsg", random_state=0).partial_fit(X, Y)
    forge(model, path, lambda header: None)
    rkhs.load(path).partial_fit(X, Y)
    forge(model, path, change)
    with refused(path, "stream|shapes|make no sense"):
        rkhs.load(path)


def test_forging_alone_is_not_what_is_refused(path):
    forge(KernelRegressor().fit(X, Y), path, lambda header: None)
    assert rkhs.load(path).solver_.tol == Exact().tol


def test_import_is_light():
    code = (
        "import sys, rkhs\n"
        "assert 'sklearn' not in sys.modules\n"
        "rkhs.save, rkhs.kernels.Gaussian\n"
        "assert 'safetensors' not in sys.modules\n"
        "assert {'KernelClassifier', 'load', 'solvers'} <= set(dir(rkhs))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
