"""Programs for a Keras-style backend run through the drop-in, unchanged; what they print is what NumPy computes."""

import re
import subprocess
import sys

import pytest
from tests.compat import keras_in_numpy
from tests.compat.keras_running import PROGRAMS, check_printed, printed_by


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_does_not_name_atled(program):
    assert not re.search(r"\batled\b", program.read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_numpy_computes(program):
    check_printed(printed_by(program, "cpu"), program)


# Those of few steps: on a device that is simulated, each op of a step is a call.
@pytest.mark.parametrize("name", ["dbm_mean_field", "minibatches", "recurrences", "state", "gibbs_chains", "whitening"])
@pytest.mark.parametrize("context", ["sim", "reference"])
def test_a_program_prints_the_same_elsewhere(name, context):
    program = PROGRAMS[0].with_name(f"{name}.py")
    check_printed(printed_by(program, context), program)


def test_there_are_ten_and_a_function_in_numpy_for_each():
    public = {name for name in vars(keras_in_numpy) if not name.startswith("_")} - {"np", "NamedTuple", "Within"}
    assert public == {program.stem for program in PROGRAMS}
    assert len(PROGRAMS) >= 10


@pytest.mark.slow
def test_the_command_runs_one_in_a_process_of_its_own(tmp_path):
    program = PROGRAMS[0].with_name("logistic_regression.py")
    program_copy = tmp_path / program.name
    program_copy.write_text(program.read_text().replace("natural_bm.backend", "keras.backend"))
    command = [sys.executable, "-W", "error", "-m", "atled.compat.keras_backend", "--as", "keras.backend"]
    done = subprocess.run([*command, str(program_copy)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    check_printed(done.stdout, program)
