"""NNabla and atled under one name: both have the same API, so that cases for both are written once."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

from bench_rows import precision

_GPU_EXTENSION = "cudnn"


def recorded(library: str) -> SimpleNamespace:
    """The modules of a library: nn, F, PF, S; parameters of earlier cases are gone.

    library: "atled" (on its cpu backend), "atled-gpu" (on a GPU, in the precision that was chosen), or "nnabla".
    """
    package = library.partition("-")[0]
    nn = importlib.import_module(package)
    functions, parametric, solvers = (
        importlib.import_module(f"{package}.{name}") for name in ("functions", "parametric_functions", "solvers")
    )
    nn.clear_parameters()
    nn.set_auto_forward(False)
    if library == "atled-gpu":
        nn.set_default_context(nn.get_extension_context(_GPU_EXTENSION, type_config=precision.chosen))
    else:
        nn.set_default_context(nn.Context(["cpu:float"]))
    return SimpleNamespace(nn=nn, F=functions, PF=parametric, S=solvers)
