"""What gradient descent with a smooth kernel can reach, and what EigenPro can.

Run with: python examples/reach_of_gradient_descent.py [name of a data set, such as mnist]
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

from rkhs import KernelClassifier
from rkhs.datasets import load
from rkhs.kernels import Gaussian

ROWS = 10_000


def circle(heat=0.5, rank=10, n_points=1024):
    """Root mean squared error of a step on the circle, by iterations.

    The eigenfunctions of the heat kernel are sines and cosines, with eigenvalues
    exp(-heat j^2): every iterate is known in closed form.
    """
    angle = 2 * np.pi * np.arange(n_points) / n_points
    step = np.fft.rfft(np.where(angle < np.pi, 1.0, -1.0))
    eigenvalues = np.exp(-heat * np.arange(len(step)) ** 2)
    flattened = np.minimum(eigenvalues, eigenvalues[rank]) / eigenvalues[rank]
    print("a step on the circle, heat kernel\n")
    print(f"{'iterations':>10}{'gradient descent':>18}{f'first {rank} flattened':>20}")
    for n in 10 ** np.arange(0, 7, 2):
        left = (np.fft.irfft((1 - values) ** n * step) for values in (eigenvalues, flattened))
        print(f"{n:10,}" + "".join(f"{np.sqrt(np.mean(r**2)):19.3f}" for r in left))


def images(name):
    """Training and test rows with values from 0 to 1, and classes."""
    if name is None:
        X, y = load_digits(return_X_y=True)
        return X[:1000] / 16, y[:1000], X[1000:] / 16, y[1000:]
    X, y, X_test, y_test = load(name)
    some = np.random.default_rng(0).permutation(len(X))[:ROWS]
    return X[some] / 255, y[some], X_test / 255, y_test


def table(X, y, X_test, y_test, kernel):
    """Gradient descent from zero with the longest step that is safe, in closed form."""
    T, T_test = (np.eye(10)[part.astype(int)] for part in (y, y_test))
    values, vectors = np.linalg.eigh(kernel(X))
    values = np.maximum(values, 1e-12 * values[-1])
    K_test, coordinates = kernel(X_test, X) @ vectors, vectors.T @ T
    print(f"\n{len(X):,} images, squared distance to the class and error\n")
    print(f"{'iterations':>10}{'loss, train':>13}{'loss, test':>12}{'error, test':>13}")
    for n in (1, 80, 1280, 10_240, 81_920):
        left = np.exp(n * np.log1p(-np.minimum(values / values[-1], 1 - 1e-16)))[:, None]
        f = K_test @ ((1 - left) / values[:, None] * coordinates)
        train, test = np.square(left * coordinates).sum() / len(X), np.square(f - T_test)
        error = np.mean(f.argmax(axis=1) != y_test)
        print(f"{n:10,}{train:13.2e}{test.sum() / len(T_test):12.2e}{error:13.2%}")


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else None
    circle()
    X, y, X_test, y_test = images(name)
    kernel = Gaussian(0.2 * np.sqrt(X.shape[1]))
    table(X, y, X_test, y_test, kernel)
    print(f"\n{'EigenPro':>10}{'score, test':>13}")
    for n in (1, 2, 4, 8):
        model = KernelClassifier(
            kernel, "squared_error", solver="eigenpro", alpha=0.0, max_epochs=n, random_state=0
        ).fit(X, y)
        print(f"{n:3} epochs{model.score(X_test, y_test):13.3f}")


if __name__ == "__main__":
    main()
