"""The command line finds its verbs and tells users what to do about their errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import atled as nn
from atled import commands
from atled.commands import USER_ERROR, main, verbs
from atled.errors import CommandError


def test_every_verb_has_a_summary_and_what_the_command_line_calls():
    assert "demo" in verbs()
    for verb in verbs():
        module = commands._module(verb)
        assert module.__doc__
        assert callable(module.add_arguments)
        assert callable(module.run)


def test_without_a_verb_all_are_described(capsys):
    assert main([]) == USER_ERROR
    shown = capsys.readouterr().out
    assert re.search(r"demo +train a small network", shown)


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"atled {nn.__version__}\n"


def test_an_unknown_verb_is_refused_with_the_nearest_one(capsys):
    assert main(["dmo"]) == USER_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert "no such verb" in err
    assert "did you mean 'demo'?" in err


def test_what_the_user_can_mend_is_shown_without_a_traceback(monkeypatch, capsys):
    def run(arguments):
        raise CommandError("mend it like this")

    monkeypatch.setattr(commands._module("demo"), "run", run)
    assert main(["demo", "digits"]) == USER_ERROR
    assert capsys.readouterr().err == "atled: mend it like this\n"


def test_an_interrupt_ends_with_the_status_of_shells(monkeypatch, capsys):
    def run(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands._module("demo"), "run", run)
    assert main(["demo", "digits"]) == 130
    assert capsys.readouterr().err == "atled: interrupted\n"


def test_a_bug_keeps_its_traceback(monkeypatch):
    def run(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(commands._module("demo"), "run", run)
    with pytest.raises(ZeroDivisionError):
        main(["demo", "digits"])


def test_help_loads_no_optional_library():
    script = (
        "import sys, atled.commands\n"
        "try: atled.commands.main(['demo', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'sklearn', 'matplotlib', 'h5py', 'numba', 'llvmlite'} & set(sys.modules)\n"
        "print('loaded:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "python -m atled demo digits --json" in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize("columns", [50, 80])
def test_descriptions_fit_the_terminal_and_leave_examples_as_they_are(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for verb in verbs():
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        told, examples = capsys.readouterr().out.split("examples:\n")
        description = re.split(r"\n\n(?:positional arguments|options):\n", told.split("\n\n", 1)[1])[0]
        assert max(map(len, description.splitlines())) <= columns
        assert all(line.startswith(f"  python -m atled {verb}") for line in examples.splitlines() if line)


def test_a_missing_script_is_the_only_argument_that_is_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["explain"])
    assert capsys.readouterr().err.endswith("required: SCRIPT\n")


@pytest.mark.parametrize(
    "words",
    [
        ["pages", "sim", "--out", "file/pages"],
        ["support-matrix", "sim", "--out", "file/matrix.md"],
        ["new-plugin", "thing", "--out", "file"],
    ],
    ids=lambda words: words[0],
)
def test_a_place_that_cannot_be_written_to_is_told_without_a_traceback(monkeypatch, capsys, tmp_path, words):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert main(words) == USER_ERROR
    assert re.search(
        rf"^atled: {words[0]} .*--out file.*: it cannot be written \(.*\)\nWhat to do: choose a folder",
        capsys.readouterr().err,
    )


def test_what_the_encoding_of_the_output_lacks_is_escaped_and_a_script_is_told(tmp_path):
    (tmp_path / "prints.py").write_text("print('\u0142')\n", "utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

    def run(*words):
        command = [sys.executable, "-m", "atled", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)

    done = run("new-plugin", "thing", "--out", "\u0142")
    assert done.returncode == 0 and "wrote \\u0142" in done.stdout
    done = run("explain", "prints.py")
    assert done.returncode == 1 and "UnicodeEncodeError" in done.stderr


def test_a_manifest_that_cannot_be_written_may_be_printed(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr("atled.generators.manifest.manifest_path", lambda plugin: tmp_path / "file" / "manifest.json")
    assert main(["manifest", "sim"]) == USER_ERROR
    assert "What to do: add --print" in capsys.readouterr().err


def test_python_m_atled_runs_the_command_line():
    done = subprocess.run([sys.executable, "-m", "atled", "dmo"], capture_output=True, text=True, check=False)
    assert done.returncode == USER_ERROR
    assert "did you mean 'demo'?" in done.stderr


def test_without_docstrings_as_under_python_oo_the_verbs_are_listed_and_run():
    python = [sys.executable, "-OO", "-m", "atled"]
    overview = subprocess.run(python, capture_output=True, text=True, check=False)
    assert (overview.returncode, overview.stderr) == (USER_ERROR, "")
    assert set(verbs()) <= set(overview.stdout.split())
    one = subprocess.run([*python, "op", "relu", "--json"], capture_output=True, text=True, check=False)
    assert (one.returncode, one.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break otherwise there")
def test_a_reader_that_leaves_causes_no_traceback():
    command = [sys.executable, "-m", "atled"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")
