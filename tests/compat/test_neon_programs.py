"""Programs written for neon run through the drop-in, unchanged; what they print is what NumPy computes."""

import re
import subprocess
import sys

import pytest
from tests.compat import neon_in_numpy
from tests.compat.neon_running import PROGRAMS, check_printed, printed_by


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_does_not_name_atled(program):
    assert not re.search(r"\batled\b", program.read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("context", [None, "sim", "reference"])
def test_a_program_prints_what_numpy_computes(program, context):
    check_printed(printed_by(program, context), program)


def test_there_are_ten_and_a_function_in_numpy_for_each():
    public = {name for name in vars(neon_in_numpy) if not name.startswith("_")} - {"np", "RandomState"}
    assert public == {program.stem for program in PROGRAMS}
    assert len(PROGRAMS) >= 10


def test_other_numbers_are_a_difference():
    program = PROGRAMS[0].with_name("linear_regression.py")
    printed = printed_by(program, "reference")
    check_printed(printed, program)
    with pytest.raises(AssertionError, match="'b'"):
        check_printed(re.sub(r"^b 0\.9", "b 0.8", printed, flags=re.MULTILINE), program)


def test_the_command_runs_one_in_a_process_of_its_own(tmp_path):
    program = PROGRAMS[0].with_name("linear_regression.py")
    command = [sys.executable, "-W", "error", "-m", "atled.compat.neon", "--context", "sim", str(program)]
    done = subprocess.run(
        [*command, "--steps", "25", "--rate=0.2"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    check_printed(done.stdout, program)
