"""`rkhs demo`: several kernel machines side by side on two tables."""

import time
import tracemalloc
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import root_mean_squared_error, zero_one_loss
from sklearn.model_selection import train_test_split

from rkhs.cli._text import size
from rkhs.datasets import robot_arm
from rkhs.estimators import KernelClassifier, KernelRegressor
from rkhs.features import Nystrom, RandomFourier

_WARM_UP_ROWS = 100


class Sizes(NamedTuple):
    """How large the demo is."""

    digits: int  # training rows
    arm: int
    exact: int  # rows for the exact solver on the arm
    centers: int
    features: int
    epochs: int


_FULL = Sizes(digits=1200, arm=8000, exact=2500, centers=800, features=2000, epochs=6)
_QUICK = Sizes(digits=150, arm=2500, exact=300, centers=100, features=200, epochs=3)


class Row(NamedTuple):
    """A method and what it gave."""

    method: str
    kernel: str
    error: str
    seconds: float
    peak_bytes: int
    model_bytes: int


@dataclass
class Task:
    """A table, and the machines to try on it."""

    title: str
    machines: dict[str, KernelClassifier | KernelRegressor]
    data: list[np.ndarray]  # X, X_test, y, y_test
    only_rows: dict[str, int]  # machines that get the first rows only

    def error(self, machine) -> str:
        _, X_test, _, y_test = self.data
        predicted = machine.predict(X_test)
        if isinstance(machine, KernelClassifier):
            return f"{zero_one_loss(y_test, predicted):.1%}"
        return f"{root_mean_squared_error(y_test, predicted):.4f}"

    def measure(self, name) -> Row:
        """Fit one machine, with its time and the peak of NumPy's memory."""
        machine = clone(self.machines[name])
        X, _, y, _ = self.data
        rows = slice(self.only_rows.get(name))
        tracemalloc.start()
        try:
            begin = time.perf_counter()
            machine.fit(X[rows], y[rows])
            seconds = time.perf_counter() - begin
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        method = f"{name} = {type(machine.solver_).__name__}" if name == "auto" else name
        kernel = type(machine.kernel_).__name__
        return Row(method, kernel, self.error(machine), seconds, peak, machine.expansion_.nbytes)

    def warm_up(self) -> None:
        """Compile what the machines need: no row of the table pays for it."""
        X, _, y, _ = self.data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for machine in self.machines.values():
                clone(machine).fit(X[:_WARM_UP_ROWS], y[:_WARM_UP_ROWS])


def _digits(sizes: Sizes) -> Task:
    X, y = load_digits(return_X_y=True)
    data = train_test_split(X, y, train_size=sizes.digits, random_state=0, stratify=y)
    common = {"length_scale": "median", "random_state": 0, "verbose": False}
    nystrom, fourier = Nystrom(sizes.centers // 2), RandomFourier(sizes.features)
    machines = {
        "Exact": KernelClassifier(loss="squared_error", solver="exact", **common),
        f"Nystrom({nystrom.n_centers}), ConjugateGradient": KernelClassifier(
            loss="squared_error", features=nystrom, solver="conjugate_gradient", **common
        ),
        f"Nystrom({nystrom.n_centers}), NewtonCG": KernelClassifier(
            kernel="matern", features=nystrom, solver="newton_cg", alpha=1e-5, **common
        ),
        f"RandomFourier({fourier.n_features}), SGD": KernelClassifier(
            features=fourier, solver="sgd", alpha=1e-5, max_epochs=sizes.epochs, **common
        ),
        f"RandomFourier({fourier.n_features}), Pegasos": KernelClassifier(
            loss="hinge",
            features=fourier,
            solver="pegasos",
            alpha=1e-3,
            max_epochs=sizes.epochs,
            **common,
        ),
        "auto": KernelClassifier(random_state=0, verbose=False),
    }
    title = f"Handwritten digits: 10 classes, {len(data[0]):,} rows, 64 columns"
    return Task(title, machines, data, {})


def _arm(sizes: Sizes) -> Task:
    X, y = robot_arm(sizes.arm * 5 // 4, random_state=0)
    data = train_test_split(X, y, train_size=sizes.arm, random_state=0)
    common = {"random_state": 0, "verbose": False}
    nystrom, fourier = Nystrom(sizes.centers), RandomFourier(sizes.features)
    exact = f"Exact, {sizes.exact:,} rows only"
    machines = {
        exact: KernelRegressor(solver="exact", **common),
        f"Nystrom({nystrom.n_centers}), ConjugateGradient": KernelRegressor(
            features=nystrom, solver="conjugate_gradient", **common
        ),
        f"Nystrom({nystrom.n_centers}), NewtonCG": KernelRegressor(
            kernel="matern", loss="huber", features=nystrom, solver="newton_cg", **common
        ),
        f"RandomFourier({fourier.n_features}), SGD": KernelRegressor(
            features=fourier, solver="sgd", max_epochs=sizes.epochs, **common
        ),
        f"RandomFourier({fourier.n_features}), Pegasos": KernelRegressor(
            kernel="cauchy",
            features=fourier,
            solver="pegasos",
            alpha=1e-4,
            max_epochs=sizes.epochs,
            **common,
        ),
        "auto": KernelRegressor(**common),
    }
    title = f"Robot arm: distance of hand and target, {len(data[0]):,} rows, 8 columns"
    return Task(title, machines, data, {exact: sizes.exact})


def _table(task: Task, rows: list[Row]) -> Table:
    classes = isinstance(task.machines["auto"], KernelClassifier)
    table = Table(padding=(0, 1, 0, 0), title=task.title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("method")
    table.add_column("kernel")
    table.add_column("wrong" if classes else "RMSE", justify="right")
    for name in ("seconds", "memory", "model"):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = f"{row.seconds:.2f}", size(row.peak_bytes), size(row.model_bytes)
        table.add_row(row.method, row.kernel, row.error, *numbers)
    return table


def run_demo(quick: bool = False) -> None:
    """Fit everything, and print a table for each task as soon as it is done."""
    console = Console(highlight=False)
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    sizes = _QUICK if quick else _FULL
    tasks = [_digits(sizes), _arm(sizes)]
    with progress:
        n_steps = sum(1 + len(task.machines) for task in tasks)
        bar = progress.add_task("", total=n_steps)
        for task in tasks:
            progress.update(bar, description="compiling")
            task.warm_up()
            progress.advance(bar)
            rows = []
            for name in task.machines:
                progress.update(bar, description=name)
                rows.append(task.measure(name))
                progress.advance(bar)
            console.print(_table(task, rows))
    console.print(
        "Errors are on test rows; memory is the peak during the fit, beyond the table itself.\n"
        "Next, in Python:  from rkhs import KernelClassifier; KernelClassifier().fit(X, y)",
        soft_wrap=True,
    )
