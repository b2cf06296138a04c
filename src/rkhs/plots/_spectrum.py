"""What EigenPro saw of a kernel's spectrum."""

import numpy as np

from rkhs.plots._axes import axes


def spectrum(model, ax=None):
    """Eigenvalues of the sample's second moment, and to which level `EigenPro` flattened them.

    Parameters
    ----------
    model : KernelClassifier or KernelRegressor
        Fitted with the solver `EigenPro`.
    ax : matplotlib axes, optional
        New ones by default.

    Returns
    -------
    ax : matplotlib axes

    Examples
    --------
    >>> from rkhs import KernelRegressor
    >>> from rkhs.plots import spectrum
    >>> X = [[0.1 * i] for i in range(200)]
    >>> model = KernelRegressor(solver="eigenpro", random_state=0).fit(X, [x[0] for x in X])
    >>> spectrum(model)  # doctest: +SKIP
    <Axes: ...>
    """
    first = (getattr(model, "history_", None) or [{}])[0]
    if "spectrum" not in first:
        raise ValueError(
            f'{model!r} has no spectrum in its history_: it must be fitted with solver="eigenpro".'
        )
    values, rank = np.asarray(first["spectrum"]), first["rank"]
    number = np.arange(1, len(values) + 1)
    ax = axes() if ax is None else ax
    ax.loglog(number, values, label="eigenvalues of the sample")
    ax.loglog(number, np.minimum(values, values[rank]), label=f"flattened, rank {rank}")
    ax.set_xlabel("number of the eigenvalue")
    ax.set_ylabel("eigenvalue")
    ax.set_title(
        f"critical batch {first['critical_batch']:,.0f}, predicted acceleration "
        f"{first['predicted_acceleration']:,.0f}"
    )
    ax.legend()
    return ax
