"""Backend `cuda` for each test: on the GPU of this machine, else on the emulator."""

from __future__ import annotations

import gc
import os

import pytest

import atled as nn
import atled_cuda_emulator
from atled.parameter import clear_parameters
from atled_contexts import get_extension_context, plugins, register_plugin, reset_fallback_counts

pytest_plugins = ["atled_cuda_emulator.pytest_plugin"]


def is_emulated():
    """Whether kernels run on the processor."""
    return atled_cuda_emulator.installed()


def pytest_configure():
    if is_emulated():
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # the emulator keeps what it compiled itself
    from atled_cuda_cupy.plugin import PLUGIN

    if not any(record.name == "cuda-cupy" for record in plugins()):
        register_plugin("cuda-cupy", PLUGIN)


@pytest.fixture(autouse=True)
def nothing_left():
    """No parameters, nothing told yet."""
    clear_parameters()
    reset_fallback_counts()
    yield
    clear_parameters()


@pytest.fixture
def cuda():
    """The preset, without fallback."""
    return get_extension_context("cuda", fallback="raise")


@pytest.fixture
def where():
    """Device "0", after what earlier tests left there is gone."""
    from atled_cuda_cupy.devices import device

    gc.collect()
    nn.clear_memory_cache()
    return device("0")


@pytest.fixture
def arrays():
    """The array class."""
    from atled_cuda_cupy.plugin import array_class

    return array_class()


@pytest.fixture
def emulated():
    """The emulator's own functions; tests that ask for faults or count driver calls are skipped on a GPU."""
    if not is_emulated():
        pytest.skip("the driver of a GPU does not fail on request")
    return atled_cuda_emulator


@pytest.fixture
def compute(where):
    """`compute(module, prepare, op, inputs, **attributes)`: outputs of a call as a module of kernels prepares it.

    shift: bytes by which all arrays are off the places where 16 bytes can be loaded at once.
    flag: what it wrote into the flag for failures, of those that may fail.  inputs: as it left them.
    """
    import cupy

    from atled.plugin import ArrayDesc, Call, op_spec

    def empty(shape, dtype, shift):
        if not shift:
            return cupy.empty(shape, dtype)
        size = ArrayDesc(shape, dtype).nbytes
        return cupy.ndarray(shape, dtype, cupy.empty(size + shift, "uint8").data + shift)

    def filled(x, shift):
        array = empty(x.shape, x.dtype, shift)
        array.set(x)
        return array

    def run(module, prepare, op, inputs, type_config="float", shift=0, **attributes):
        spec = op_spec(op)
        descs = tuple(None if x is None else ArrayDesc(x.shape, x.dtype) for x in inputs)
        attributes = spec.check_attributes(attributes, descs)
        made = spec.infer(*descs, **attributes)
        outputs = (made,) if isinstance(made, ArrayDesc) else tuple(made)
        floats = [attributes[name] for name in spec.float_names]
        told = {name: value for name, value in attributes.items() if name != "channel_last" or value}
        told = {name: value for name, value in told.items() if name not in spec.float_names}
        call = Call(spec, descs, outputs, told, device_id="0", type_config=type_config)
        assert module.accepts(call) is True
        prepared = getattr(module, prepare)(call)
        given = [None if x is None else filled(x, shift) for x in inputs]
        results = [empty(desc.shape, desc.dtype, shift) for desc in outputs]
        workspace = [cupy.empty(prepared.workspace, "uint8")] if prepared.workspace else []
        flag = cupy.zeros(1, "int64")
        failure = [flag, 7] if prepared.may_fail else [flag] if prepared.heeds_failure else []
        prepared.run(*given, *results, *workspace, *failure, *floats)
        run.flag = int(flag.get()[0])
        run.inputs = [None if x is None else x.get() for x in given]
        return [result.get() for result in results]

    return run
