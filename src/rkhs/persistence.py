"""Model files: one safetensors file, arrays plus a JSON header. No pickle, ever.

The header is one JSON document in the file's metadata. Library objects stand in its list
"objects", each after the objects it refers to; the last one is the model. Values that JSON
lacks are written as a dictionary with one tag:

| tag | value |
|---|---|
| ``{"object": 3}`` | the object of that number |
| ``{"array": "0", "order": "C"}`` | the file's tensor of that name, in row or column order |
| ``{"strings": [...], "dtype": "object"}`` | an array of strings |
| ``{"scalar": 1.5, "dtype": "float64"}`` | a NumPy scalar |
| ``{"float": "inf"}`` | a float that is not finite |
| ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}`` | themselves |

A reader builds nothing but the classes of the library's own registries, with constructor
arguments and attributes of known names: opening a stranger's file runs no code of theirs.
"""

import contextlib
import json
import math
import os
import secrets
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from rkhs import __version__, estimators
from rkhs.data import Preparation
from rkhs.estimators._base import KernelMachine
from rkhs.estimators._more_rows import Stream
from rkhs.expansion import Expansion, FeatureExpansion, KernelExpansion, SumExpansion
from rkhs.features import FEATURES, Concatenated, FeatureMap
from rkhs.kernels import KERNELS, Kernel, Mapped, Product, Scaled, Sum
from rkhs.losses import LOSSES, Loss
from rkhs.solvers import SOLVERS

FORMAT_VERSION = 1
_KEY = "rkhs"  # of the header in the file's metadata
_MODELS = {name: getattr(estimators, name) for name in estimators.__all__}
_EXPANSIONS: dict[str, type] = {
    "FeatureExpansion": FeatureExpansion,
    "KernelExpansion": KernelExpansion,
    "SumExpansion": SumExpansion,
}
_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *KERNELS.values(),
        *(Sum, Product, Scaled, Mapped),
        *LOSSES.values(),
        *(*FEATURES.values(), Concatenated),
        *SOLVERS.values(),
        *_MODELS.values(),
        Preparation,
    )
}
_PRIVATE_ATTRIBUTES = ("_one_output", "_stream")
_FITTED_FIRST = ("expansion_", "_stream")  # they say which other parts are needed fitted
_TENSOR_DTYPES = "?bhilqBHILQefd"
_STRING_DTYPES: dict[str, Any] = {"str": np.str_, "object": object}


def save(estimator, path) -> None:
    """Write a fitted estimator or feature map to one file.

    The file appears whole or not at all: it is written next to `path` under another name
    and moved there last, so a crash or a full disk leaves an older file as it was.

    Parameters
    ----------
    estimator : KernelClassifier, KernelRegressor or a feature map
        Fitted.
    path : str or path-like
        Any name; ".safetensors" is the format's own ending.

    Raises
    ------
    NotFittedError
        If there is nothing to save yet.
    TypeError
        If the estimator, or one of its parameters, is not of a kind that a file can hold,
        such as a kernel class of your own.

    Notes
    -----
    Predictions of the loaded model are the same to the bit. After a solver of streams, by `fit` or
    `partial_fit`, the file also says where the stream stood: the solver's own coefficients, and
    those rows that wait for a batch to be full. `partial_fit` goes on from there. What a file does
    not hold:

    - random features: their law and seed are saved, never a matrix of frequencies;
    - a feature map that predicting does not need. The function of an estimator on Nyström
      features is saved as centres and coefficients, without the map's triangular factor,
      so its `features_` comes back unfitted; the centres are in `expansion_.centers`;
    - a `RandomState` given as `random_state`, which comes back as None;
    - where a fit with ``warm_start=True`` ended: the next fit after loading starts anew;
    - callbacks, metadata requests, and the container set by `set_output`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import rkhs
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = rkhs.KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     rkhs.save(model, path)
    ...     again = rkhs.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    if not isinstance(estimator, (KernelMachine, FeatureMap)):
        names = ", ".join([*_MODELS, *(kind.__name__ for kind in FEATURES.values())])
        raise TypeError(f"save takes one of {names}; got {type(estimator).__name__}.")
    check_is_fitted(estimator, "expansion_" if isinstance(estimator, KernelMachine) else None)
    writer = _Writer()
    writer.add_model(estimator)
    header = {
        "format_version": FORMAT_VERSION,
        "rkhs_version": __version__,
        "estimator": type(estimator).__name__,
        "objects": writer.objects,
    }
    header["checksum"] = _checksum(header, writer.tensors)
    _write(Path(os.path.realpath(path)), writer.tensors, {_KEY: _dumps(header)})


def load(path):
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        Fitted; see `save` for what a file does not hold.

    Raises
    ------
    ValueError
        If the file is damaged, is not an rkhs model, or comes from a later version.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import rkhs
    >>> from rkhs.features import RandomFourier
    >>> fourier = RandomFourier(8, random_state=0).fit(np.eye(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "map.safetensors")
    ...     rkhs.save(fourier, path)
    ...     rkhs.load(path)
    RandomFourier(n_features=8, random_state=0)
    """
    header, tensors = _read(path, with_tensors=True)
    with _explained(path):
        if header.pop("checksum", None) != _checksum(header, tensors):
            raise ValueError("its contents do not match their checksum: the file is damaged")
        reader = _Reader(tensors)
        for entry in header["objects"]:
            reader.add(entry)
        model = reader.objects[-1]
        if not isinstance(model, (KernelMachine, FeatureMap)):
            raise ValueError(f"it holds {type(model).__name__}, not an estimator")
        _check_model(model)
    return model


