"""Scripts written for NNabla run through the drop-in; each checks its own outcome. They run on NNabla 1.39 too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from atled_contexts import extension_names

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

from nnabla_check.programs import PROGRAMS, expected, losses_in, script, too_far  # noqa: E402  # after the path is set

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
NEEDS_CPU = pytest.mark.skipif("cpu" not in extension_names(), reason="the scripts ask for NNabla's cpu")


def run(*words, folder):
    command = [sys.executable, "-W", "error", "-m", "atled.compat.nnabla", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_does_not_name_atled(script):
    assert not re.search(r"^\s*(import|from) atled", script.read_text(), re.MULTILINE)


@NEEDS_CPU
@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.stem not in PROGRAMS], ids=lambda path: path.stem)
def test_a_script_runs(script, tmp_path):
    source = script.read_text()
    for library in ("sklearn", "h5py"):
        if library in source:
            pytest.importorskip(library)
    done = run(script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("done: ")


@pytest.fixture(name="runs", scope="module")
def _runs(tmp_path_factory):
    """The folder with one of each program in it, which has run."""
    for library in ("sklearn", "h5py"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("programs")
    runner = Path(__file__).with_name("one_process.py")
    command = [sys.executable, "-W", "error", str(runner), str(folder), *(str(script(name)) for name in PROGRAMS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


@NEEDS_CPU
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_losses_of_nnabla(name, runs):
    folder = runs / name
    assert not (folder / "stderr").exists(), (folder / "stderr").read_text()
    assert (folder / "stdout").read_text().splitlines()[-1].startswith("done: ")
    theirs, theirs_final = expected()[name]
    assert not too_far(name, losses_in(folder), theirs, theirs_final)


def test_there_are_ten_and_ten_more_whose_losses_are_those_of_nnabla():
    assert len(SCRIPTS) >= 20 and len(PROGRAMS) == 10
    assert expected().keys() == set(PROGRAMS) <= {script.stem for script in SCRIPTS}


def test_other_losses_are_a_difference():
    losses = [1.0] * 40
    assert not too_far("lenet_digits", losses, losses[:20], 1.0)
    assert "differ by up to 0.002" in too_far("lenet_digits", losses, [1.0] * 19 + [1.002], 1.0)
    assert "differ" in too_far("lenet_digits", [float("nan")] * 40, losses[:20], 1.0)
    assert not too_far("vat_digits", losses, [2.0] * 20, 1.1)
    assert "is allowed" in too_far("vat_digits", losses, losses[:20], 1.3)


def test_a_script_gets_its_arguments_and_its_folder(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "beside.py").write_text("WORD = 'found'\n")
    script = tmp_path / "there" / "script.py"
    script.write_text("import sys, nnabla, beside\nprint(__name__, sys.argv[1:], beside.WORD, nnabla.__version__)\n")
    done = run("there/script.py", "-c", "x y", folder=tmp_path)
    assert done.stdout == "__main__ ['-c', 'x y'] found 1.0.0\n"


def test_a_module_runs_too(tmp_path):
    (tmp_path / "a_module.py").write_text("import sys, nnabla\nprint(sys.argv[1:])\n")
    assert run("-m", "a_module", "1", folder=tmp_path).stdout == "['1']\n"


def test_the_exit_status_and_the_exception_are_the_scripts_own(tmp_path):
    (tmp_path / "ends.py").write_text("raise SystemExit(3)\n")
    assert run("ends.py", folder=tmp_path).returncode == 3
    (tmp_path / "fails.py").write_text("import nnabla.functions as F\nF.softmx\n")
    done = run("fails.py", folder=tmp_path)
    assert done.returncode == 1
    assert "did you mean 'softmax'?" in done.stderr and "line 2" in done.stderr


def test_a_missing_script_and_no_script(tmp_path):
    done = run("nothing.py", folder=tmp_path)
    assert done.returncode == 2 and "there is no such file" in done.stderr
    assert run(folder=tmp_path).returncode == 2
    assert "usage:" in run("--help", folder=tmp_path).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break otherwise there")
def test_a_reader_of_the_help_that_leaves_causes_no_traceback():
    command = [sys.executable, "-m", "atled.compat.nnabla", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
