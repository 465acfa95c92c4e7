"""What holds without a GPU and its emulator: what the plugin imports, what it offers, its presets."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import atled as nn
import atled.plugin
import atled_cudnn
from atled.ext_utils import get_extension_context, import_extension_module
from atled_cudnn import cupy_names, plugin

SOURCE = Path(atled_cudnn.__file__).parent


def imported():
    """(file, module, names) of every import of the plugin, inside functions too."""
    for path in sorted(SOURCE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path.name, alias.name, ()) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield path.name, node.module, tuple(alias.name for alias in node.names)


def test_it_imports_the_plugin_api_only_and_nothing_of_the_plugin_for_cupy():
    allowed = {"atled.plugin", "numpy", *sys.stdlib_module_names}
    for file, module, names in imported():
        top = module.partition(".")[0]
        assert module in allowed or top in ("atled_cudnn", *sys.stdlib_module_names), f"{file} imports {module}"
        if module == "atled.plugin":
            assert set(names) <= set(atled.plugin.__all__), f"{file}: beyond the API"


def test_cupy_is_named_in_one_module():
    for path in SOURCE.glob("*.py"):
        if path.name != "cupy_names.py":
            assert "import cupy\n" not in path.read_text("utf-8")
    assert all(isinstance(getattr(cupy_names, name), object) for name in cupy_names._NAMES)
    with pytest.raises(AttributeError):
        _ = cupy_names.something_else


def test_asking_who_it_is_imports_no_cupy():
    code = (
        "import sys; from atled_cudnn.plugin import PLUGIN; PLUGIN.atled_info(); PLUGIN.atled_probe(); "
        "print('cupy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("type_config", "backends"),
    [
        ("float", ["cudnn:float", "cuda:float", "cpu:float"]),
        ("half", ["cudnn:half", "cudnn:float", "cuda:half", "cuda:float", "cpu:float"]),
        ("bf16", ["cudnn:bf16", "cuda:bf16", "cpu:bf16"]),
        ("double", ["cudnn:double", "cuda:double", "cpu:double"]),
        ("tf32", ["cudnn:tf32", "cuda:tf32", "cpu:float"]),
    ],
)
def test_the_preset_is_cudnn_then_cuda_then_the_host(type_config, backends):
    last = import_extension_module("cudnn").get_devices()[-1]
    context = get_extension_context("cudnn", type_config=type_config, device_id=last)
    assert context.backend == backends
    assert (context.array_class, context.device_id) == ("CudaCachedArray", last)


def test_the_preset_of_another_name_is_none_of_its_business():
    assert plugin.PLUGIN.atled_preset("cuda", "float", "0", {}) is None


def test_the_devices_are_those_of_cuda():
    module = nn.ext_utils.import_extension_module("cudnn")
    assert module.get_devices() == nn.ext_utils.import_extension_module("cuda").get_devices()


def test_without_cuda_the_host_computes_and_says_why():
    code = (
        "import sys, importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'cupy' else found(name, package)\n"
        "import numpy as np, atled as nn, atled.functions as F\n"
        "x, w = (nn.NdArray.from_numpy_array(np.ones((1, 1, n, n), 'f')) for n in (4, 2))\n"
        "with nn.context_scope(nn.Context(['cudnn', 'cuda', 'cpu'], fallback='quiet')):\n"
        "    print(F.convolution(x, w).data.sum())\n"
        "    print(nn.explain(F.convolution, x, w))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("36.0")
    assert "cudnn" in done.stdout and "CuPy is not installed" in done.stdout, done.stdout