def read_header(path) -> dict:
    """What a model file says of itself, without its arrays.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    header : dict
        "format_version", "rkhs_version", "estimator" and "objects".

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import rkhs
    >>> from rkhs.persistence import read_header
    >>> model = rkhs.KernelClassifier().fit(np.eye(4), [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     rkhs.save(model, path)
    ...     read_header(path)["estimator"]
    'KernelClassifier'
    """
    return _read(path, with_tensors=False)[0]


class _Writer:
    """Turns values into JSON, and collects arrays and objects, each of them once."""

    def __init__(self):
        self.tensors: dict[str, np.ndarray] = {}
        self.objects: list[dict] = []
        self._seen: dict[tuple[int, bool], Any] = {}
        self._alive: list[Any] = []  # ids in `_seen` must stay taken

    def add_model(self, model) -> None:
        """A fitted estimator or map, with all it has learnt."""
        self._object(model, fitted=True)

    def value(self, value):
        """The JSON form of a parameter or an attribute."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic) and value.dtype.char in _TENSOR_DTYPES:
            return {"scalar": self.value(value.item()), "dtype": value.dtype.name}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if type(value) is list:
            return [self.value(item) for item in value]
        if type(value) is tuple:
            return {"tuple": [self.value(item) for item in value]}
        if type(value) is dict:
            return {"dict": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if isinstance(value, np.random.RandomState):
            return None
        if type(value) in _EXPANSIONS.values():
            return self._parts(value, vars(value))
        if type(value) is Stream:
            return self._parts(value, value.record())
        if isinstance(value, BaseEstimator):
            return self._object(value, fitted=isinstance(value, Preparation))
        raise TypeError(
            f"A model file cannot hold {value!r} of type {type(value).__name__}; numbers, "
            "strings, NumPy arrays, lists, dictionaries and the library's own objects it can."
        )

    def _array(self, array):
        if array.dtype.kind in "UO":
            strings = array.tolist()
            if array.ndim != 1 or not all(isinstance(item, str) for item in strings):
                raise TypeError(
                    f"A model file holds arrays of numbers, booleans or strings; got {array!r}."
                )
            return {"strings": strings, "dtype": "str" if array.dtype.kind == "U" else "object"}
        if array.dtype.char not in _TENSOR_DTYPES:
            raise TypeError(f"A model file cannot hold an array of dtype {array.dtype}.")
        return self._once(array, False, self._new_tensor)

    def _new_tensor(self, array):
        # The memory order is kept: the last bit of a matrix product can depend on it.
        transposed = array.flags.f_contiguous and not array.flags.c_contiguous
        name = str(len(self.tensors))
        self.tensors[name] = np.asarray(array.T if transposed else array, order="C")
        return {"array": name, "order": "F" if transposed else "C"}

    def _object(self, thing, fitted):
        if _CLASSES.get(type(thing).__name__) is not type(thing):
            raise TypeError(
                f"{thing!r} is not of a class of rkhs itself, and a model file holds no code. "
                "Pickle can store objects of your own classes."
            )
        # An estimator's `features_` that its function needs is that very map.
        fitted = fitted or (id(thing), True) in self._seen
        return self._once(thing, fitted, self._new_fitted if fitted else self._new_unfitted)

    def _new_unfitted(self, thing):
        return self._append(thing, self._params(thing))

    def _new_fitted(self, thing):
        params = self._params(thing)
        names = filter(_is_fitted_attribute, vars(thing))
        attributes = {
            name: self.value(getattr(thing, name))
            for name in sorted(names, key=lambda name: name not in _FITTED_FIRST)
        }
        return self._append(thing, params, attributes=attributes)

    def _params(self, thing):
        return {name: self.value(value) for name, value in thing.get_params(deep=False).items()}

    def _parts(self, thing, parts):
        """An object that is made of its parts, of which a feature map is needed fitted."""
        written = {}
        for name, part in parts.items():
            is_map = isinstance(part, FeatureMap)
            written[name] = self._object(part, fitted=True) if is_map else self.value(part)
        return self._append(thing, written)

    def _once(self, thing, fitted, write):
        key = id(thing), fitted
        if key not in self._seen:
            self._alive.append(thing)
            self._seen[key] = write(thing)
        return self._seen[key]

    def _append(self, thing, params, **more):
        self.objects.append({"class": type(thing).__name__, "params": params, **more})
        return {"object": len(self.objects) - 1}


class _Reader:
    """Turns JSON back into values; whatever it does not know is an error."""

    def __init__(self, tensors):
        self.objects: list[Any] = []
        self._tensors = tensors
        self._arrays: dict[tuple[str, str], np.ndarray] = {}

    def add(self, entry) -> None:
        """The next object, which may refer to earlier ones."""
        kind = entry["class"]
        params = {name: self.value(value) for name, value in entry["params"].items()}
        if kind in _EXPANSIONS:
            self.objects.append(_EXPANSIONS[kind](**params))
            return
        if kind == Stream.__name__:
            self.objects.append(Stream.restored(params))
            return
        if kind not in _CLASSES:
            raise ValueError(f"it holds the class {kind!r}, which rkhs {__version__} has not")
        thing = _CLASSES[kind](**params)
        for name, value in entry.get("attributes", {}).items():
            if not _is_fitted_attribute(name):
                raise ValueError(f"it sets the attribute {name!r}, which is not a fitted one")
            setattr(thing, name, self.value(value))
        self.objects.append(thing)

    def value(self, value):
        """The value of its JSON form."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "object" in value:
            return self._earlier(value["object"])
        if "array" in value:
            return self._array(value["array"], value["order"])
        if "strings" in value:
            return np.array(value["strings"], dtype=_STRING_DTYPES[value["dtype"]])
        if "scalar" in value:
            dtype = np.dtype(value["dtype"])
            if dtype.char not in _TENSOR_DTYPES:
                raise ValueError(f"it holds a scalar of dtype {dtype}")
            return dtype.type(self.value(value["scalar"]))
        if "float" in value:
            return float(value["float"])
        if "tuple" in value:
            return tuple(self.value(item) for item in value["tuple"])
        if "dict" in value:
            return {self.value(k): self.value(v) for k, v in value["dict"]}
        raise ValueError(f"it holds a value of unknown form, {value!r}")

    def _earlier(self, index):
        if type(index) is not int or not 0 <= index < len(self.objects):
            raise ValueError("its objects refer to each other in a circle")
        return self.objects[index]

    def _array(self, name, order):
        key = name, order
        if key not in self._arrays:
            self._arrays[key] = self._tensors[name].T if order == "F" else self._tensors[name]
        return self._arrays[key]


