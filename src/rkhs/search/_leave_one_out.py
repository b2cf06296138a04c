"""The leave-one-out error of exact kernel ridge regression, and its gradient, in closed form."""

import numpy as np

from rkhs.compute import invert_lower, single_threaded_blas, solve_lower
from rkhs.kernels._base import StationaryKernel

# Noise from which float32 will do: the matrix is then conditioned better than rows / noise, and
# rounding errors are a hundredth of what other samples would change.
_ENOUGH_NOISE = 0.005


class LeaveOneOut:
    r"""Squared error of kernel ridge regression on each row, fitted to all others.

    With :math:`A = K + \sigma^2 S^{-1}`, S the weights, and :math:`B = A^{-1}`, the error of row
    i is :math:`e_i = (B y)_i / B_{ii}`, and the derivative of :math:`\sum_i s_i e_i^2` by A is
    :math:`B\,\mathrm{diag}(h) B - (\alpha g^\top B + B g \alpha^\top) / 2` with
    :math:`\alpha = B y`, :math:`g_i = 2 s_i e_i / B_{ii}`, :math:`h_i = g_i e_i`: a Cholesky
    factor, the rows of B that are judged and one product of them, whatever the number of columns.

    Parameters
    ----------
    kernel : StationaryKernel
        Only its form counts; length scales are an argument.
    categorical : array of bool of shape (columns,)
        Which columns hold codes, of which any two are one apart.
    n_rows : int
        Rows of a sample; also an attribute.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.kernels import Laplacian
    >>> from rkhs.search import LeaveOneOut
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> error = LeaveOneOut(Laplacian(), np.array([False]), n_rows=50)
    >>> parameters = np.log([1.0, 1e-3])  # length scale, noise
    >>> value, gradient = error(parameters, X, np.sin(X), np.ones(50))
    >>> bool(gradient[0] < 0)  # the error falls with a larger length scale
    True
    """

    def __init__(self, kernel: StationaryKernel, categorical: np.ndarray, n_rows: int):
        self.n_rows = n_rows
        self._kernel = kernel
        self._squared = kernel.metric_power == 2
        self._cap = np.where(categorical, 1.0, np.inf).astype(np.float32)
        # New memory for each evaluation would cost more than some of the work.
        self._metric = np.zeros((n_rows, n_rows), np.float32)
        self._slope = np.empty((n_rows, n_rows), np.float32)
        self._buffers = np.empty((2, n_rows * n_rows))

    def __call__(
        self, parameters, X, target, weight, judged=None, with_gradient=True
    ) -> tuple[float, np.ndarray]:
        """Error and gradient on a sample of rows.

        Parameters
        ----------
        parameters : array of shape (columns + 1,)
            Logarithms of the length scales and, last, of the noise.
        X : array of shape (n_rows, columns)
            Rows that are all different: a repetition would predict itself.
        target : array of shape (n_rows, outputs)
        weight : array of shape (n_rows,)
            Positive.
        judged : array of shape (n_rows,), optional
            What a row's error counts, if not its weight; zero for those not to judge by.
        with_gradient : bool, default=True
            If not, the gradient is zero, in half the time.
        """
        with single_threaded_blas:
            judged = weight if judged is None else judged
            share = judged / judged.sum()
            return self._evaluate(parameters, X, target, weight, share, with_gradient)

    def _evaluate(self, parameters, X, target, weight, share, with_gradient):
        from rkhs.compute import _pair_loops

        X = np.ascontiguousarray(X.T, dtype=np.float32)
        inverse_weight = weight.mean() / weight
        inverse, noise = np.exp(-parameters[:-1]), np.exp(parameters[-1])
        metric, slope = self._metric, self._slope
        dtype = np.float32 if noise >= _ENOUGH_NOISE else np.float64
        A, product = (b.view(dtype)[: metric.size].reshape(metric.shape) for b in self._buffers)
        _pair_loops.metric(X, inverse.astype(np.float32), self._cap, self._squared, metric)
        self._kernel.metric_profile(metric, slope)
        A[...] = metric
        A.flat[:: len(A) + 1] = 1.0 + noise * inverse_weight
        judged = np.flatnonzero(share)
        found = _inverse_rows(A, judged, np.ascontiguousarray(target.T, dtype))
        if found is None:
            return np.inf, np.zeros_like(parameters)
        rows, alpha = found
        diagonal = rows[np.arange(len(judged)), judged][:, None]
        residual = alpha[judged] / diagonal
        weighted = (2.0 * share[judged, None] * residual).astype(dtype)
        error = 0.5 * float(np.vdot(weighted, residual))
        if not with_gradient:
            return error, np.zeros_like(parameters)
        g = weighted / diagonal
        h = np.einsum("ij,ij->i", g, residual)
        smooth = rows.T @ g
        product = np.multiply(rows, np.sqrt(h)[:, None], out=product[: len(judged)])
        # A is not needed any more: the derivative by it takes its place.
        np.matmul(product.T, product, out=A)
        by_noise = np.diagonal(A) - np.einsum("ij,ij->i", alpha, smooth)
        _pair_loops.multiply_by_difference(
            slope, A, np.ascontiguousarray(alpha.T), np.ascontiguousarray(smooth.T)
        )
        sums = np.zeros(len(inverse))
        _pair_loops.metric_sums(slope, X, self._cap, self._squared, sums)
        power = self._kernel.metric_power
        # Each pair stands twice in the matrix.
        by_scale = -2.0 * power * sums * inverse**power
        return error, np.append(by_scale, noise * (by_noise @ inverse_weight))


def _inverse_rows(A, judged, targets):
    """Some rows of the inverse, and all of it times the targets; None if there is none.

    `targets` has an output in each row. A is overwritten, and may be what is returned.
    """
    if len(judged) < len(A):
        rows = np.zeros((len(judged) + len(targets), len(A)), A.dtype)
        rows[np.arange(len(judged)), judged] = 1.0
        rows[len(judged) :] = targets
        return (rows[: len(judged)], rows[len(judged) :].T) if solve_lower(A, rows) else None
    if not invert_lower(A):
        return None
    from rkhs.compute import _pair_loops

    _pair_loops.mirror(A)
    return A, A @ targets.T
