"""Whether the matrix unit is used: by what the processor has, and by what the system answers."""

import platform
import sys

import pytest

from atled_cpu_numba import facts, matrix_unit, processor

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="Linux on x86-64 has such units"
)
TILES = frozenset(("amx-tile", "amx-bf16"))


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch):
    monkeypatch.setattr(matrix_unit, "why_unused", matrix_unit.why_unused.__wrapped__)


@pytest.fixture
def pretend(monkeypatch):
    def having(features, missing, is_granted):
        monkeypatch.setattr(processor, "has", features.__contains__)
        monkeypatch.setattr(processor, "missing_here", lambda target: missing)
        monkeypatch.setattr(matrix_unit, "_is_granted", lambda: is_granted)

    return having


@pytest.mark.parametrize("features", [frozenset(), frozenset(["amx-tile"])])
def test_a_processor_without_tiles_of_bf16_is_told(pretend, features):
    pretend(features, (), is_granted=True)
    assert "the processor has none" in matrix_unit.why_unused()


def test_linux_is_asked_and_may_refuse(pretend):
    pretend(TILES, (), is_granted=False)
    assert not matrix_unit.multiplies_bf16()
    assert "Linux does not lend it" in facts.facts()["matrix unit"]
    pretend(TILES, (), is_granted=True)
    assert matrix_unit.multiplies_bf16()
    assert facts.facts()["matrix unit"].startswith("in use")


def test_code_for_another_machine_needs_no_permission_here(pretend):
    pretend(TILES, ("amx-tile",), is_granted=False)
    assert matrix_unit.multiplies_bf16()


def test_the_question_to_linux_has_an_answer():
    assert matrix_unit._is_granted() in (True, False)
