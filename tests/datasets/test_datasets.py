"""Named tables come from the user's folder or a download; the arm obeys its formula."""

from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from numpy.testing import assert_allclose, assert_array_equal

from rkhs import datasets


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RKHS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("RKHS_DATA", raising=False)


def test_file_of_the_folder_is_read(folder):
    X, y = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1], dtype=np.int8)
    np.savez(folder / "mine.npz", X=X, y=y, columns=["a", "b"])
    data = datasets.load("mine")
    assert_array_equal(data.X, X)
    assert_array_equal(data.y, y)
    assert data.y.dtype == np.int8
    assert data.X_test is None
    assert data.y_test is None


def test_official_split_is_read(folder):
    np.savez(folder / "split.npz", X=np.eye(2), y=[0, 1], X_test=np.ones((1, 2)), y_test=[5])
    X, y, X_test, y_test = datasets.load("split")
    assert len(X) == len(y) == 2
    assert_array_equal(X_test, [[1.0, 1.0]])
    assert_array_equal(y_test, [5])


def test_folder_comes_before_a_download(folder):
    np.savez(folder / "covtype.npz", X=np.eye(2), y=[0, 1])
    assert datasets.load("covtype").X.shape == (2, 2)


def test_pickles_are_not_opened(folder):
    np.savez(folder / "trap.npz", X=np.array([{}], dtype=object), y=[0])
    with pytest.raises(ValueError, match="allow_pickle=False"):
        datasets.load("trap")


def test_file_without_targets_is_refused(folder):
    np.savez(folder / "half.npz", X=np.eye(2))
    with pytest.raises(ValueError, match=r"half.npz' has no array named y\."):
        datasets.load("half")


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.95])
def test_damaged_file_is_named(folder, kept):
    path = folder / "half.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(100, 3)), y=np.arange(100))
    whole = path.read_bytes()
    path.write_bytes(whole[: kept if isinstance(kept, int) else int(kept * len(whole))])
    with pytest.raises(ValueError, match=r"half\.npz' is damaged"):
        datasets.load("half")


def test_changed_bytes_are_noticed(folder):
    path = folder / "changed.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(100, 3)), y=np.arange(100))
    data = bytearray(path.read_bytes())
    data[500] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"changed\.npz' is damaged"):
        datasets.load("changed")


def test_failed_download_says_what_to_do(no_folder, monkeypatch):
    def unreachable(**_):
        raise URLError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", unreachable)
    with pytest.raises(
        OSError, match=r"'covtype' could not be.*no network.*covtype\.npz.*RKHS_DATA"
    ):
        datasets.load("covtype")


@pytest.mark.parametrize("name", ["nothing", "../outside", "", "mine.npz"])
def test_unknown_name_lists_the_known_ones(name, folder):
    np.savez(folder.parent / "outside.npz", X=np.eye(2), y=[0, 1])
    np.savez(folder / "mine.npz", X=np.eye(2), y=[0, 1])
    with pytest.raises(ValueError, match="'california_housing', 'covtype', 'mine', 'mnist'"):
        datasets.load(name)


def test_unknown_name_without_a_folder_says_where_to_put_one(no_folder):
    with pytest.raises(ValueError, match=r"folder of NAME\.npz files in RKHS_DATA"):
        datasets.load("nothing")


def test_california_housing_has_the_raw_columns(no_folder, monkeypatch):
    # longitude, latitude, age, rooms, bedrooms, population, households, income of the census
    raw = np.array(
        [
            [-122.23, 37.88, 41.0, 880.0, 129.0, 322.0, 126.0, 8.3252],
            [-122.22, 37.86, 21.0, 7099.0, 1106.0, 2401.0, 1138.0, 8.3014],
        ]
    )
    dollars = np.array([452_600.0, 358_500.0])
    longitude, latitude, age, rooms, bedrooms, population, households, income = raw.T
    ratios = np.stack(
        [
            *(income, age, rooms / households, bedrooms / households, population),
            *(population / households, latitude, longitude),
        ],
        axis=1,
    )

    def fetch(return_X_y):
        assert return_X_y
        return ratios, dollars / 1e5

    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", fetch)
    data = datasets.load("california_housing")
    assert_array_equal(data.X, raw.astype(np.float32))
    assert_array_equal(data.y, dollars)
    assert data.X_test is None


def test_covtype_is_downloaded(no_folder, monkeypatch):
    X, y = np.arange(8.0).reshape(2, 4), np.array([7, 1], dtype=np.int32)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda return_X_y: (X, y))
    data = datasets.load("covtype")
    assert_array_equal(data.X, X)
    assert data.X.dtype == np.float32
    assert_array_equal(data.y, y)


def test_mnist_is_split_as_published(no_folder, monkeypatch):
    asked = []

    def fetch(name, **options):
        asked.append((name, options["version"]))
        labels = np.array(["5"] * 60_000 + ["7"] * 10_000, dtype=object)
        return np.broadcast_to(255.0, (70_000, 2)), labels

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    X, y, X_test, y_test = datasets.load("mnist")
    assert asked == [("mnist_784", 1)]
    assert X.shape == (60_000, 2)
    assert X.dtype == np.uint8
    assert X.max() == 255
    assert set(y) == {5}
    assert X_test.shape == (10_000, 2)
    assert set(y_test) == {7}


def test_arm_follows_its_joints_one_by_one():
    X, y = datasets.robot_arm(50, noise=0.0, random_state=0)
    for angles, distance in zip(X, y, strict=True):
        hand, direction = 0j, 0.0
        for angle in angles:
            direction += angle
            hand += np.exp(1j * direction) / 8
        assert_allclose(distance, abs(hand - (0.1 + 0.1j)), rtol=1e-12)


def test_arm_repeats_with_its_seed_and_has_the_noise_it_says():
    clean = datasets.robot_arm(20_000, noise=0.0, random_state=3)
    noisy = datasets.robot_arm(20_000, noise=0.05, random_state=3)
    assert_array_equal(noisy[0], clean[0])
    assert np.abs(clean[0]).max() <= np.pi / 4
    # The standard error of a standard deviation of n normal values is sd / sqrt(2 n).
    assert abs((noisy[1] - clean[1]).std() - 0.05) < 4 * 0.05 / np.sqrt(40_000)
    assert_array_equal(datasets.robot_arm(20_000, noise=0.05, random_state=3)[1], noisy[1])
