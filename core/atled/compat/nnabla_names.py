"""NNabla's names: where what its modules hold is in atled, and what atled leaves out."""

from __future__ import annotations

from atled.compat.library import Library

_MODULES = {
    "nnabla": "atled",
    **{
        f"nnabla.{name}": f"atled.{name}"
        for name in (
            "config",
            "contrib",
            "contrib.context",
            "experimental",
            "experimental.mixed_precision_training",
            "ext_utils",
            "function",
            "functions",
            "initializer",
            "logger",
            "monitor",
            "parameter",
            "parametric_functions",
            "random",
            "solvers",
            "utils",
            "utils.data_iterator",
            "utils.data_source",
            "utils.data_source_implements",
            "utils.data_source_loader",
            "utils.download",
            "utils.image_utils",
            "utils.learning_rate_scheduler",
            "utils.load",
            "utils.nnabla_pb2",
            "utils.nnp_graph",
            "utils.profiler",
            "utils.save",
        )
    },
    # Where things that NNabla keeps in modules of their own are in atled.
    "nnabla._init": "atled",
    "nnabla._nd_array": "atled.arrays.array",
    "nnabla._variable": "atled",
    "nnabla.auto_forward": "atled",
    "nnabla.context": "atled",
    "nnabla.function_bases": "atled.functions",
    "nnabla.solver": "atled.solvers",
    "nnabla.variable": "atled",
}

_ABSENT = {
    "nnabla.communicators": (
        "atled trains on one device: it has no communicators (MultiProcessDataParallelCommunicator and the like)",
        "leave out the communicator: its all_reduce calls, and rank 0 of size 1 for the rest",
    ),
    "nnabla.communicator": (
        "atled trains on one device: it has no communicators",
        "leave out the communicator: its all_reduce calls, and rank 0 of size 1 for the rest",
    ),
    "nnabla.models": (
        "atled does not download trained models",
        "load their .nnp files with nnabla.utils.nnp_graph.NnpLoader",
    ),
    "nnabla.lms": (
        "atled does not move arrays out of device memory by a schedule",
        "use a smaller batch",
    ),
    "nnabla.utils.converter": (
        "atled converts no files",
        "convert with nnabla_cli of NNabla, and load the .nnp file",
    ),
}

NNABLA = Library(
    title="NNabla",
    name="nnabla",
    drop_in="atled.compat.nnabla",
    version="1.0.0",
    modules=_MODULES,
    absent=_ABSENT,
    elsewhere={
        "nnabla.logger": "atled.logger",
        "nnabla.parameter.load_parameters": "atled",
        "nnabla.parameter.save_parameters": "atled",
    },
    extensions="nnabla_ext",
)
