"""The best kernel machine for a table: scales from a sample, the rest by held-out rows."""

import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from rkhs.compute import single_threaded_blas
from rkhs.data import RowSource
from rkhs.features import Concatenated, FeatureMap, Nystrom, RandomBinning
from rkhs.features._base import sample_rows
from rkhs.kernels import Gaussian, Laplacian, Matern
from rkhs.kernels._base import StationaryKernel
from rkhs.losses import Loss, Softmax, SquaredError
from rkhs.search._related import FEWEST_ROWS, learn_related, sample_size, scales_line
from rkhs.search._relations import relations_bytes
from rkhs.search._scales import SAMPLE_ROWS, SAMPLES, refine_scales
from rkhs.search._tuning import (
    LANCZOS_STEPS,
    RIDGES,
    PathFit,
    Task,
    best_dense_ridge,
    best_ridge,
    best_squared_ridge,
    first_rows,
    scaled,
    split,
    with_scale,
)
from rkhs.search._whole import best_whole, is_affordable
from rkhs.solvers import ConjugateGradient, EigenPro, NewtonCG, Solver

_SMALLEST_FACTOR = 1 / 32  # of all length scales: more rows bear shorter ones
_LOWER = (1.0, 0.3, 0.1, 0.03)  # of the ridge of the squared error, for other losses
_TRIAL_ROWS, _MOST_TRIAL_ROWS, _TRIAL_TARGETS = 20_000, 100_000, 400_000
_TRIAL_GRIDS, _FEWEST_GRIDS = 128, 64
_GRIDS = 512
_TRIAL_CENTERS, _CENTERS, _FEWEST_CENTERS = 500, 1000, 200
_SCARCE, _MORE = 0.875, 2  # times the error of half as many; so many times as many then
_ENTRIES = 4 * 10**7  # rows times centres: a fit multiplies with them some dozen times
_WORTH = 0.99  # times the error without them, for grids to be taken
_NEAR_ROWS, _NEAR_NUMBERS = (600, 20_000), 4 * 10**6  # among which near rows are found
_RADIAL_FORMS = (Matern(2.0, nu=1.5), Gaussian(1.0))  # with a factor of their scales
_MARGIN = 0.9  # for each time that a table has the rows of a trial
_LEAST_RIDGE = 0.003  # of losses that take Newton's steps, which smaller ones slow down
_RADIAL_RIDGES = [ridge for ridge in RIDGES if ridge >= 0.03]
_SHORTER = 0.997  # times the error of scales twice as long
_MANY = 2  # times a trial's rows, from which the scales that all rows bear are foreseen
_NEARLY = 1.25  # times the lowest error: shorter scales with a larger one have no chance
_FURTHEST = 1.0  # times that rows are multiplied by four: a trial sees no further
_PLAIN_ROWS = 1000  # that unlearnt scales come from
_LONGEST = 10.0  # times an unlearnt scale, for a column that seems not to count
_WORK = 12 * 10**7  # look-ups of a pass with all grids, times the root of the outputs
_COEFFICIENTS = 4 * 10**7  # of all outputs, about
_COUNTED_GRIDS = 8  # whose cells are counted to know
_GRID_RIDGES = [ridge for ridge in RIDGES if ridge >= 0.03]  # smaller ones take many iterations
_PRECISION, _CLASS_PRECISION = 0.01, 0.05  # of the error on held-out rows, for a fit's own
_TIGHTEST, _LOOSEST = 2e-5, 1e-2  # tolerances of a fit
_TRIAL_TOL = 0.02
_LOG_SHARPNESS = (0.0, 6.0)
_NEWTON_TOL, _NEWTON_INNER = 2e-2, 25  # a tighter solution predicts hardly better


@dataclass(frozen=True)
class Choice:
    """What a search found.

    Attributes
    ----------
    kernel : Kernel
        With a length scale for each column.
    features : FeatureMap, None or "auto"
    solver : Solver or "auto"
    ridge : float
        alpha times the sum of the weights.
    report : list of str
        What was tried, and how it did.
    loss : Loss or None
        To minimise instead of the one that was asked for.
    max_epochs : int or None
        Of the solver, if it takes fewer than it would.
    columns : array of int or None
        Of the table, that kernel and features are for; None means all.
    """

    kernel: StationaryKernel
    features: FeatureMap | str | None
    solver: Solver | str
    ridge: float
    report: list[str] = field(default_factory=list)
    loss: Loss | None = None
    max_epochs: int | None = None
    columns: np.ndarray | None = None


