"""Which columns a fitted function depends on."""

import numpy as np

from rkhs.plots._axes import axes

_MOST = 30  # bars whose names can still be read


def importances(model, ax=None):
    """Bars of `feature_importances_`, the largest first, with the names of the columns.

    Parameters
    ----------
    model : KernelClassifier or KernelRegressor
        Fitted with nothing set, ``length_scale="learned"`` or ``metric="full"``.
    ax : matplotlib axes, optional
        New ones by default.

    Returns
    -------
    ax : matplotlib axes
        With the 30 largest, if there are more columns.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from rkhs import KernelRegressor
    >>> from rkhs.plots import importances
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelRegressor(length_scale="learned", random_state=0).fit(X, y)
    >>> importances(model)  # doctest: +SKIP
    <Axes: ...>
    """
    values = getattr(model, "feature_importances_", None)
    if values is None:
        raise ValueError(
            f"{model!r} has no feature_importances_: it must be fitted to a table of 1,000 rows or "
            'more with nothing set, or with length_scale="learned" or metric="full".'
        )
    names = getattr(model, "feature_names_in_", None)
    names = np.arange(len(values)).astype(str) if names is None else np.asarray(names)
    order = np.argsort(-values, kind="stable")[:_MOST]
    ax = axes() if ax is None else ax
    place = np.arange(len(order))
    ax.barh(place, values[order])
    ax.set_yticks(place, names[order])
    ax.invert_yaxis()  # the largest on top
    ax.set_xlabel("share of the function's change")
    shown = "" if len(order) == len(values) else f" of the {len(order)} that count most"
    ax.set_title(f"importances{shown}: {values[order].sum():.0%} of all {len(values)} columns")
    return ax
