"""The reference pages are those of the specs as they are, complete, and small."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import atled.functions as F
from atled.commands import main
from atled.generators.pages.docstring import take_apart
from atled.generators.pages.pages import read_differences, reference_pages

ROOT = Path(__file__).parents[4]
PAGES = ROOT / "docs" / "functions"


def test_the_pages_are_what_the_specs_say():
    # In a fresh process: here tests may have registered op specs of their own.
    command = [sys.executable, "-m", "atled", "pages", "cpu-numba", "sim", "--out", "docs/functions"]
    command += ["--differences", "docs/nnabla_differences.md", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr + "make generated writes them anew"


def test_every_function_has_its_entry_once():
    text = "\n".join(path.read_text("utf-8") for path in PAGES.glob("*.md") if path.name != "README.md")
    assert sorted(re.findall(r"^## (\w+)$", text, flags=re.MULTILINE)) == dir(F)


def test_links_and_pictures_lead_somewhere():
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", path.read_text("utf-8")):
            assert (PAGES / target).exists(), f"{path.name}: {target}"


def test_pictures_are_small():
    pictures = list((PAGES / "pictures").glob("*.png"))
    assert 10 <= len(pictures) <= 25
    assert max(path.stat().st_size for path in pictures) <= 15_000


def test_differences_come_from_the_table():
    page = "| functions | cases | reason |\n|---|---:|---|\n| `relu`, `elu` | 2 | of taste |\n| `elu` | 1 | of age |\n"
    assert read_differences(page) == {"relu": ["of taste"], "elu": ["of taste", "of age"]}
    text = reference_pages([], read_differences(page))["activation.md"]
    assert text.count("Differs from NNabla 1.39:\n\n- of taste\n- of age\n") == 1


def test_a_docstring_is_taken_apart():
    parts = take_apart(
        "Sum of things.\n\nMore of it.\n\nArgs:\n    x: the first\n        line goes on.\n    y, z: others.\n\n"
        "Raises:\n    ValueError: it does not fit.\n\nSource: a book."
    )
    assert parts.summary == "Sum of things."
    assert parts.text == "More of it.\n\nSource: a book."
    assert parts.sections["Args"] == [("x", "the first line goes on."), ("y, z", "others.")]
    assert parts.sections["Raises"] == [("ValueError", "it does not fit.")]


@pytest.mark.slow
def test_pages_and_pictures_are_written_where_asked(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["pages", "sim", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--check"]) == 1
    assert "not up to date" in capsys.readouterr().err
    assert main(arguments) == 0
    assert (tmp_path / "out" / "pictures" / "elu.png").read_bytes().startswith(b"\x89PNG")
    assert "`sim` (float, half, double, bf16, tf32)" in (tmp_path / "out" / "layer.md").read_text("utf-8")
    assert main([*arguments, "--check"]) == 0
    (tmp_path / "out" / "left_over.md").write_text("")
    assert main([*arguments, "--check"]) == 1


def test_a_missing_file_of_differences_is_told(tmp_path, capsys):
    assert main(["pages", "--out", str(tmp_path), "--differences", str(tmp_path / "none.md")]) == 2
    assert "What to do" in capsys.readouterr().err