def search(
    source: RowSource,
    target,
    weight,
    loss: Loss,
    offset: np.ndarray,
    seed: int,
    memory: int,
    n_jobs=None,
    time_budget: float | None = None,
) -> Choice:
    """Length scales, penalty and features for a table, by errors on rows not fitted to.

    `offset` is what was taken from the targets, and will be added to the function.
    Of a time budget, a quarter may go to length scales and another to trials, after which no
    further step of either begins; without one the result depends on the arguments alone.
    """
    begin = time.perf_counter()
    quarter = np.inf if time_budget is None else 0.25 * time_budget
    n_columns = source.shape[1]
    with single_threaded_blas:  # small matrices, between tiles that want all cores
        columns, source, distinct, scales = related = learn_related(
            Laplacian(), source, target, weight, seed, n_jobs, begin + quarter
        )
    if len(distinct.rows) < FEWEST_ROWS:
        return unsearched(source, weight, seed, "too few different rows for a search")
    report = [scales_line(related, n_columns)]
    task = split(source, distinct, _trial_size(source, target.shape[1]))
    n_rows = len(distinct.rows)
    with single_threaded_blas:
        found, smooth = _best_parts(
            source, task, n_rows, scales, report, begin + 2.0 * quarter, seed, memory, n_jobs
        )
    if (loss.coupled or loss.quadratic) and is_affordable(source, memory) and not found.late:
        whole = _try_whole(source, task, scales, report, found.deadline, seed, memory, n_jobs)
        left = np.inf if time_budget is None else begin + time_budget - time.perf_counter()
        if whole is not None and whole.seconds < left and whole.error < _WORTH * found.error:
            instead = _squared(loss, offset, whole.predicted, task, report)
            epochs = whole.n_epochs
            return Choice(whole.kernel, None, EigenPro(), 0.0, report, instead, epochs, columns)
    n_grids = _grid_count(found.best_kernel, source, task, memory, n_jobs)
    n_centers = _center_count(source, task, memory, smooth is not None and smooth.scarce)
    known = sum(part.predicted for part in (found, smooth) if part is not None)
    solver: Solver = ConjugateGradient(tol=_tolerance(known, task, loss.coupled))
    ridge = found.ridge if smooth is None else smooth.ridge
    kernel = smooth.kernel if found.needless else found.best_kernel
    instead = _squared(loss, offset, known, task, report)
    if not (loss.coupled or loss.quadratic):
        solver = NewtonCG(tol=_NEWTON_TOL, max_inner=_NEWTON_INNER)
        ridges = [ridge * r for r in (_LOWER[:1] if found.late else _LOWER)]
        ridges = list(dict.fromkeys([max(r, min(ridge, _LEAST_RIDGE)) for r in ridges]))
        centers = Nystrom(_TRIAL_CENTERS)
        trial = _representation(found, smooth, _TRIAL_GRIDS, centers, seed)
        with single_threaded_blas:
            fit = best_ridge(task, kernel, trial, solver, loss, ridges, n_jobs)
        ridge = fit.ridge
        tol = _newton_tolerance(fit, loss.value(np.zeros_like(known), *task[4:]))
        solver = NewtonCG(tol=tol, max_inner=_NEWTON_INNER)
        report.append(f"{type(loss).__name__}, ridge {ridge:g}: held-out loss {fit.loss:.4g}")
    # Rows that differ, whatever their order and repetitions.
    centers = Nystrom(n_centers, centers=source.floats(distinct.rows[:n_centers]))
    features = _representation(found, smooth, n_grids, centers)
    return Choice(kernel, features, solver, ridge, report, instead, columns=columns)


