"""Conjugate gradients as Newton's method and coordinate descent use them."""

import numpy as np

from rkhs.solvers._newton_cg import conjugate_gradients


def test_a_small_system_is_solved_in_as_many_steps_as_it_has_unknowns():
    """Also when what the functions give is overwritten by their next calls."""
    rng = np.random.default_rng(0)
    size = 12
    root = rng.normal(size=(size, size))
    matrix = root @ root.T + np.diag(np.logspace(0, 3, size))
    right = rng.normal(size=(size, 1))
    product, preconditioned = np.empty((2, size, 1))
    calls = 0

    def multiply(x):
        nonlocal calls
        calls += 1
        return np.matmul(matrix, x, out=product)

    def precondition(residual):
        return np.divide(residual, np.diagonal(matrix)[:, None], out=preconditioned)

    given = right.copy()
    x = conjugate_gradients(multiply, right, precondition, size, lambda first: 0.0)
    np.testing.assert_allclose(matrix @ x, given, atol=1e-8)
    np.testing.assert_array_equal(right, given)
    assert calls <= size
    energies = []
    loose = conjugate_gradients(
        multiply, right, precondition, size, lambda first: energies.append(first) or 0.25
    )
    residual = right - matrix @ loose
    energy = np.vdot(residual, precondition(residual))
    assert energies[0] == np.vdot(right, precondition(right))
    assert energy <= 0.25 * energies[0] and len(energies) < size