def _is_fitted_attribute(name: str) -> bool:
    public = name.endswith("_") and not name.startswith("_")
    return public or name in _PRIVATE_ATTRIBUTES


def _check_model(model) -> None:
    """Refuse a model that could not predict: parts are there, and their shapes agree."""
    needed: dict[str, type] = {"kernel_": Kernel, "n_features_in_": int}
    if isinstance(model, KernelMachine):
        needed |= {"loss_": Loss, "expansion_": Expansion}
    if is_classifier(model):
        needed["classes_"] = np.ndarray
    for name, kind in needed.items():
        if not isinstance(getattr(model, name, None), kind):
            raise ValueError(f"it has no {name} that is of type {kind.__name__}")
    if not isinstance(model, KernelMachine):
        return
    preparation = model.preparation_
    n_columns = model.n_features_in_
    if preparation is not None:
        if not preparation.fits(n_columns):
            raise ValueError("the shapes of its arrays do not agree")
        n_columns = len(preparation.origin_)
    if model.columns_ is not None:
        if not _are_numbers(model.columns_, n_columns):
            raise ValueError("the shapes of its arrays do not agree")
        n_columns = len(model.columns_)
    _check_expansion(model.expansion_, n_columns)
    stream = getattr(model, "_stream", None)
    if stream is not None:
        if not isinstance(stream, Stream):
            raise ValueError("it has a stream that is none")
        features: Any = stream.problem.features
        _check_model(features)
        n_outputs = stream.problem.target.shape[1]
        if (features.n_features_in_, n_outputs) != (n_columns, model.expansion_.coef.shape[1]):
            raise ValueError("the shapes of its arrays do not agree")


