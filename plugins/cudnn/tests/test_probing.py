"""What the plugin says where something is missing, and where it found cuDNN."""

from __future__ import annotations

import ctypes
import importlib.util
import sys

import pytest

from atled.plugin import Unusable, Usable
from atled_cudnn import library, probing
from atled_cudnn.library import Found

FOUND = Found("/lib/libcudnn.so.9", "the system's loader")


@pytest.fixture
def machine(monkeypatch):
    """A machine that has all that is needed, without a stand-in for CuPy; its arguments take away."""
    from types import SimpleNamespace

    def take_away(*modules, driver=True, version=92800, found=FOUND):
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name in modules else SimpleNamespace(name=name)
        )

        def load(name):
            if not driver:
                raise OSError(f"{name}: cannot open shared object file")

        monkeypatch.setattr(ctypes, "CDLL", load)
        monkeypatch.setattr(library, "location", lambda: found)
        monkeypatch.setattr(library, "version", lambda: version)

    return take_away


def test_with_all_of_it_the_backend_is_usable(machine):
    machine()
    assert isinstance(probing.probe(), Usable)


@pytest.mark.parametrize(
    ("lacking", "reason", "remedy"),
    [
        ({"modules": ("atled_cuda_cupy",)}, "atled-cuda-cupy is not installed", 'pip install "atled[cuda12]"'),
        ({"modules": ("cupy",)}, "CuPy is not installed", 'pip install "atled[cuda12]"'),
        ({"driver": False}, "no driver for NVIDIA GPUs", "https://www.nvidia.com/drivers"),
        ({"found": None}, "libcudnn.so.9) was not found", 'pip install "nvidia-cudnn-cu12>=9.8,<10"'),
        ({"version": 90701}, "cuDNN 9.7.1 is too old, 9.8.0 is needed: /lib/libcudnn.so.9", "pip install --upgrade"),
    ],
)
def test_what_is_missing_is_told_with_a_remedy(machine, lacking, reason, remedy):
    machine(*lacking.pop("modules", ()), **lacking)
    answer = probing.probe()
    assert isinstance(answer, Unusable)
    assert reason in answer.reason and remedy in answer.remedy


def test_a_library_that_cannot_be_loaded_is_told(machine, monkeypatch):
    machine()

    def fail():
        raise OSError("libz.so.1: cannot open shared object file")

    monkeypatch.setattr(library, "location", fail)
    answer = probing.probe()
    assert isinstance(answer, Unusable) and "libz.so.1" in answer.reason
    assert "libz.so.1" in probing.facts()["cuDNN"]


def test_doctor_says_which_cudnn_and_where(machine):
    machine()
    assert probing.facts() == {"cuDNN": "9.28.0, /lib/libcudnn.so.9 (the system's loader)"}
    machine(found=None)
    assert probing.facts() == {"cuDNN": "not found"}


def test_the_wheel_is_found_first(monkeypatch, tmp_path):
    from types import SimpleNamespace

    path = tmp_path / "lib" / "libcudnn.so.9"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    )
    assert library.find() == Found(str(path), "the wheel nvidia-cudnn")


def test_without_the_wheel_pathfinder_is_asked_then_the_system(monkeypatch):
    from types import SimpleNamespace

    class DynamicLibNotFoundError(RuntimeError):
        pass

    paths = ["/opt/libcudnn.so.9"]

    def load(name):
        if not paths:
            raise DynamicLibNotFoundError(name)
        return SimpleNamespace(abs_path=paths[0])

    pathfinder = SimpleNamespace(load_nvidia_dynamic_lib=load, DynamicLibNotFoundError=DynamicLibNotFoundError)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(pathfinder=pathfinder))
    assert library.find() == Found("/opt/libcudnn.so.9", "cuda.pathfinder")
    paths.clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    assert library.find() == Found("libcudnn.so.9", "the system's loader")


def test_without_any_there_is_none(monkeypatch):
    monkeypatch.setattr(library, "_in_wheel", lambda: None)
    monkeypatch.setattr(library, "_by_pathfinder", lambda: None)
    monkeypatch.setattr(library, "_used", None)
    monkeypatch.setattr(library, "_found", None)

    def fail(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", fail)
    assert library.find() is None and library.location() is None
    with pytest.raises(RuntimeError, match="no libcudnn"):
        library.library()
