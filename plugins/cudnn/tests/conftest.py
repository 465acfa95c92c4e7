"""Where no GPU can be used, the emulator of CUDA and a stand-in for cuDNN's library on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `fake_cudnn`

import atled_cuda_emulator
import atled_cuda_emulator.pytest_plugin  # installs the emulator where there is no GPU
from atled.plugin import reload_plugins
from atled_cudnn import handles, library, plans, tuning


@pytest.fixture(scope="session", autouse=True)
def _machine() -> None:
    if atled_cuda_emulator.installed():
        from fake_cudnn import FakeCudnn

        library.use(FakeCudnn())
        reload_plugins()
    elif reason := atled_cuda_emulator.unusable():
        pytest.skip(f"there is neither a GPU nor its emulator: {reason}")


@pytest.fixture
def fake(cudnn: Any) -> Any:
    """The stand-in for cuDNN, which nothing was asked of; without one the test is skipped."""
    if cudnn is None:
        pytest.skip("a GPU and the real cuDNN are here")
    return cudnn


@pytest.fixture
def cudnn() -> Iterator[Any]:
    """Plans are made anew: by a stand-in that nothing was asked of, or by the real cuDNN, which is None."""
    if not atled_cuda_emulator.installed():
        _forget()
        yield None
        _forget()
        return
    from fake_cudnn import FakeCudnn

    before = library.library()
    made = FakeCudnn()
    _forget()
    library.use(made)
    reload_plugins()  # what was prepared with another library is prepared anew
    yield made
    _forget()
    library.use(before)
    reload_plugins()


def _forget() -> None:
    plans.forget()
    tuning.forget()
    handles.forget()
