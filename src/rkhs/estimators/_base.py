"""Everything that classifier and regressor share: from a table to a fitted function."""

import contextlib
import time
from dataclasses import replace

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rkhs.data import (
    RowSource,
    dates_as_numbers,
    encode_categories,
    extends,
    learn_categories,
    refuse_extreme,
    refuse_huge,
    refuse_text,
    row_keys,
    stack,
)
from rkhs.driver import Fit, run
from rkhs.estimators import _raw
from rkhs.estimators._auto import choose, default_kernel, parse_memory
from rkhs.estimators._more_rows import Stream, grows, kind_of, takes_more_rows
from rkhs.estimators._progress import progress_for
from rkhs.features import FEATURES
from rkhs.features._base import new_seed, sample_rows
from rkhs.kernels import KERNELS, Kernel
from rkhs.losses import LOSSES, Loss
from rkhs.monitor import Monitor, Result, Validation, copied
from rkhs.operators import KernelOperator
from rkhs.problem import Problem
from rkhs.registry import build
from rkhs.search import learn_kernel, learn_mapped_kernel, mapped_bytes, search_bytes
from rkhs.solvers._base import is_integer, is_number

_SAME_KERNEL = 0.01  # mean difference of kernel values that a new sample of rows may make
_FEW_EPOCHS = 2  # in which tiles are not read often enough to be worth new memory
_DTYPES = {"float32": np.float32, "float64": np.float64}


