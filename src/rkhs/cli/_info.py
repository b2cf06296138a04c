"""`rkhs info`: what a model file holds."""

import os

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rkhs.cli._text import printable, size
from rkhs.expansion import KernelExpansion
from rkhs.features import FeatureMap, RandomBinning
from rkhs.persistence import load, read_header

_MOST_NAMES = 8


def show_info(path: str) -> None:
    """Print the facts of a model file."""
    model = load(path)
    version = read_header(path)["rkhs_version"]
    facts = {
        "file": f"{path}, {size(os.path.getsize(path))}, written by rkhs {version}",
        "estimator": type(model).__name__,
        **(_map_facts(model) if isinstance(model, FeatureMap) else _machine_facts(model)),
    }
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        table.add_row(Text(name, style="bold"), Text(printable(fact)))
    Console().print(table)


def _map_facts(feature_map) -> dict[str, str]:
    return {
        "parameters": _short(feature_map),
        "kernel": _short(feature_map.kernel_),
        "columns": _columns(feature_map),
        "features": f"{feature_map.n_outputs:,}",
        **_cells(feature_map),
    }


def _machine_facts(model) -> dict[str, str]:
    facts = {
        "kernel": _short(model.kernel_),
        "loss": _short(model.loss_),
        "features": "none: the kernel's whole space"
        if model.features_ is None
        else _short(model.features_),
        "solver": _short(model.solver_),
        "alpha": f"{model.alpha_:.4g}",
        "columns": _columns(model),
    }
    if hasattr(model, "classes_"):
        names = [str(name) for name in model.classes_.tolist()]
        facts["classes"] = f"{len(names)}: {_listed(names)}"
    n_terms, n_outputs = model.expansion_.coef.shape
    kind = "centres" if isinstance(model.expansion_, KernelExpansion) else "features"
    facts["function"] = (
        f"{n_terms:,} {kind} x {n_outputs} outputs, {model.expansion_.coef.dtype}, "
        f"{size(model.expansion_.nbytes)}"
    )
    facts |= _cells(getattr(model.expansion_, "feature_map", None))
    last = model.history_[-1]
    facts["training"] = (
        f"{model.n_iter_} epochs in {last['seconds']:.3g} s to objective "
        f"{last['objective']:.6g}. {model.stop_reason_}"
    )
    return facts


def _cells(feature_map) -> dict[str, str]:
    """How the rows spread over the grids of random binning."""
    if not isinstance(feature_map, RandomBinning):
        return {}
    share = feature_map.largest_cell_
    mean = feature_map.n_outputs / feature_map.n_grids
    return {
        "cells": f"{mean:,.1f} a grid in use; the fullest holds {share.mean():.2%} of the rows "
        f"on average, kappa {np.mean(1.0 / share):,.1f}"
    }


def _short(thing) -> str:
    with np.printoptions(threshold=_MOST_NAMES, edgeitems=2, precision=4):
        return " ".join(repr(thing).split())


def _columns(model) -> str:
    names = getattr(model, "feature_names_in_", None)
    count = f"{model.n_features_in_:,}"
    return count if names is None else f"{count}: {_listed(names.tolist())}"


def _listed(names) -> str:
    more = ["..."] if len(names) > _MOST_NAMES else []
    return ", ".join([*names[:_MOST_NAMES], *more])
