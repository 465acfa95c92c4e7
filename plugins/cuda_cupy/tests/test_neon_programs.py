"""Programs written for neon run through the drop-in on the device; what they print is what NumPy computes."""

import pytest
from tests.compat.neon_running import PROGRAMS, check_printed, printed_by

import atled as nn


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_numpy_computes_and_nothing_falls_back(program):
    nn.reset_fallback_counts()
    check_printed(printed_by(program, "cuda"), program)
    assert nn.fallback_counts() == {}