class KernelMachine(CallbackSupportMixin, BaseEstimator):
    """Shared parameters and the road from a table to an expansion."""

    task = ""

    def __init__(
        self,
        kernel="auto",
        loss="squared_error",
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
    ):
        self.kernel = kernel
        self.loss = loss
        self.features = features
        self.solver = solver
        self.alpha = alpha
        self.penalty = penalty
        self.length_scale = length_scale
        self.metric = metric
        self.max_epochs = max_epochs
        self.time_budget = time_budget
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.dtype = dtype

    def _check_parameters(self):
        if self.alpha != "auto" and not (is_number(self.alpha) and 0 <= self.alpha < np.inf):
            raise ValueError(f'alpha must be "auto" or a number >= 0, got {self.alpha!r}.')
        if self.penalty not in ("l2", "l1"):
            raise ValueError(f'penalty must be "l2" or "l1", got {self.penalty!r}.')
        if self.metric not in ("diagonal", "full"):
            raise ValueError(f'metric must be "diagonal" or "full", got {self.metric!r}.')
        if self.metric == "full" and not self._learns_kernel():
            raise ValueError(
                f'metric="full" learns length scales, and length_scale={self.length_scale!r} was '
                'given. Use length_scale="learned", or kernels.Mapped for a map of your own.'
            )
        if self.metric == "full" and not isinstance(self.kernel, str):
            raise ValueError(
                f'metric="full" learns the kernel, and kernel={self.kernel!r} was built by hand. '
                "Give its name, or kernels.Mapped alone for a map of your own."
            )
        if self.time_budget is not None and not (
            is_number(self.time_budget) and self.time_budget > 0
        ):
            raise ValueError(f"time_budget must be positive or None, got {self.time_budget!r}.")
        if self.max_epochs is not None and not (
            is_integer(self.max_epochs) and self.max_epochs > 0
        ):
            raise ValueError(
                f"max_epochs must be a positive integer or None, got {self.max_epochs!r}."
            )
        if self.n_jobs is not None and not (is_integer(self.n_jobs) and self.n_jobs != 0):
            raise ValueError(
                f"n_jobs must be an integer other than 0, or None; got {self.n_jobs!r}."
            )
        if not (is_number(self.validation_fraction) and 0 < self.validation_fraction < 1):
            raise ValueError(
                f"validation_fraction must lie between 0 and 1, got {self.validation_fraction!r}."
            )
        if self.dtype not in ("auto", *_DTYPES):
            raise ValueError(f'dtype must be "auto", "float32" or "float64", got {self.dtype!r}.')

    def _build_loss(self) -> Loss:
        loss = build(self.loss, LOSSES, Loss, "loss")
        if self.task not in loss.tasks:
            fitting = [repr(name) for name, kind in LOSSES.items() if self.task in kind.tasks]
            raise ValueError(
                f"{loss!r} is not a loss for {self.task}. Use one of {', '.join(fitting)}."
            )
        loss.check()
        return loss

    def _build_kernel(self) -> Kernel:
        if not isinstance(self.kernel, str) and not (
            isinstance(self.length_scale, str) and self.length_scale == "auto"
        ):
            raise ValueError(
                f"length_scale={self.length_scale!r} and kernel={self.kernel!r} were both given. "
                "Set length_scale in the kernel alone."
            )
        if isinstance(self.kernel, str) and self.kernel == "auto":
            return default_kernel(self.features)(length_scale=self.length_scale)
        return build(self.kernel, KERNELS, Kernel, "kernel", length_scale=self.length_scale)

    def _checked_weight(self, sample_weight, X):
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.sum() > 0:
            raise ValueError("All sample weights are zero: no row counts. Give positive weights.")
        return weight

    def _add_rows(self, X, y, sample_weight):
        """Fit to these rows and all that came before, from the last coefficients."""
        earlier = getattr(self, "_seen", [])
        if hasattr(self, "expansion_"):
            if not earlier:
                raise ValueError(
                    "This model comes from a file, a pickle or a copy, which hold none of the rows "
                    "it was fitted to, so there is nothing to add rows to. Fit it anew."
                )
            validate_data(self, X, reset=False, skip_check_array=True)
        seen = [*earlier, (X, y, sample_weight)]
        tables, targets, _ = zip(*seen, strict=True)
        weights = [np.broadcast_to(1.0 if w is None else w, len(t)) for _, t, w in seen]
        warm_start = self.warm_start
        self.warm_start = self._adds_rows = True
        try:
            self.fit(stack(tables), np.concatenate(targets), np.concatenate(weights))
        finally:
            self.warm_start = warm_start
            del self._adds_rows
        self._seen = seen
        return self

    def _coded(self, X):
        """A table to fit to, with codes for the categories if the features take them."""
        takes = getattr(kind_of(self.features, FEATURES), "takes_categories", False)
        if not (_raw.nothing_set(self) or takes):
            refuse_text(X)
            self.categories_ = None
            return X
        if _raw.nothing_set(self):
            X = dates_as_numbers(X)
        known = getattr(self, "categories_", None) if self.warm_start else None
        X, self.categories_ = learn_categories(X, known)
        return X

    def _fit(self, X, target, weight, loss, y, sample_weight, table):
        """Fit the function to targets (rows, outputs); returns self.

        `table` is X before its categories became codes, as callbacks may want to predict it.
        """
        self._check_parameters()
        refuse_huge(X)
        X, target, weight = _weighted(X, target, weight)
        memory, seed = parse_memory(self.memory_limit), new_seed(self.random_state)
        begin = time.perf_counter()
        found = self._search(X, target, weight, loss, seed, memory)
        if found is not None and found.loss is not None:
            loss = found.loss
        kernel, features, solver, alpha, dtype = self._setting(weight, loss, memory, seed, found)
        if dtype == np.float32:
            refuse_extreme(target)
        all_weight = weight
        if self.offset_ is not None:
            target = target - self.offset_
        seen = [(table, y, sample_weight)] if grows(self) else []
        train, held_out = self._split(RowSource(X), weight, seed)
        source = self._rows(X, train)
        validation = None
        if held_out is not None:
            validation = Validation(self._rows(X, held_out), target[held_out], weight[held_out])
            target, weight = target[train], weight[train]
        max_epochs = solver.max_epochs if self.max_epochs is None else self.max_epochs
        if found is not None and found.max_epochs is not None:
            # They stand in for a penalty: neither more of them, nor those of a fit before.
            max_epochs = min(found.max_epochs, max_epochs)
            self.__dict__.pop("_last_fit", None)
        keeps_tiles = not solver.reads_once or max_epochs > _FEW_EPOCHS
        axes = kernel, loss, features, solver, alpha
        problem = self._problem(*axes, source, target, weight, memory, dtype, seed, keeps_tiles)
        with self._progress():
            context = self._init_callback_context(max_subtasks=max_epochs)
            metadata = None if sample_weight is None else {"sample_weight": sample_weight}
            rows = X if self.categories_ is None else table
            told = {"estimator": self, "X": rows, "y": y, "metadata": metadata}
            context.call_on_fit_task_begin(**told)
            epochs = []

            def before_step():
                epochs.append(context.subcontext(task_name="epoch").call_on_fit_task_begin(**told))

            def after_step(state):
                return epochs[-1].call_on_fit_task_end(
                    **told,
                    reconstruction_attributes=lambda: {
                        "expansion_": solver.finish(problem, copied(state)),
                        "loss_": loss,
                    },
                )

            monitor = Monitor(validation, before_step=before_step, after_step=after_step)
            left = self.time_budget
            if left is not None and found is not None:
                left -= time.perf_counter() - begin
            fit = run(problem, solver, monitor, max_epochs, left)
            self._store(problem, solver, fit)
            if found is not None:
                self.feature_importances_ = _raw.importances(
                    self._rows, self.expansion_, X, all_weight, seed, self.n_jobs
                )
            context.call_on_fit_task_end(**told, reconstruction_attributes=dict)
        self._seen = seen  # rows that `partial_fit` adds to: a new fit begins with its own
        return self

    def _search(self, X, target, weight, loss, seed, memory):
        """The model that is found for a raw table if nothing is set; else None."""
        self.preparation_ = self.offset_ = None
        self.columns_: np.ndarray | None = None
        for name in ("feature_importances_", "length_scale_", "summary_"):
            self.__dict__.pop(name, None)
        if self._learns_kernel():
            return self._learn_kernel(X, target, weight, seed, memory)
        if not _raw.nothing_set(self):
            return None
        self.preparation_ = _raw.prepare(X, weight, self.categories_, seed)
        source = self._rows(X)
        centred, mean = target, np.zeros(target.shape[1])
        if self.task == "regression" or loss.coupled:
            mean = np.average(target, axis=0, weights=weight)
            centred = target - mean
            if loss.quadratic:  # several targets have the same say, whatever their units
                unit = np.sqrt(np.average(centred**2, axis=0, weights=weight))
                centred = centred / np.where(unit > 0, unit, 1.0)
        if _raw.is_searched(source):
            refuse_extreme(target)
            needed = search_bytes(source, target.shape[1])
            if needed > memory:
                self._refuse_memory(needed, memory)
        found = _raw.find(
            source, centred, weight, loss, mean, seed, memory, self.n_jobs, self.time_budget
        )
        if found is not None:
            if self.task == "regression" or found.loss is not None:
                self.offset_ = mean
            self._tell(found, source.shape[1])
        return found

    def _learns_kernel(self) -> bool:
        """Whether the kernel that is named looks at the targets."""
        learnt = ("learned", "auto") if self.metric == "full" else ("learned",)
        return isinstance(self.length_scale, str) and self.length_scale in learnt

    def _learn_kernel(self, X, target, weight, seed, memory):
        """The kernel that is named, with learnt length scales; the other axes as they are."""
        if not isinstance(self.kernel, str):
            self._build_kernel()  # says that it has a length scale of its own
        if getattr(self.features, "kernel", None) is not None:
            raise ValueError(
                f"features={self.features!r} have a kernel of their own, which would learn "
                "nothing. Give its name to the estimator alone."
            )
        kind = default_kernel(self.features) if self.kernel == "auto" else KERNELS.get(self.kernel)
        kernel = build(self.kernel, KERNELS, Kernel, "kernel") if kind is None else kind()
        source = RowSource(X, categories=self.categories_)
        full = self.metric == "full"
        needed = mapped_bytes(source) if full else search_bytes(source, target.shape[1])
        if needed > memory:
            self._refuse_memory(needed, memory)
        alpha = None if self.alpha == "auto" else float(self.alpha)
        found = (learn_mapped_kernel if full else learn_kernel)(
            kernel, source, target, weight, seed, alpha, self.n_jobs, self.time_budget
        )
        self._tell(found, X.shape[1])
        return replace(found, features=self.features, solver=self.solver)

    def _tell(self, found, n_columns):
        self.length_scale_ = found.kernel.length_scale
        if found.columns is not None and len(found.columns) < n_columns:
            self.columns_ = found.columns
            self.length_scale_ = np.full(n_columns, np.inf)
            self.length_scale_[self.columns_] = found.kernel.length_scale
        self.summary_ = "\n".join(found.report)

    def _rows(self, X, rows=None):
        source = _raw.row_source(X, self.preparation_, rows, self.categories_)
        return source if self.columns_ is None else source.only(self.columns_)

    def _finite(self, X):
        """What scikit-learn's checks say to missing values."""
        return sparse.issparse(X) or not _raw.nothing_set(self) or "allow-nan"

    def _setting(self, weight, loss, memory, seed, found=None):
        """What to fit with, every name and "auto" replaced, after all checks."""
        kernel = self._build_kernel() if found is None else found.kernel
        features, solver = self.features, self.solver
        if found is not None:
            features, solver = found.features, found.solver
        features, solver = choose(
            len(weight), loss, features, solver, memory, seed, self.tol, self.penalty
        )
        if features is not None and features.kernel is not None and self.kernel != "auto":
            raise ValueError(
                f"kernel={self.kernel!r} and features={features!r} each name a kernel. Give it "
                "once, to the estimator."
            )
        ridge = 1.0 if found is None else found.ridge
        alpha = ridge / float(weight.sum()) if self.alpha == "auto" else float(self.alpha)
        solver.check(loss, features, alpha, self.penalty)
        dtype = np.dtype(solver.dtype if self.dtype == "auto" else _DTYPES[self.dtype])
        return kernel, features, solver, alpha, dtype

    def _goes_on(self) -> bool:
        """Whether rows of a stream came before; refuses a model that forgot where it stood."""
        if getattr(self, "_stream", None) is not None:
            return True
        if hasattr(self, "expansion_"):
            raise ValueError(
                "This model does not know where its stream stood: it was fitted by another "
                "solver, or saved by an earlier rkhs. Use clone() for a new one."
            )
        return False

    def _absorb(self, X, target, weight, loss):
        """Take rows as the next of a stream, with a solver that keeps none of them."""
        begin = time.perf_counter()
        refuse_huge(X)
        X, target, weight = _weighted(X, target, weight)
        source, stream = RowSource(X), getattr(self, "_stream", None)
        if stream is None:
            self._check_parameters()
            if self.metric == "full":
                raise ValueError(
                    'metric="full" is learnt from a table, and a stream shows a few rows at a '
                    'time. Call fit first, or use metric="diagonal".'
                )
            self.preparation_ = self.columns_ = self.offset_ = None
            memory, seed = parse_memory(self.memory_limit), new_seed(self.random_state)
            kernel, features, solver, alpha, dtype = self._setting(weight, loss, memory, seed)
            problem = self._problem(
                kernel, loss, features, solver, alpha, source, target, weight, memory, dtype, seed
            )
            stream = Stream(problem, dtype, solver, solver.init(problem))
            self.history_: list[dict] = []
        if stream.dtype == np.float32:
            refuse_extreme(target)
        problem = stream.problem.with_rows(source, target, weight, stream.dtype)
        state = stream.solver.absorb(problem, replace(stream.state, loss_sum=0.0, loss_rows=0))
        if self.alpha == "auto":
            problem = replace(problem, alpha=1.0 / state.total_weight)
        row = {
            "epoch": len(self.history_) + 1,
            "seconds": time.perf_counter() - begin,
            "objective": state.mean_loss,
            "rows": state.total_rows,
        }
        fit = Fit(stream.solver.finish(problem, state), state, Result.STREAM, [*self.history_, row])
        self._store(problem, stream.solver, fit)
        return self

    def _split(self, source, weight, seed):
        """Training and validation rows; each row of weight w counts w times.

        Equal rows fall on the same side: none is trained on and validated with.
        """
        if not self.early_stopping:
            return None, None
        keys = row_keys(source, seed)
        order = np.argsort(keys, kind="stable")
        share = np.cumsum(weight[order]) / weight.sum()
        last = keys[order[np.searchsorted(share, self.validation_fraction)]]
        held_out = keys <= last
        if weight[~held_out].sum() == 0:
            raise ValueError(
                f"early_stopping with validation_fraction={self.validation_fraction!r} leaves no "
                f"row to train on (n_samples={len(weight)}). Use more rows, or "
                "early_stopping=False."
            )
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def _problem(
        self,
        kernel,
        loss,
        features,
        solver,
        alpha,
        source,
        target,
        weight,
        memory,
        dtype,
        seed,
        keeps_tiles=True,
    ):
        """Fit the feature map, share out the memory, and put the problem together."""
        start = None
        warm = self._warm_start(features, kernel, source, weight, target, seed)
        n_outputs, held_bytes = target.shape[1], 0
        map_bytes = features.fit_bytes() if features is not None else 0
        if map_bytes > memory:
            self._refuse_memory(map_bytes, memory)
        if warm is not None:
            last_map, kernel, start = warm
            if features is not None:
                features, start = features.resume(last_map, start, source, self.n_jobs, memory // 2)
        elif features is not None:
            features.fit_rows(source, weight, dtype, kernel, self.n_jobs, memory // 2)
            kernel = features.kernel_
        else:
            kernel = kernel.resolve(*sample_rows(source, weight, seed))
            held_bytes, source = source.held_bytes, source.held()

        def operator(keep_bytes):
            if features is not None:
                return features.operator(source, dtype, keep_bytes, self.n_jobs)
            return KernelOperator(kernel, source, source, dtype, keep_bytes, self.n_jobs)

        map_bytes = features.fit_bytes() if features is not None else held_bytes
        bare = operator(0)
        free = memory - map_bytes - bare.working_bytes
        # The solver may take half of what is left. Kept tiles get the rest, but for a tenth of
        # the whole: what the allocator cannot give again, and temporary vectors of rows.
        own = solver.memory(bare, n_outputs, features is not None, max(free // 2, 0))
        if own > free:
            self._refuse_memory(memory - free + own, memory)
        problem = Problem(
            kernel=kernel,
            loss=loss,
            features=features,
            alpha=alpha,
            source=source,
            target=target,
            weight=weight / weight.sum(),
            operator=operator(max(0, free - own - memory // 10) if keeps_tiles else 0),
            seed=seed,
            memory=free // 2,
            n_jobs=self.n_jobs,
            start=start,
            penalty=self.penalty,
        )
        return problem.with_fewer_unknowns() if solver.takes_rows else problem

    def _warm_start(self, features, kernel, source, weight, target, seed):
        """Map, kernel and coefficients of the last fit, if they suit this problem."""
        last = getattr(self, "_last_fit", None) if self.warm_start else None
        if last is None:
            return None
        last_map, last_kernel, last_columns, coef = last
        same_map = last_map is None if features is None else features.continues(last_map)
        rows = len(source) if features is None else last_map.n_outputs
        adds_rows = getattr(self, "_adds_rows", False) and not self.early_stopping
        if features is None and adds_rows and coef.shape[0] < rows:  # new rows come last
            coef = np.vstack([coef, np.zeros((rows - len(coef), coef.shape[1]))])
        columns = np.arange(source.shape[1]) if self.columns_ is None else self.columns_
        same_columns = np.array_equal(last_columns, columns)
        if not same_map or not same_columns or coef.shape != (rows, target.shape[1]):
            return None
        if features is not None and features.kernel is not None:
            kernel = build(features.kernel, KERNELS, Kernel, "kernel", length_scale="auto")
        if not extends(source.categories, getattr(last_map, "categories_", None)):
            return None
        # The kernel that is asked for must mean the same on these rows as the last one did.
        sample, sample_weight = sample_rows(source, weight, seed)
        if last_map is not None and not last_map.covers(sample):
            return None
        now = kernel.resolve(sample, sample_weight, source.categorical)
        few = sample[:: -(-len(sample) // 200)].copy()
        # A category against all others: a difference of one, as between any two.
        few[:, source.categorical] = (few != few[0])[:, source.categorical]
        if np.abs(now(few) - last_kernel(few)).mean() > _SAME_KERNEL:
            return None
        return last_map, last_kernel, coef

    def _refuse_memory(self, needed, memory):
        raise MemoryError(
            f"This fit needs about {needed / 1e6:,.1f} MB beyond the table, and memory_limit "
            f"allows {memory / 1e6:,.1f} MB. Raise memory_limit, use fewer features or centres, "
            'or features="random_fourier" with solver="sgd".'
        )

    def _store(self, problem, solver, fit):
        self.expansion_ = fit.expansion
        self.loss_ = problem.loss
        self.kernel_ = problem.kernel
        self.features_ = problem.features
        self.solver_ = solver
        self.alpha_ = problem.alpha
        self.history_ = fit.history
        self.n_iter_ = len(fit.history)
        self.stop_reason_ = fit.result.value
        n_columns = problem.source.shape[1]
        for name in ("_last_fit", "_stream"):
            self.__dict__.pop(name, None)
        if solver.streams:
            nothing = {"source": None, "weight": None, "operator": None, "start": None}
            rest = replace(problem, **nothing, target=problem.target[:0].copy())
            dtype = problem.operator.dtype
            self._stream = Stream(rest, dtype, solver, fit.state)
        elif self.warm_start or takes_more_rows(self):
            coef = problem.feature_coef(fit.state.coef)
            columns = np.arange(n_columns) if self.columns_ is None else self.columns_
            self._last_fit = problem.features, problem.kernel, columns, coef

    @contextlib.contextmanager
    def _progress(self):
        """The bar that `verbose` asks for, next to the user's callbacks."""
        mine = getattr(self, "_skl_callbacks", [])
        extra = progress_for(self.verbose)
        if extra:
            self._skl_callbacks = [*mine, *extra]
        try:
            yield
        finally:
            # The bar has its own teardown in scikit-learn's fit wrapper.
            if extra and mine:
                self._skl_callbacks = mine
            elif extra:
                del self._skl_callbacks

    def _decision_values(self, X) -> np.ndarray:
        check_is_fitted(self, "expansion_")
        if _raw.nothing_set(self):
            X = dates_as_numbers(X)
        if self.categories_ is not None:
            X = encode_categories(X, self.categories_, self)
        finite = True if self.preparation_ is None else "allow-nan"
        X = validate_data(
            self, X, accept_sparse="csr", dtype="numeric", reset=False, ensure_all_finite=finite
        )
        f = self.expansion_.evaluate(self._rows(X), self.n_jobs)
        return f if self.offset_ is None else (f + self.offset_).astype(f.dtype)

    def __getstate__(self):
        # The user's table is no part of a model.
        left_out = ("_seen",) if self.warm_start else ("_seen", "_last_fit")
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in left_out}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = _raw.nothing_set(self)
        return tags


def _weighted(X, target, weight):
    """Rows, targets and weights without the rows of weight zero, which are no rows."""
    if (weight > 0).all():
        return X, target, weight
    used = np.flatnonzero(weight > 0)
    return X[used], target[used], weight[used]
