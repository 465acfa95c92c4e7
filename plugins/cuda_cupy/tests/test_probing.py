"""The states of a machine: what the probe says of each, and that it starts no CUDA and imports no CuPy."""

import _ctypes
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys

import pytest

from atled.plugin import Unusable, Usable
from atled_cuda_cupy import machine, probing
from atled_cuda_cupy.machine import Gpu, Management, Wheel

H100 = Gpu("NVIDIA H100", 90, 80 << 30)
WHEEL = Wheel("cupy-cuda12x", "14.2.0", 12)


class Machine:
    """A machine with everything; tests take things away."""

    def __init__(self):
        self.wheels = [WHEEL]
        self.driver = 12040
        self.management = Management("550.54", [H100])
        self.libraries = {"nvrtc": "/lib/libnvrtc.so.12", "cublas": "/lib/libcublas.so.12"}
        self.files = True


@pytest.fixture
def pc(monkeypatch):
    made = Machine()
    monkeypatch.setattr(machine, "emulator", lambda: "")
    monkeypatch.setattr(machine, "wheels", lambda: made.wheels)
    monkeypatch.setattr(machine, "driver_version", lambda: made.driver)
    monkeypatch.setattr(machine, "management", lambda: made.management)
    monkeypatch.setattr(machine, "library", lambda name, cuda: made.libraries.get(name, ""))
    monkeypatch.setattr(probing.importlib.util, "find_spec", lambda name: made.files or None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return made


def refused(reason, remedy):
    answer = probing.probe()
    assert isinstance(answer, Unusable)
    assert (answer.reason, answer.remedy) == (reason, remedy)


def test_a_machine_with_everything_is_usable(pc):
    assert isinstance(probing.probe(), Usable)


BOTH = 'pip install "atled[cuda12]" or pip install "atled[cuda13]", as the driver has CUDA 12 or 13'


@pytest.mark.parametrize(
    ("driver", "remedy"),
    [(12040, 'pip install "atled[cuda12]"'), (13000, 'pip install "atled[cuda13]"'), (None, BOTH)],
)
def test_no_cupy(pc, driver, remedy):
    pc.wheels, pc.driver = [], driver
    refused("CuPy is not installed", remedy)


def test_two_cupys(pc):
    pc.wheels = [WHEEL, Wheel("cupy-cuda13x", "14.2.0", 13)]
    names = "cupy-cuda12x cupy-cuda13x"
    remedy = f'pip uninstall -y {names}, then pip install "atled[cuda12]"'
    refused(f"several CuPys are installed, which overwrite each other: {names}", remedy)


def test_a_cupy_whose_files_are_gone(pc):
    pc.files = False
    remedy = 'pip install --force-reinstall "atled[cuda12]"'
    refused("cupy-cuda12x is installed, but its files are not there", remedy)


def test_an_old_cupy(pc):
    pc.wheels = [WHEEL._replace(version="13.6.0")]
    refused("CuPy 13.6.0 is too old: 14 or newer is needed", 'pip install --upgrade "atled[cuda12]"')


def test_a_cupy_for_other_devices(pc):
    pc.wheels = [Wheel("cupy-rocm-7-0", "14.0.0", 0)]
    remedy = 'pip uninstall -y cupy-rocm-7-0, then pip install "atled[cuda12]"'
    refused("cupy-rocm-7-0 is a CuPy for AMD's devices", remedy)


DRIVER = "install NVIDIA's driver: https://www.nvidia.com/drivers"


def test_no_driver(pc):
    pc.driver = None
    refused("there is no driver for NVIDIA GPUs (libcuda was not found)", DRIVER)


def test_a_driver_that_is_older_than_the_cupy(pc):
    pc.wheels = [Wheel("cupy-cuda13x", "14.2.0", 13)]
    remedy = f'pip uninstall -y cupy-cuda13x, then pip install "atled[cuda12]"; or {DRIVER}'
    refused("the driver knows CUDA 12.4, and cupy-cuda13x needs 13", remedy)
    pc.wheels, pc.driver = [WHEEL], 11080
    refused("the driver knows CUDA 11.8, and cupy-cuda12x needs 12", DRIVER)


def test_a_newer_minor_version_is_no_matter(pc):
    pc.driver = 12000
    assert isinstance(probing.probe(), Usable)


def test_no_device(pc):
    pc.management = Management("550.54", [])
    refused("there is no NVIDIA GPU", "nvidia-smi shows what the driver sees; a container needs --gpus all")


@pytest.mark.parametrize("hides", ["", "-1", "7"])
def test_hidden_devices(pc, monkeypatch, hides):
    pc.management = Management("550.54", [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hides)
    remedy = "unset it, or name devices that `nvidia-smi -L` shows"
    refused(f"CUDA_VISIBLE_DEVICES={hides!r} leaves no GPU", remedy)


def test_a_device_that_is_too_old(pc):
    old = Gpu("Tesla P100", 60, 16 << 30)
    pc.management = Management("550.54", [old])
    remedy = "use a GPU of the Turing generation (2018) or newer"
    refused("compute capability 7.5 is needed, and Tesla P100 has 6.0", remedy)
    pc.management = Management("550.54", [old, H100])
    assert isinstance(probing.probe(), Usable)


def test_a_system_without_the_management_library_is_left_to_cuda(pc):
    pc.management = None
    assert isinstance(probing.probe(), Usable)


@pytest.mark.parametrize(("name", "words"), [("nvrtc", "NVRTC, which compiles kernels"), ("cublas", "cuBLAS")])
def test_a_library_that_is_not_there(pc, name, words):
    del pc.libraries[name]
    refused(f"{words} of CUDA 12 was not found", 'pip install "atled[cuda12]"')


def test_facts_name_devices_driver_and_libraries(pc):
    assert probing.facts() == {
        "driver": "550.54 for CUDA 12.4",
        "device 0": "NVIDIA H100, compute capability 9.0, 80 GiB",
        "CuPy": "14.2.0 (cupy-cuda12x)",
        "NVRTC": "/lib/libnvrtc.so.12",
        "cuBLAS": "/lib/libcublas.so.12",
    }


def test_the_emulator_is_usable_and_says_what_it_is(monkeypatch):
    monkeypatch.setattr(machine, "emulator", lambda: "14.2.0+emulator")
    monkeypatch.setattr(machine, "wheels", list)
    assert isinstance(probing.probe(), Usable)
    assert "emulator" in probing.facts()["runs on"] and probing.facts()["CuPy"] == "14.2.0+emulator"


def test_wheels_are_found_by_their_metadata(monkeypatch):
    installed = {"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.1.0"}

    def version(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(machine, "_may_have_cupy", lambda: True)
    assert machine.wheels() == [Wheel("cupy-cuda12x", "14.2.0", 12), Wheel("cupy-cuda13x", "14.1.0", 13)]
    installed.clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "cupy" else None)
    assert machine.wheels() == [Wheel("cupy", "", 0)]


IDS = [(H100, "GPU-aaaa"), (Gpu("NVIDIA L4", 89, 24 << 30), "GPU-bbbb"), (H100, "GPU-cccc")]


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        (" 1 , 2", [1, 2]),
        ("0,9,1", [0]),
        ("-1,0", []),
        ("GPU-bb,0", [1, 0]),
        ("GPU-,0", []),
        ("0,0", [0]),
        ("first", []),
    ],
)
def test_visible_devices_are_those_that_cuda_would_show(said, numbers):
    assert machine.visible(IDS, said) == [IDS[number] for number in numbers]


