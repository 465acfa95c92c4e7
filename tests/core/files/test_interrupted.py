"""What handlers of signals raise amid saving and loading, as Ctrl-C does, is not lost, and leaves nothing half done."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.solvers as S
from atled.files import hdf5, parameters, solver_states, structures
from stored_parameters import make, state

pytest.importorskip("h5py")
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")


class Interrupted(Exception):
    """What the handler raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, stop)
    nn.clear_parameters()
    yield
    nn.clear_parameters()
    signal.signal(signal.SIGUSR1, before)


def sent_within(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[str]:
    """Have the signal come amid each call of a function; the names of the calls that ended."""
    function, ended = getattr(module, name), []

    def call(*args: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        found = function(*args)
        ended.append(name)
        return found

    monkeypatch.setattr(module, name, call)
    return ended


def solver() -> S.Solver:
    made = S.Adam()
    made.set_parameters(nn.get_parameters())
    return made


def test_a_save_as_h5_that_is_interrupted_ends_the_call_of_the_library_and_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = make("W", [1.0, 2.0])
    nn.save_parameters(tmp_path / "p.h5")
    w.d = 7
    ended = sent_within(monkeypatch, hdf5, "host_values")
    with pytest.raises(Interrupted):
        nn.save_parameters(tmp_path / "p.h5")
    assert ended == ["host_values"]
    assert [path.name for path in tmp_path.iterdir()] == ["p.h5"]
    nn.load_parameters(tmp_path / "p.h5")
    assert w.d.tolist() == [1, 2]


def test_a_load_of_h5_that_is_interrupted_ends_the_call_of_the_library_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        make(name, [1.0, 2.0])
    nn.save_parameters(tmp_path / "p.h5")
    for param in nn.get_parameters().values():
        param.d = 7
    before = state()
    ended = sent_within(monkeypatch, hdf5, "dataset_values")
    with pytest.raises(Interrupted):
        nn.load_parameters(tmp_path / "p.h5")
    assert ended == ["dataset_values"] and state() == before


@pytest.mark.parametrize(("save", "within"), [(True, "host_values"), (False, "dataset_values")])
def test_states_of_solvers_wait_in_the_same_way(
    save: bool, within: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("W", [1.0, 2.0])
    mine = solver()
    mine.save_states(tmp_path / "s.h5")
    ended = sent_within(monkeypatch, solver_states, within)
    with pytest.raises(Interrupted):
        (mine.save_states if save else mine.load_states)(tmp_path / "s.h5")
    assert set(ended) == {within}
    monkeypatch.undo()
    mine.load_states(tmp_path / "s.h5")


def test_structures_wait_in_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    structures.save_structure(tmp_path / "s", {"a": np.arange(3)})
    ended = sent_within(monkeypatch, structures, "dataset_values")
    with pytest.raises(Interrupted):
        structures.load_structure(tmp_path / "s")
    assert ended == ["dataset_values"]


def test_what_interrupts_the_end_of_a_load_comes_when_all_values_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        make(name, [1.0, 2.0])
    nn.save_parameters(tmp_path / "p.npz")
    expected = state()
    for param in nn.get_parameters().values():
        param.d = 7
    written_together = parameters.written_together

    @contextlib.contextmanager
    def interrupted(cells: Any) -> Iterator[None]:
        with written_together(cells):
            signal.raise_signal(signal.SIGUSR1)
            yield

    monkeypatch.setattr(parameters, "written_together", interrupted)
    with pytest.raises(Interrupted):
        nn.load_parameters(tmp_path / "p.npz")
    assert state() == expected