def _best_parts(source, task, n_rows, scales, report, deadline, seed, memory, n_jobs):
    """Grids that have the lowest error, and the smooth part beside them, or None.

    What costs more, shorter scales or grids at all, must lower the error by more than its noise.
    """
    learnt = Laplacian(scales.length_scale)
    best, smooth = _Best(learnt, report, deadline), None
    if _center_count(source, task, memory) and not best.late:
        smooth = _smooth_part(best, task, n_rows, source.categorical, seed, n_jobs)
    rest = task if smooth is None else smooth.rest(task)
    _try_binning(best, rest, seed, n_jobs, first=1.0 if smooth is None else 0.5)
    if not best.late:
        # A sample of all rows knows little of details: those that are near each other tell more.
        half = _half_way(learnt, task, source.categorical)
        start = scaled(half, best.factor)
        near = slice(0, _near_size(source))
        rows = task.source[near], rest.target[near], task.weight[near]
        details = refine_scales(start, *rows, source.categorical, n_jobs, deadline)
        local = _Best(Laplacian(details), report, deadline, "RandomBinning, scales of near rows")
        if not local.late:
            _try_binning(local, rest, seed, n_jobs)
        if local.error < best.error:
            best = local
    _foresee(best, rest, n_rows, seed, n_jobs)
    best.needless = smooth is not None and not best.error < _WORTH * smooth.error
    return best, smooth


def _half_way(learnt, task, categorical) -> Laplacian:
    """Between learnt length scales and those from the columns' deviations."""
    few = slice(0, _PLAIN_ROWS)
    plain = Laplacian("auto").resolve(task.source[few], task.weight[few], categorical).length_scale
    return Laplacian(np.sqrt(np.minimum(learnt.length_scale, _LONGEST * plain) * plain))


def _try_whole(source, task, scales, report, deadline, seed, memory, n_jobs):
    """The kernel's whole space, in the best of some metrics; None without any, or time."""
    varies = np.ptp(task.source[slice(None)], axis=0) > 0
    numbers = ~source.categorical & np.isfinite(source.units) & varies
    metrics = {
        "learnt length scales": np.where(source.categorical, np.inf, scales.length_scale),
        "the columns' own units": np.where(numbers, 1.0 / source.units, np.inf),
        "the columns' deviations": np.where(numbers, 1.0, np.inf),
    }
    metrics = {name: scale for name, scale in metrics.items() if np.isfinite(scale).any()}
    if not metrics:
        return None
    found = best_whole(task, len(source), metrics, seed, memory, n_jobs, deadline)
    if found is None:
        return None
    name, whole = found
    report.append(f"all rows as centres, {name}: held-out squared error {whole.error:.4g}")
    return whole


def _squared(loss, offset, known, task, report) -> SquaredError | None:
    """The loss that stands for a softmax, given the function on the rows to judge by."""
    if not loss.coupled:
        return None
    instead = SquaredError(_sharpness(offset + known, offset + task.held_target, task))
    report.append(f"squared error for all classes at once; sharpness {instead.sharpness:.3g}")
    return instead


def _tolerance(known, task, coupled) -> float:
    """Of conjugate gradients: a share of the error of the best trial, in its best output."""
    wrong, nothing = (
        np.average(np.square(values), axis=0, weights=task.held_weight)
        for values in (known - task.held_target, task.held_target)
    )
    precision = _PRECISION
    if coupled:
        wrong, nothing, precision = wrong.sum(), nothing.sum(), _CLASS_PRECISION
    relative = np.divide(wrong, nothing, out=np.ones_like(nothing), where=nothing > 0)
    return float(np.clip(precision * np.sqrt(relative.min()), _TIGHTEST, _LOOSEST))


def _newton_tolerance(fit, at_zero) -> float:
    """At which Newton's steps promise less than a share of the loss of new rows.

    That of fitted rows can be a fraction of it. `NewtonCG` adds the tolerance times the loss at
    zero to the objective, and multiplies the sum by it: a quadratic equation.
    """
    root = np.sqrt(fit.objective**2 + 4.0 * at_zero * _NEWTON_TOL * fit.loss)
    return max(_NEWTON_TOL, float((root - fit.objective) / (2.0 * at_zero)) if at_zero else 0.0)


