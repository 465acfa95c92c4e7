"""Running the programs of `keras_programs` through the drop-in, and comparing what they print with NumPy's."""

import contextlib
import importlib
import io
import math
import runpy
from pathlib import Path

from tests.compat import keras_in_numpy

PROGRAMS = sorted((Path(__file__).parent / "keras_programs").glob("*.py"))


def printed_by(program, context):
    """What a program prints where backend `context` computes; nothing of it is left behind."""
    drop_in = importlib.import_module("atled.compat.keras_backend")
    drop_in.install(context=context)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(program), run_name="__main__")
    finally:
        drop_in.uninstall()
    return printed.getvalue()


def check_printed(printed, program):
    """Every line has the words of NumPy's, and numbers that differ by float32's rounding over the steps."""
    expected = list(getattr(keras_in_numpy, program.stem)())
    found = [[_number(word) for word in line.split()] for line in printed.splitlines()]
    assert [line[0] for line in found] == [line[0] for line in expected]
    for line, wanted in zip(found, expected, strict=True):
        assert len(line) == len(wanted), line
        for word, other in zip(line, wanted, strict=True):
            assert _is_same(word, other), (line[0], word, other)


def _is_same(word, wanted):
    if isinstance(wanted, str):
        return word == wanted
    if isinstance(wanted, keras_in_numpy.Within):
        return wanted.low <= word <= wanted.high
    return math.isclose(word, wanted, rel_tol=2e-3, abs_tol=2e-4)


def _number(word):
    try:
        return float(word)
    except ValueError:
        return word
