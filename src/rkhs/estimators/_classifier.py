"""Kernel machines for classes."""

from dataclasses import replace

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from rkhs.estimators._base import KernelMachine
from rkhs.estimators._more_rows import streams, takes_more_rows
from rkhs.estimators._parameters import SHARED_PARAMETERS
from rkhs.losses import Softmax


def _has_probability(estimator):
    loss = getattr(estimator, "loss_", None) or estimator._build_loss()
    if not loss.has_probability:
        raise AttributeError(
            f"{loss!r} does not determine probabilities. Use loss='log_loss', or "
            "sklearn.calibration.CalibratedClassifierCV around this classifier."
        )
    return True


class KernelClassifier(ClassifierMixin, KernelMachine):
    __doc__ = f"""A kernel machine for two or more classes.

    Minimises ``mean loss(f(x), y) + alpha/2 ||f||^2`` over functions of a kernel's space.

    Parameters
    ----------
    {SHARED_PARAMETERS}
    class_weight : dict, "balanced" or None
        Multiplies the sample weights by class.

    Notes
    -----
    `loss` is "log_loss" by default: logistic for two classes and softmax for more. Also
    "squared_error", "squared_hinge", "hinge" (one-vs-rest for more than two classes).

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    expansion_ : Expansion
        The fitted function; `expansion_.coef` is features or centres x outputs.
    history_ : list of dict
        One row an epoch: seconds, objective, validation loss.
    stop_reason_ : str
        Why the fit ended, in a sentence.
    kernel_, loss_, features_, solver_, alpha_
        What was used, with every "auto" replaced.
    categories_ : list or None
        For each column None, or the categories of a categorical one; None without any.
    feature_importances_ : array of shape (n_columns,)
        After a search, or with a kernel that learns: how much the function changes, in the
        mean square, when the values of a column change rows, as a share of all columns.
    length_scale_ : array of shape (n_prepared,)
        The same: of each prepared column, of the grids if there are any; infinite if it does
        not count.
    summary_ : str
        The same: what was tried and found.
    preparation_ : Preparation or None
        What becomes of the columns of a raw table.
    columns_ : array of int or None
        Those prepared columns that the function depends on; None means all. Others have nothing
        to do with the target.
    offset_ : array of shape (n_outputs,) or None
        What is added to the function, after a search for a regression.
    n_iter_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from rkhs import KernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.predict_proba(X[:1]).shape
    (1, 3)
    """

    task = "classification"

    def __init__(
        self,
        kernel="auto",
        loss="log_loss",
        features="auto",
        solver="auto",
        alpha="auto",
        penalty="l2",
        length_scale="auto",
        metric="diagonal",
        max_epochs=None,
        time_budget=None,
        tol=None,
        validation_fraction=0.1,
        early_stopping=False,
        memory_limit="auto",
        n_jobs=None,
        random_state=None,
        verbose="auto",
        warm_start=False,
        dtype="auto",
        class_weight=None,
    ):
        super().__init__(
            kernel,
            loss,
            features,
            solver,
            alpha,
            penalty,
            length_scale,
            metric,
            max_epochs,
            time_budget,
            tol,
            validation_fraction,
            early_stopping,
            memory_limit,
            n_jobs,
            random_state,
            verbose,
            warm_start,
            dtype,
        )
        self.class_weight = class_weight

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit to a table and its classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, columns)
        y : array of shape (rows,)
            Classes: numbers, strings or booleans.
        sample_weight : array of shape (rows,), optional
            A row of weight w counts like w copies of it.
        """
        table = X
        X, y = self._checked(self._coded(X), y, reset=True)
        weight = self._checked_weight(sample_weight, X)
        expected = self.__dict__.pop("_expected_classes", [])
        self.classes_ = np.unique(np.concatenate([y, *expected]))
        if len(self.classes_) < 2:
            raise ValueError(
                f"KernelClassifier needs at least two classes; y has only one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        weight = self._class_weighted(y, weight, X)
        loss, target = self._targets(y)
        return self._fit(X, target, weight, loss, y, sample_weight, table)

    def _checked(self, X, y, reset):
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=self._finite(X),
            reset=reset,
        )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _class_weighted(self, y, weight, X):
        if self.class_weight is None:
            return weight
        present, places = np.unique(y, return_inverse=True)
        by_class = compute_class_weight(
            self.class_weight, classes=present, y=y, sample_weight=weight
        )
        return self._checked_weight(weight * by_class[places], X)

    def _targets(self, y):
        """The loss for the classes that are known, and what it wants of y."""
        loss = self._build_loss()
        if self.loss == "log_loss" and len(self.classes_) > 2:
            loss = Softmax()
        return loss, loss.encode(np.searchsorted(self.classes_, y), len(self.classes_))

    @available_if(takes_more_rows)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add rows to those of earlier calls.

        With `RandomBinning` features or `EigenPro` the model becomes that of all rows so far: the
        solver starts from its last coefficients, and cells or centres that are new from zero. The
        rows (not copies of them) are remembered. With `DSG`, `UDSG` and `CDSG` the rows are
        the next of a stream, seen once and forgotten, but for the last few thousand that wait
        for a batch to fill. Length scales that are learnt come from the first call. Classes may
        be new in any call.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, columns)
        y : array of shape (rows,)
        classes : array, optional
            In the first call: classes to expect beside those of y, so that the number of
            outputs does not change when they come.
        sample_weight : array of shape (rows,), optional
        """
        if streams(self):
            return self._stream_on(X, y, classes, sample_weight)
        expected = [] if classes is None else [np.asarray(classes)]
        if getattr(self, "_seen", None):
            expected.append(self.classes_)
        self._expected_classes = expected
        try:
            return self._add_rows(X, y, sample_weight)
        finally:
            self.__dict__.pop("_expected_classes", None)

    def _stream_on(self, X, y, classes, sample_weight):
        going_on = self._goes_on()
        X, y = self._checked(X if going_on else self._coded(X), y, reset=not going_on)
        known = [self.classes_] if going_on else []
        known += [] if classes is None else [np.asarray(classes)]
        found = np.unique(np.concatenate([y, *known]))
        if len(found) < 2:
            raise ValueError(
                f"The first rows have only one class, {found.tolist()[0]!r}. Name the classes to "
                "expect in the first call: partial_fit(X, y, classes=[...])."
            )
        weight = self._class_weighted(y, self._checked_weight(sample_weight, X), X)
        earlier, self.classes_ = (self.classes_ if going_on else found), found
        loss, target = self._targets(y)
        if len(earlier) < len(found):
            self._widen(earlier, loss)
        return self._absorb(X, target, weight, loss)

    def _widen(self, earlier, loss):
        """Give the stream outputs for the classes that it has now."""
        stream = self._stream
        places = np.searchsorted(self.classes_, earlier)
        if stream.problem.target.shape[1] == 1:
            # Two classes had one output between them: their difference, or one against the other.
            outputs = np.zeros((1, len(self.classes_)))
            outputs[0, places] = [-0.5, 0.5] if loss.coupled else [-1.0, 1.0]
        else:
            outputs = np.eye(len(self.classes_))[places]
        target = None
        if stream.state.waiting is not None:
            codes = stream.problem.loss.predict(stream.state.waiting[1])
            target = loss.encode(places[codes], len(self.classes_))
        state = stream.state.with_outputs(outputs, target)
        nothing = np.zeros((0, len(self.classes_)))
        problem = replace(stream.problem, loss=loss, target=nothing)
        self._stream = replace(stream, problem=problem, state=state)

    def decision_function(self, X):
        """Decision values: (rows,) for two classes, positive for the second; else a column each."""
        f = self._decision_values(X)
        if len(self.classes_) > 2:
            return f
        return f[:, 0] if f.shape[1] == 1 else f[:, 1] - f[:, 0]

    def predict(self, X):
        """The most likely class of each row."""
        f = self._decision_values(X)
        return self.classes_[self.loss_.predict(f)]

    @available_if(_has_probability)
    def predict_proba(self, X):
        """Class probabilities, columns in the order of `classes_`."""
        f = self._decision_values(X).astype(np.float64)
        return self.loss_.probability(f)

    @available_if(_has_probability)
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
