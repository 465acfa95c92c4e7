"""What a command prints is written, or the command says in one line why it is not."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys

import pytest

from atled import standard_output
from atled.standard_output import NOT_READ, STATUS, OutputError, refused, tell, told_output

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed and disks limited otherwise there")

WORDS = ["", "--help", "--version", "op ReLU", "op relu --json", "op --help", "doctor --no-self-test"]
MODULES = ["atled", "atled.compat.nnabla", "atled.compat.neon", "atled.compat.keras_backend"]


COMPUTING = """
import atled as nn
import atled.functions as F

x = nn.Variable((3,))
x.d = 0.5
for n in range(3):
    y = F.tanh(F.sin(x) * 1.25 + n) - F.exp(x)
    for _ in range(n):
        y = F.sin(y) + y
    y.forward()
"""


def close_output():
    os.close(1)


def fill_disk():
    """No file can grow: for whoever writes that is as on a full disk, and needs none."""
    import resource  # POSIX

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def run(words, prepare, tmp_path, module="atled", **streams):
    command = [sys.executable, "-m", module, *words.split()]
    with (tmp_path / "out").open("w") as out:
        given = {"stdout": out, "stderr": subprocess.PIPE, **streams}
        return subprocess.run(command, text=True, check=False, preexec_fn=prepare, cwd=tmp_path, **given)


@POSIX
@pytest.mark.parametrize("words", WORDS)
def test_a_closed_standard_output_is_told_in_one_line(words, tmp_path):
    done = run(words, close_output, tmp_path)
    told = f"atled: the standard output cannot be written: {os.strerror(errno.EBADF)}\n"
    assert (done.returncode, done.stderr) == (STATUS, told)


@POSIX
@pytest.mark.parametrize("words", WORDS)
def test_a_full_disk_is_told_in_one_line(words, tmp_path):
    done = run(words, fill_disk, tmp_path)
    told = f"atled: the standard output cannot be written: {os.strerror(errno.EFBIG)}\n"
    assert (done.returncode, done.stderr) == (STATUS, told)


@POSIX
@pytest.mark.parametrize("module", MODULES[1:])
@pytest.mark.parametrize("prepare", [close_output, fill_disk])
def test_the_usage_of_what_runs_scripts_is_written_or_told(module, prepare, tmp_path):
    done = run("--help", prepare, tmp_path, module)
    assert done.returncode == STATUS
    assert done.stderr.startswith(f"python -m {module}: the standard output cannot be written: ")
    assert done.stderr.count("\n") == 1


@POSIX
def test_a_closed_standard_output_is_told_before_a_script_runs(tmp_path):
    (tmp_path / "script.py").write_text("open('ran', 'w').close()\n")
    done = run("explain script.py", close_output, tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (STATUS, 1)
    assert not (tmp_path / "ran").exists()


@POSIX
def test_without_standard_error_json_is_all_that_comes_on_the_standard_output(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint('of the script')\nprint('error', file=sys.stderr)\n")
    done = run("explain --json script.py", lambda: os.close(2), tmp_path, stderr=None)
    assert done.returncode == 0
    assert json.loads((tmp_path / "out").read_text())["status"] == 0


@POSIX
def test_a_verb_that_prints_nothing_needs_no_standard_output(tmp_path):
    done = run("manifest sim --check", close_output, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@POSIX
def test_on_a_full_disk_a_new_plugin_is_there_as_a_whole_or_not_at_all(tmp_path):
    done = run("new-plugin thing", fill_disk, tmp_path)
    assert done.returncode == STATUS
    assert done.stderr.startswith("atled: new-plugin thing --out .: it cannot be written (")
    assert os.listdir(tmp_path) == ["out"]


@POSIX
def test_on_a_full_disk_a_computation_goes_on_and_says_once_that_kernels_are_not_kept(tmp_path):
    (tmp_path / "script.py").write_text(COMPUTING)
    environment = {**os.environ, "ATLED_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "script.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=fill_disk, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0
    assert done.stderr.count("StoreWarning") == 1


class _Refusing(io.RawIOBase):
    """Takes nothing."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("is_buffered", [True, False])
def test_what_is_not_taken_is_an_error_at_the_end_of_the_block(monkeypatch, is_buffered):
    raw = _Refusing(errno.ENOSPC)
    out = io.TextIOWrapper(io.BufferedWriter(raw) if is_buffered else raw, write_through=not is_buffered)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(standard_output, "_discard", lambda out: setattr(raw, "write", len))
    with pytest.raises(OutputError) as caught, told_output():
        print("text")
    assert caught.value.args[0].errno == errno.ENOSPC
    assert sys.stdout is out


def test_a_reader_that_has_left_is_not_told(capsys):
    assert refused(OutputError(BrokenPipeError()), "atled") == NOT_READ
    assert capsys.readouterr() == ("", "")


def test_a_stream_of_another_kind_stays(monkeypatch):
    notebook = io.StringIO()
    monkeypatch.setattr(sys, "stdout", notebook)
    with told_output():
        print("text")
    assert notebook.getvalue() == "text\n"


def test_where_nothing_can_be_told_the_status_tells(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(_Refusing(errno.ENOSPC), write_through=True))
    tell("text")
    assert refused(OutputError(OSError(errno.ENOSPC, "full")), "atled") == STATUS
