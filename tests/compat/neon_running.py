"""Running the programs of `neon_programs` through the drop-in, and comparing what they print with NumPy's."""

import contextlib
import importlib
import io
import math
import runpy
import sys
from pathlib import Path

from tests.compat import neon_in_numpy

from atled.neon.backends import cleanup_backend
from atled.neon.backends.backend import Backend

PROGRAMS = sorted((Path(__file__).parent / "neon_programs").glob("*.py"))


def printed_by(program, context):
    """What a program prints where neon's kinds of backends mean `context`; nothing of it is left behind."""
    drop_in = importlib.import_module("atled.compat.neon")
    registered, arguments = dict(Backend.backends), sys.argv
    drop_in.install(context)
    try:
        sys.argv = [str(program)]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(program), run_name="__main__")
    finally:
        sys.argv = arguments
        drop_in.uninstall()
        cleanup_backend()
        Backend.backends.clear()
        Backend.backends.update(registered)
    return printed.getvalue()


def check_printed(printed, program):
    """Every line has the words of NumPy's, and numbers that differ by float32's rounding over the steps."""
    expected = list(getattr(neon_in_numpy, program.stem)())
    found = [[_number(word) for word in line.split()] for line in printed.splitlines()]
    assert [line[0] for line in found] == [line[0] for line in expected]
    for line, wanted in zip(found, expected, strict=True):
        assert len(line) == len(wanted), line
        for word, other in zip(line, wanted, strict=True):
            same = word == other if isinstance(other, str) else math.isclose(word, other, rel_tol=2e-3, abs_tol=2e-4)
            assert same, (line[0], word, other)


def _number(word):
    try:
        return float(word)
    except ValueError:
        return word