LIBRARIES = """
#include <stdlib.h>
#include <string.h>
extern "C" {
int cuInit(unsigned) { abort(); }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **handle) { *handle = (void *)(size_t)(number + 1); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    *major = 9;
    *minor = (size_t)handle - 1;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) { memory[0] = 3ull << 30; return 0; }
int nvmlDeviceGetName(void *handle, char *text, unsigned) {
    strcpy(text, handle == (void *)1 ? "first" : "second");
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned) {
    strcpy(text, handle == (void *)1 ? "GPU-1" : "GPU-2");
    return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned) { strcpy(text, "550.54"); return 0; }
}
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """The driver and the management library, as far as the probe may ask; cuInit ends the process."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs g++ or clang++ on Linux")
    folder = tmp_path_factory.mktemp("libraries")
    command = [compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(folder / "libcuda.so.1")]
    subprocess.run(command, input=LIBRARIES, text=True, check=True)
    shutil.copy(folder / "libcuda.so.1", folder / "libnvidia-ml.so.1")
    return folder


def test_driver_and_devices_are_asked_without_starting_cuda(libraries, monkeypatch):
    monkeypatch.setattr(machine, "_DRIVER", str(libraries / "libcuda.so.1"))
    monkeypatch.setattr(machine, "_MANAGEMENT", str(libraries / "libnvidia-ml.so.1"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine.driver_version() == 12040
    assert machine.management() == Management("550.54", [Gpu("second", 91, 3 << 30)])


def test_what_is_no_library_is_no_driver(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("no library")
    for name in ("_DRIVER", "_MANAGEMENT"):
        monkeypatch.setattr(machine, name, str(tmp_path / "text"))
    assert machine.driver_version() is None and machine.management() is None


def test_a_library_without_the_functions_is_no_driver(monkeypatch):
    for name in ("_DRIVER", "_MANAGEMENT"):
        monkeypatch.setattr(machine, name, _ctypes.__file__)  # any library
    assert machine.driver_version() is None and machine.management() is None


def test_libraries_are_found_in_wheels_and_toolkits(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_ON_WINDOWS", False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert machine.library("nosuchlibrary", 12) == ""
    (tmp_path / "lib64").mkdir()
    for name in ("libnosuchlibrary.alt.so.12", "libnosuchlibrary.so.12", "libnosuchlibrary.so.11"):
        (tmp_path / "lib64" / name).touch()
    assert machine.library("nosuchlibrary", 12) == str(tmp_path / "lib64" / "libnosuchlibrary.so.12")


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plugin_and_probe_import_no_cupy(tmp_path):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text("raise SystemExit('cupy was imported')")
    code = "from atled_cuda_cupy.plugin import PLUGIN as p; p.atled_info(); p.atled_probe(); "
    code += "import sys; print('cupy' in sys.modules)"
    assert python(code, PYTHONPATH=str(tmp_path)).splitlines()[-1] == "False"


def test_nothing_but_the_probe_is_imported_where_cuda_does_not_work():
    code = """
import sys, atled_cuda_cupy.probing
from atled.plugin import Unusable
atled_cuda_cupy.probing.probe = lambda: Unusable("for this test", "nothing")
import atled as nn
assert nn.Context(["cuda", "reference"]).backend == ["cuda:float", "reference:float"]
print(sorted(name for name in sys.modules if name.startswith("atled_cuda_cupy.")))
"""
    assert python(code).splitlines()[-1] == str(
        [f"atled_cuda_cupy.{name}" for name in ("machine", "plugin", "probing")]
    )


def test_without_cuda_the_context_computes_on_the_host_and_says_why(tmp_path):
    code = """
import numpy as np, atled as nn, atled.functions as F
context = nn.Context(["cudnn", "cuda", "cpu"], fallback="quiet")
with nn.context_scope(context):
    y = F.tanh(nn.Variable.from_numpy_array(np.ones(3, "f")))
    y.forward()
    print(y.d.sum(), nn.explain(y))
"""
    printed = python(code, CUDA_VISIBLE_DEVICES="")
    assert re.search(r"cuda:float +.*(absent|unusable).*", printed), printed
    assert re.search(r"cpu:float +.*chosen", printed), printed
