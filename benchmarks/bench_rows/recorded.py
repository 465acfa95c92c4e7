"""NNabla and atled under one name: both have the same API, so that cases for both are written once."""

from __future__ import annotations

import importlib
from types import SimpleNamespace


def recorded(library: str) -> SimpleNamespace:
    """The modules of "atled" (on its cpu backend) or "nnabla": nn, F, PF, S; parameters of earlier cases are gone."""
    nn = importlib.import_module(library)
    functions, parametric, solvers = (
        importlib.import_module(f"{library}.{name}") for name in ("functions", "parametric_functions", "solvers")
    )
    nn.clear_parameters()
    nn.set_auto_forward(False)
    nn.set_default_context(nn.Context(["cpu:float"]))
    return SimpleNamespace(nn=nn, F=functions, PF=parametric, S=solvers)