def _sharpness(f, one_hot, task) -> float:
    """The number whose product with f gives the rows to judge by the likeliest classes."""

    def loss(logarithm):
        return Softmax().value(np.exp(logarithm) * f, one_hot, task.held_weight)

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_SHARPNESS, method="bounded").x))


def _representation(found, smooth, n_grids, centers, seed=None) -> FeatureMap:
    """Grids, beside centres if there is a smooth part, or centres alone."""
    if smooth is None:
        return RandomBinning(n_grids, random_state=seed)
    if found.needless:
        return centers.set_params(random_state=seed)
    # Its own ridge, relative to the common one, is the weight of a part's kernel.
    grids = RandomBinning(n_grids, kernel=smooth.ridge / found.ridge * found.best_kernel)
    return Concatenated([centers.set_params(kernel=smooth.kernel), grids], random_state=seed)


def _grid_count(kernel, source, task, memory, n_jobs) -> int:
    """Grids whose bin numbers and coefficients a fit can afford."""
    few = RandomBinning(_COUNTED_GRIDS, random_state=0)
    few.fit_rows(task.source, task.weight, np.float32, kernel, n_jobs)
    # Some cells of the others are new: between none of them and all.
    n_cells = few.n_outputs / _COUNTED_GRIDS * np.sqrt(len(source) / len(task.source))
    n_outputs = task.target.shape[1]
    most = min(
        memory // 8 // (4 * len(source)),  # bin numbers take two or four bytes
        _WORK / (len(source) * np.sqrt(n_outputs)),
        _COEFFICIENTS / (n_cells * n_outputs),
    )
    return int(np.clip(most, _FEWEST_GRIDS, _GRIDS))


