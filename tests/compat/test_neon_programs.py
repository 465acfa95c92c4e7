"""Programs written for neon run through the drop-in, unchanged; what they print is what NumPy computes."""

import importlib
import math
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat import neon_in_numpy

from atled.neon.backends import cleanup_backend
from atled.neon.backends.backend import Backend

PROGRAMS = sorted((Path(__file__).parent / "neon_programs").glob("*.py"))


@pytest.fixture
def neon_drop_in(monkeypatch):
    """`import neon` means atled; what a program leaves behind is forgotten."""
    module = importlib.import_module("atled.compat.neon")
    registered = dict(Backend.backends)
    module.install()
    yield module
    module.uninstall()
    cleanup_backend()
    Backend.backends.clear()
    Backend.backends.update(registered)


def lines_of(printed):
    return [[_number(word) for word in line.split()] for line in printed.splitlines()]


def _number(word):
    try:
        return float(word)
    except ValueError:
        return word


def check_printed(printed, program):
    """Every line has the words of NumPy's, and numbers that differ by float32's rounding over the steps."""
    expected = list(getattr(neon_in_numpy, program.stem)())
    found = lines_of(printed)
    assert [line[0] for line in found] == [line[0] for line in expected]
    for line, wanted in zip(found, expected, strict=True):
        assert len(line) == len(wanted), line
        for word, other in zip(line, wanted, strict=True):
            same = word == other if isinstance(other, str) else math.isclose(word, other, rel_tol=2e-3, abs_tol=2e-4)
            assert same, (line[0], word, other)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_does_not_name_atled(program):
    assert not re.search(r"\batled\b", program.read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("context", [None, "sim", "reference"])
def test_a_program_prints_what_numpy_computes(program, context, neon_drop_in, monkeypatch, capsys):
    neon_drop_in.install(context)
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    check_printed(capsys.readouterr().out, program)


def test_there_is_a_function_in_numpy_for_each_program():
    public = {name for name in vars(neon_in_numpy) if not name.startswith("_")} - {"np", "RandomState"}
    assert public == {program.stem for program in PROGRAMS}


def test_the_command_runs_one_in_a_process_of_its_own(tmp_path):
    program = PROGRAMS[0].with_name("linear_regression.py")
    command = [sys.executable, "-W", "error", "-m", "atled.compat.neon", "--context", "sim", str(program)]
    done = subprocess.run(
        [*command, "--steps", "25", "--rate=0.2"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    check_printed(done.stdout, program)
