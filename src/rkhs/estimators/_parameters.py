"""The parameters that all estimators share, as their docstrings have them."""

SHARED_PARAMETERS = """kernel : str, Kernel or "auto", default="auto"
        Name in snake_case, or a kernel built by hand with its own length scale. While kernel,
        features, solver, alpha and length_scale all are "auto", the model is searched for (see
        "What auto means" in the documentation), and the table may have text, categories, dates
        and missing values.
    loss : str or Loss
    features : str, FeatureMap, None or "auto", default="auto"
        None is the kernel's whole space, with every training row a centre. "random_binning"
        also takes categorical and text columns of data frames, as they are.
    solver : str, Solver or "auto", default="auto"
    alpha : float or "auto", default="auto"
        Weight of the penalty ``alpha/2 ||f||^2`` next to the mean loss; "auto" is 1 / n.
    penalty : {"l2", "l1"}, default="l2"
        "l1" is ``alpha sum_j |w_j|`` over the coefficients of features instead: it makes many
        of them zero.
    length_scale : "auto", "median", "learned", float or array, default="auto"
        For a kernel given by name. "auto" gives each column a scale of its own from its
        standard deviation; "median" one scale for all (images, one-hot columns); "learned" one
        for each column by leave-one-out errors, and with ``alpha="auto"`` the penalty by
        held-out rows (all kernels but "cauchy").
    metric : {"diagonal", "full"}, default="diagonal"
        "full" learns a linear map of the columns, too, from gradients of a fitted function: the
        kernel is then `Mapped`. For kernels of the Euclidean distance given by name, with
        ``length_scale="learned"`` or "auto", which are the same then.
    max_epochs : int, optional
        Largest number of the solver's steps; by default the solver's own.
    time_budget : float, optional
        Seconds after which no further step begins, of a search or of the solver.
    tol : float, optional
        For a solver given by name.
    validation_fraction : float, default=0.1
        Share of the rows (by weight) kept apart when `early_stopping` is on.
    early_stopping : bool, default=False
        Stop when the loss on those rows no longer falls, and keep the best epoch.
    memory_limit : "auto", int or str, default="auto"
        What a fit may use beyond the table itself: bytes, or "2GB"; "auto" is half of what
        is free. What would not fit is recomputed instead of kept.
    n_jobs : int, optional
        Threads; all cores by default. Results do not depend on it.
    random_state : int, RandomState or None
    verbose : bool or "auto", default="auto"
        A progress bar: "auto" shows one in a terminal after two seconds.
    warm_start : bool, default=False
        Start from the last fit's coefficients if they fit the new problem.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of tiles and coefficients: float64 for `Exact`, else float32."""