def _center_count(source, task, memory, scarce=False) -> int:
    """Centres of a smooth part that a trial and a fit can afford; none if they are too few."""
    more = _MORE if scarce else 1
    most = min(more * _ENTRIES, memory // 32)
    count = int(min(more * _CENTERS, len(task.source), most // len(source)))
    affordable = count >= _FEWEST_CENTERS and _TRIAL_CENTERS * len(task.source) <= most
    return count if affordable else 0


def learn_kernel(
    kernel: StationaryKernel,
    source: RowSource,
    target,
    weight,
    seed: int,
    alpha: float | None = None,
    n_jobs=None,
    time_budget: float | None = None,
) -> Choice:
    """A kernel's length scales alone, and its penalty unless it is given.

    As `search`, with grids for kernels that have them and centres for others.
    """
    begin = time.perf_counter()
    half = np.inf if time_budget is None else 0.5 * time_budget
    related = learn_related(kernel, source, target, weight, seed, n_jobs, begin + half)
    scale = related.widened(related.scales.length_scale, np.inf, source.shape[1])
    report = [scales_line(related, source.shape[1])]
    found = _Best(with_scale(kernel, related.scales.length_scale), report, begin + half)
    if len(related.distinct.rows) < FEWEST_ROWS:
        return Choice(with_scale(kernel, scale), "auto", "auto", found.ridge, report)
    task = split(related.source, related.distinct, _trial_size(source, target.shape[1]))
    ridges = RIDGES if alpha is None else (alpha * float(task.weight.sum()),)
    if kernel.has_grids:
        _try_binning(found, task, seed, n_jobs, ridges)
        _foresee(found, task, len(related.distinct.rows), seed, n_jobs, ridges)
    else:
        _try_factors(found, partial(_attempt_centers, found, task, seed, n_jobs, ridges))
    kernel = with_scale(kernel, found.factor * scale)
    return Choice(kernel, "auto", "auto", found.ridge, report)


@dataclass
class _Best:
    """The lowest squared error on held-out rows so far, and what had it."""

    kernel: StationaryKernel
    report: list[str]
    deadline: float = np.inf
    name: str = "RandomBinning"
    needless: bool = False  # if a smooth part does as well without grids
    error: float = np.inf
    ridge: float = 1.0
    factor: float = 1.0
    predicted: np.ndarray | None = None  # on the rows to judge by
    shorter: PathFit | None = None  # of scales half as long, which were no better

    @property
    def best_kernel(self) -> StationaryKernel:
        """With the length scales of the best trial."""
        return scaled(self.kernel, self.factor)

    @property
    def late(self) -> bool:
        return time.perf_counter() > self.deadline

    def note(self, name: str, factor: float, error: float, ridge: float) -> None:
        self.report.append(
            f"{name}, length scales x {factor:.3g}, ridge {ridge:g}: "
            f"held-out squared error {error:.4g}"
        )

    def better(self, name: str, factor: float, fit) -> bool:
        """Note a trial; whether it is the best yet."""
        self.note(name, factor, fit.loss, fit.ridge)
        if not fit.loss < _SHORTER * self.error:
            self.shorter = fit
            return False
        self.error, self.ridge, self.factor = fit.loss, fit.ridge, factor
        self.predicted = fit.predicted
        return True


@dataclass(frozen=True)
class _Smooth:
    """A function of long length scales, and what it leaves to explain."""

    kernel: StationaryKernel
    error: float
    ridge: float
    fitted: np.ndarray
    predicted: np.ndarray
    scarce: bool  # if the error falls much with more centres

    def rest(self, task: Task) -> Task:
        return task._replace(
            target=task.target - self.fitted, held_target=task.held_target - self.predicted
        )


def _smooth_part(found, task, n_rows, categorical, seed, n_jobs) -> _Smooth | None:
    """Kernel functions at some rows, of the columns that are numbers."""
    scale = np.where(categorical, np.inf, found.kernel.length_scale)
    if not np.isfinite(scale).any():
        return None
    count = min(_TRIAL_CENTERS, len(task.source))

    def attempt(kernel, ridges, n_centers=count):
        trial = Nystrom(n_centers, random_state=seed)
        return best_dense_ridge(task, kernel, trial, ridges, n_jobs)

    def part(kernel, fit, scarce):
        return _Smooth(kernel, fit.loss, fit.ridge, fit.fitted, fit.predicted, scarce)

    kernel: StationaryKernel = Laplacian(scale)
    half, fit = (attempt(kernel, RIDGES, n_centers) for n_centers in (count // 2, count))
    found.note(f"Nystrom({count})", 1.0, fit.loss, fit.ridge)
    if fit.loss < _SCARCE * half.loss:
        # Details that more rows will show: a smoother kernel would not follow them.
        found.report.append(f"half as many centres: {half.loss:.4g}; so the model gets more")
        return part(kernel, fit, scarce=True)
    radial = _radial_ratio(task, scale) * scale
    others = [with_scale(form, form.length_scale * radial) for form in _RADIAL_FORMS]
    if found.late:
        return part(kernel, fit, scarce=False)
    trials = [attempt(other, _RADIAL_RIDGES) for other in others]
    for form, trial in zip(_RADIAL_FORMS, trials, strict=True):
        name = f"Nystrom({count}), {type(form).__name__}"
        found.note(name, form.length_scale, trial.loss, trial.ridge)
    best = int(np.argmin([trial.loss for trial in trials]))
    # What some rows gain from smoothness, all of them may not: more rows show more details.
    margin = _WORTH * _MARGIN ** (n_rows / (len(task.source) + len(task.held_out)) - 1.0)
    if trials[best].loss < margin * fit.loss:
        kernel, fit = others[best], trials[best]
    return part(kernel, fit, scarce=False)


def _radial_ratio(task, scale) -> float:
    """Euclidean distance of two rows over the sum of their columns' distances, on average."""
    rows = task.source[slice(0, _PLAIN_ROWS)]
    used = np.isfinite(scale)
    middle = len(rows) // 2
    distance = np.abs(rows[:middle] - rows[middle : 2 * middle])[:, used] / scale[used]
    total = distance.sum()
    return float(np.sqrt(np.square(distance).sum(axis=1)).sum() / total) if total > 0 else 1.0


def _try_binning(found, task, seed, n_jobs, ridges=_GRID_RIDGES, first=1.0):
    """Random grids, few of them."""

    def attempt(factor):
        kernel = scaled(found.kernel, factor)
        return found.better(found.name, factor, _few_grids(task, kernel, seed, n_jobs, ridges))

    _try_factors(found, attempt, first)


def _few_grids(task, kernel, seed, n_jobs, ridges):
    trial = RandomBinning(_TRIAL_GRIDS, random_state=seed)
    if len(ridges) == 1:  # that is given, and may be too small for the few steps of a path
        solver = ConjugateGradient(tol=_TRIAL_TOL)
        return best_ridge(task, kernel, trial, solver, SquaredError(), ridges, n_jobs)
    return best_squared_ridge(task, kernel, trial, ridges, n_jobs)


def _foresee(found, task, n_rows, seed, n_jobs, ridges=_GRID_RIDGES):
    """Take scales half as long if they would have a lower error on all rows.

    More rows bear shorter scales: how much more is seen from what fewer rows bear.
    """
    shorter = found.shorter
    if shorter is None or n_rows < _MANY * len(task.source) or found.late:
        return
    if not shorter.loss < _NEARLY * found.error:
        return
    fewer = first_rows(task, len(task.source) // 4)
    if len(ridges) == 1:  # of an alpha that is given
        ridges = [ridges[0] * fewer.weight.sum() / task.weight.sum()]
    longer, short = (
        _few_grids(fewer, scaled(found.kernel, factor), seed, n_jobs, ridges).loss
        for factor in (found.factor, 0.5 * found.factor)
    )
    rise = shorter.loss / found.error
    times = min(_FURTHEST, np.log(n_rows / len(task.source)) / np.log(4.0))
    foreseen = rise * (rise * longer / short) ** times
    found.report.append(
        f"{found.name}, length scales x {0.5 * found.factor:.3g}, ridge {shorter.ridge:g}: "
        f"{foreseen:.3g} times the error of x {found.factor:.3g}, foreseen for {n_rows} rows"
    )
    if foreseen < _WORTH:
        found.factor *= 0.5
        found.ridge = shorter.ridge


def _try_factors(found, attempt, first=1.0):
    """Shorter and shorter length scales while the error falls."""
    factor = first
    while attempt(factor) and factor > _SMALLEST_FACTOR and not found.late:
        factor *= 0.5


def _attempt_centers(found, task, seed, n_jobs, ridges, factor):
    trial = Nystrom(min(_TRIAL_CENTERS, len(task.source)), random_state=seed)
    fit = best_dense_ridge(task, scaled(found.kernel, factor), trial, ridges, n_jobs)
    return found.better("Nystrom", factor, fit)


def unsearched(source: RowSource, weight, seed: int, reason: str) -> Choice:
    """Random binning with scales from the columns' deviations, and the usual penalty."""
    rows, row_weight = sample_rows(source, weight, seed)
    kernel = Laplacian("auto").resolve(rows, row_weight, source.categorical)
    return Choice(kernel, RandomBinning(), "auto", 1.0, [reason])


def search_bytes(source: RowSource, n_outputs: int = 1) -> int:
    """Memory that a search takes: rows to learn from, kernel matrices, bins of the trials."""
    n_rows, n_columns = source.shape
    sample = 30 * n_columns * max(sample_size(source), 2 * _near_size(source))
    matrices = 30 * SAMPLES * min(n_rows, SAMPLE_ROWS) ** 2
    numbers = _TRIAL_GRIDS + 2 * n_columns + 2 * LANCZOS_STEPS * n_outputs
    trial = 4 * min(n_rows, _trial_size(source, n_outputs)) * numbers
    pairs = relations_bytes(n_columns, n_outputs)
    return sample + max(matrices, pairs) + trial + 48 * n_rows


def _trial_size(source, n_outputs):
    """A quarter of many rows: the best length scales fall as rows are added."""
    most = min(_MOST_TRIAL_ROWS, max(_TRIAL_ROWS, _TRIAL_TARGETS // n_outputs))
    return int(np.clip(len(source) // 4, _TRIAL_ROWS, most))


def _near_size(source):
    return min(len(source), int(np.clip(_NEAR_NUMBERS // source.shape[1], *_NEAR_ROWS)))
