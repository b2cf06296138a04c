"""Kernel machines for numbers."""

from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from rkhs.estimators._base import KernelMachine
from rkhs.estimators._more_rows import streams, takes_more_rows
from rkhs.estimators._parameters import SHARED_PARAMETERS


class KernelRegressor(RegressorMixin, KernelMachine):
    __doc__ = f"""A kernel machine for one or several numeric targets.

    Minimises ``mean loss(f(x), y) + alpha/2 ||f||^2`` over functions of a kernel's space.
    With the squared error and ``alpha = a / n`` this is kernel ridge regression with
    penalty a.

    Parameters
    ----------
    {SHARED_PARAMETERS}

    Notes
    -----
    `loss` is "squared_error" by default; also "huber", "epsilon_insensitive",
    "absolute_error" and "pinball", whose parameters are in the units of y.

    Attributes
    ----------
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
    >>> from sklearn.datasets import load_diabetes
    >>> from rkhs import KernelRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> KernelRegressor(random_state=0).fit(X, y).predict(X[:2]).shape
    (2,)
    """

    task = "regression"

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit to a table and its targets.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, columns)
        y : array of shape (rows,) or (rows, outputs)
        sample_weight : array of shape (rows,), optional
            A row of weight w counts like w copies of it.
        """
        table = X
        X, y, target = self._checked(self._coded(X), y, reset=True)
        weight = self._checked_weight(sample_weight, X)
        return self._fit(X, target, weight, self._build_loss(), y, sample_weight, table)

    def _checked(self, X, y, reset):
        """Table and targets, both as given and with a column an output."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=self._finite(X),
            y_numeric=True,
            multi_output=True,
            reset=reset,
        )
        if reset:
            self._one_output = y.ndim == 1
        return X, y, y.reshape(len(y), -1).astype("float64")

    @available_if(takes_more_rows)
    def partial_fit(self, X, y, sample_weight=None):
        """Add rows to those of earlier calls.

        With `RandomBinning` features or `EigenPro` the model becomes that of all rows so far: the
        solver starts from its last coefficients, and cells or centres that are new from zero. The
        rows (not copies of them) are remembered. With `DSG`, `UDSG` and `CDSG` the rows are
        the next of a stream, seen once and forgotten, but for the last few thousand that wait
        for a batch to fill. Length scales that are learnt come from the first call.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, columns)
        y : array of shape (rows,) or (rows, outputs)
        sample_weight : array of shape (rows,), optional
        """
        if not streams(self):
            return self._add_rows(X, y, sample_weight)
        going_on = self._goes_on()
        if not going_on:
            X = self._coded(X)
        X, y, target = self._checked(X, y, reset=not going_on)
        if going_on and target.shape[1] != self._stream.problem.target.shape[1]:
            raise ValueError(
                f"y has {target.shape[1]} outputs, and earlier rows had "
                f"{self._stream.problem.target.shape[1]}. Give as many."
            )
        weight = self._checked_weight(sample_weight, X)
        return self._absorb(X, target, weight, self._build_loss())

    def predict(self, X):
        """The fitted function on each row: (rows,), or (rows, outputs) if y had columns."""
        f = self._decision_values(X)
        return f[:, 0] if self._one_output else f

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
