"""What holds for every format of parameters: what is saved comes back, what is no such file is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atled as nn
from atled.files.parameters import FORMATS
from stored_parameters import make, network, state

pytest.importorskip("h5py")
pytest.importorskip("google.protobuf")

SAVED = [suffix for suffix in FORMATS if suffix != ".nnp"]  # which is saved with a network only


@pytest.fixture(autouse=True)
def no_parameters() -> Iterator[None]:
    nn.clear_parameters()
    yield
    nn.clear_parameters()


@pytest.mark.parametrize("suffix", SAVED)
def test_what_is_saved_comes_back(suffix: str, tmp_path: Path) -> None:
    network()
    expected = state()
    nn.save_parameters(tmp_path / f"p{suffix}")
    nn.clear_parameters()
    nn.load_parameters(tmp_path / f"p{suffix}")
    assert state() == expected


@pytest.mark.parametrize("suffix", SAVED)
def test_variables_given_by_name_are_saved_in_place_of_the_scope_s(suffix: str, tmp_path: Path) -> None:
    w = make("scope/W", [1.0, 2.0])
    with nn.parameter_scope("elsewhere"):
        nn.save_parameters(tmp_path / f"p{suffix}", {"b": nn.Variable((1,)), "a/W": w})
    nn.clear_parameters()
    nn.load_parameters(tmp_path / f"p{suffix}")
    found = nn.get_parameters(grad_only=False)
    assert [(key, param.d.tolist(), param.need_grad) for key, param in found.items()] == [
        ("b", [0], False),
        ("a/W", [1, 2], True),
    ]


@pytest.mark.parametrize("params", [["W"], {"W": np.ones(2)}])
def test_what_are_no_variables_by_name_is_not_saved(params: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"save_parameters\([\s\S]*What to do: pass Variables by name"):
        nn.save_parameters(tmp_path / "p.npz", params)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", SAVED)
def test_parameters_that_are_there_get_the_values(suffix: str, tmp_path: Path) -> None:
    w = make("scope/W", [1.0, 2.0])
    nn.save_parameters(tmp_path / f"p{suffix}")
    w.d = 0
    nn.load_parameters(tmp_path / f"p{suffix}")
    assert w.d.tolist() == [1.0, 2.0] and nn.get_parameters()["scope/W"] == w


@pytest.mark.parametrize("suffix", FORMATS)
def test_any_bytes_are_refused_and_change_nothing(suffix: str, tmp_path: Path) -> None:
    make("W", [1.0])
    path = tmp_path / f"p{suffix}"
    path.write_bytes(np.random.default_rng(0).bytes(500))
    with pytest.raises(ValueError, match=re.escape(str(path)) + r"[\s\S]*What to do"):
        nn.load_parameters(path)
    assert nn.get_parameters()["W"].d.tolist() == [1.0]