def _are_numbers(columns, n_columns) -> bool:
    """Whether these are numbers of some columns."""
    return bool(
        isinstance(columns, np.ndarray)
        and columns.dtype.kind == "i"
        and columns.ndim == 1
        and len(columns)
        and columns.min() >= 0
        and columns.max() < n_columns
    )


def _check_expansion(expansion, n_columns) -> None:
    if isinstance(expansion, SumExpansion):
        for part in expansion.parts:
            _check_expansion(part, n_columns)
        agree = len({part.coef.shape[1] for part in expansion.parts}) == 1
    elif isinstance(expansion, KernelExpansion):
        agree = expansion.centers.shape == (len(expansion.coef), n_columns)
    else:
        _check_model(expansion.feature_map)
        agree = (
            expansion.feature_map.n_features_in_ == n_columns
            and expansion.feature_map.n_outputs == len(expansion.coef)
        )
    if not agree or expansion.coef.ndim != 2:
        raise ValueError("the shapes of its arrays do not agree")


def _dumps(document) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _checksum(header, tensors) -> int:
    """CRC-32 of header and arrays: it finds accidents, and is no signature."""
    total = zlib.crc32(_dumps(header).encode())
    for name in sorted(tensors):
        array = tensors[name]
        total = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), total)
        total = zlib.crc32(np.asarray(array, array.dtype.newbyteorder("<")).data, total)
    return total


def _write(path: Path, tensors, metadata) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    temporary = path.with_name(f".rkhs-{secrets.token_hex(8)}.tmp")
    with open(temporary, "xb") as file:
        mode = os.fstat(file.fileno()).st_mode  # what the user's umask gives a new file
    try:
        with contextlib.suppress(FileNotFoundError):
            mode = path.stat().st_mode
        save_file(tensors, temporary, metadata)
        os.chmod(temporary, mode & 0o777)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except SafetensorError as error:
        raise OSError(f"{str(path)!r} could not be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _read(path, with_tensors: bool) -> tuple[dict, dict[str, np.ndarray]]:
    from safetensors import safe_open

    with open(path, "rb"):  # a file that is not there, or not ours to read, says so itself
        pass
    with _explained(path), safe_open(path, framework="np") as file:
        text = (file.metadata() or {}).get(_KEY)
        if text is None:
            raise ValueError("it is a safetensors file, but was not written by rkhs.save")
        header = json.loads(text)
        version = header["format_version"]
        if version > FORMAT_VERSION:
            raise ValueError(
                f"it was written by rkhs {header['rkhs_version']} in format {version}, and rkhs "
                f"{__version__} reads formats up to {FORMAT_VERSION}. Upgrade rkhs"
            )
        names = file.keys() if with_tensors else []
        return header, {name: file.get_tensor(name) for name in names}


@contextlib.contextmanager
def _explained(path):
    """Whatever a damaged file makes fail becomes a ValueError that names the file."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if type(error) is ValueError:
            reason = str(error)
        elif type(error).__name__ == "SafetensorError":
            reason = f"it is no safetensors file, or is damaged or cut short ({error})"
        else:
            reason = f"its contents make no sense ({type(error).__name__}: {error})"
        raise ValueError(
            f"{os.fspath(path)!r} cannot be read as an rkhs model: {reason.rstrip('.')}."
        ) from error
