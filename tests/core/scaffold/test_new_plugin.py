"""`python -m atled new-plugin NAME`: what it writes passes the conformance kit untouched; what it refuses."""

import json
import os
import re
import subprocess
import sys

import pytest

from atled.commands import main
from atled.scaffold import KINDS, ScaffoldError, new_plugin, words


def installed_in(tmp_path, kind):
    """A new plugin as pip would install it, editable, and the environment in which Python finds it."""
    folder = new_plugin("acme-chip", tmp_path, kind)
    info = tmp_path / "site" / "atled_acme_chip-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: atled-acme-chip\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[atled.plugins]\nacme-chip = atled_acme_chip.plugin:PLUGIN\n")
    path = [str(folder / "src"), str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return folder, {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture
def installed(tmp_path):
    return installed_in(tmp_path, "device")


@pytest.fixture(params=KINDS)
def of_each_kind(request, tmp_path):
    return installed_in(tmp_path, request.param)


def run(arguments, environment, folder):
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_it_passes_what_the_conformance_kit_checks_untouched(installed):
    folder, environment = installed
    done = run(
        [
            "pytest", "-q", "-p", "atled_pytest", "-p", "no:cacheprovider", "--pyargs", "atled.conformance",
            "--atled-plugin", "acme-chip", "--device", "1", "--max-examples", "3",
            "--atled-ops", "[A-F]*,Tanh*",  # a part, since it computes all formulas: sim's own kit runs them all
            "--atled-report", "report.json", "--atled-badge", "badge.svg",
        ],
        environment,
        folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    report = json.loads((folder / "report.json").read_text())
    assert not report["complete"]
    assert (report["plugin"], report["version"], report["device"]) == ("acme-chip", "0.1.0", "1")
    assert report["passed"] > 1000
    assert (report["failed"], report["xfailed"]) == (0, 0)
    assert {"values", "gradients", "threads", "lazy_import", "training"} <= set(report["checks"])
    assert "Convolution" in report["ops_missing"]["acme-chip"]
    assert f"{report['passed']} passed, incomplete" in (folder / "badge.svg").read_text()


def test_one_for_host_arrays_passes_all_that_the_kit_checks_untouched(tmp_path):
    folder, environment = installed_in(tmp_path, "host")
    done = run(
        [
            "pytest", "-q", "-p", "atled_pytest", "-p", "no:cacheprovider", "--pyargs", "atled.conformance",
            "--atled-plugin", "acme-chip", "--max-examples", "3", "--atled-report", "report.json",
        ],
        environment,
        folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    report = json.loads((folder / "report.json").read_text())
    assert report["complete"] and report["passed"] > 50
    assert (report["failed"], report["xfailed"]) == (0, 0)
    assert {"values", "threads", "lazy_import", "training"} <= set(report["checks"])


def test_its_manifest_is_up_to_date_and_its_own_tests_pass(of_each_kind):
    folder, environment = of_each_kind
    done = run(["pytest", "-q", "-p", "no:cacheprovider", "-k", "not kit"], environment, folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        ("device", {"__init__", "array_class", "driver", "kernels", "plugin"}),
        ("host", {"__init__", "library", "kernels", "plugin"}),
    ],
)
def test_it_writes_a_complete_distribution(tmp_path, capsys, kind, modules):
    options = ["--host"] if kind == "host" else []
    assert main(["new-plugin", "thing", "--out", str(tmp_path / "deep" / "er"), *options]) == 0
    assert "pytest --pyargs atled.conformance --atled-plugin thing" in capsys.readouterr().out
    folder = tmp_path / "deep" / "er" / "atled-thing"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        ".gitignore", "README.md", "pyproject.toml", "tests/test_conformance.py", "tests/test_plugin.py",
        "src/atled_thing/py.typed", "src/atled_thing/atled-manifest.json",
        *(f"src/atled_thing/{name}.py" for name in modules),
    }  # fmt: skip
    assert list((tmp_path / "deep" / "er").iterdir()) == [folder]
    assert "atled_thing" not in sys.modules
    sources = [path.read_text() for path in (*folder.rglob("*.py"), folder / "README.md")]
    assert not any("$" in source for source in sources)
    assert all(f"`{name}.py`" in sources[-1] for name in modules - {"__init__"})
    imported = {found for source in sources for found in re.findall(r"(?:from|import) (atled[\w.]*)", source)}
    public = {"atled", "atled.functions", "atled.plugin"}
    assert {name for name in imported if not name.startswith("atled_thing")} == public


def test_nothing_is_overwritten(tmp_path, capsys):
    folder = tmp_path / "atled-thing"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    assert main(["new-plugin", "thing", "--out", str(tmp_path)]) == 2
    assert f"{folder} exists" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("name", "words_in_error"),
    [
        ("Acme_GPU", "such as 'acme-gpu'"),
        ("1st", "lower-case letters and digits"),
        ("", "lower-case letters and digits"),
        ("a" * 41, "at most 40"),
        ("../up", "such as 'up'"),
        ("reference", "a plugin or backend has that name"),
    ],
)
def test_names_that_do_not_fit_are_refused_with_a_remedy(tmp_path, name, words_in_error):
    with pytest.raises(ScaffoldError, match="What to do") as caught:
        new_plugin(name, tmp_path)
    assert words_in_error in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["new-plugin", "thing", "--out", str(tmp_path / "file")]) == 2
    assert "choose a folder that can be written to" in capsys.readouterr().err


def test_words_of_a_name():
    found = words("my-chip")
    assert (found["package"], found["distribution"], found["Class"]) == ("atled_my_chip", "atled-my-chip", "MyChip")
