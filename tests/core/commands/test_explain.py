"""`python -m atled explain SCRIPT`: what it reports, and that the script runs as it would alone."""

import errno
import json
import os
import sys

import pytest

from atled.commands import USER_ERROR, main

SCRIPT = """\
import sys
import numpy as np
import atled as nn
import atled.functions as F
import beside

print("arguments", sys.argv[1:], __name__)
with nn.using("reference"):
    x = nn.Variable((2, 3), need_grad=True)
    x.d = 1.0
    y = F.tanh(F.affine(x, nn.NdArray.from_numpy_array(np.ones((3, 2), "f")))) if beside.EAGER else F.tanh(x)
    y.forward()
    y.backward()
"""


@pytest.fixture
def script(tmp_path):
    """A script with a module beside it."""
    (tmp_path / "beside.py").write_text("EAGER = False\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    yield path
    sys.modules.pop("beside", None)


def test_a_script_runs_with_its_arguments_and_is_reported(script, capsys):
    words, path = list(sys.argv), list(sys.path)
    assert main(["explain", str(script), "--epochs", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("arguments ['--epochs', '3'] __main__\n")
    assert f"{script}: exit status 0" in out and "TanhGradX" in out and "reference" in out
    assert (sys.argv, sys.path) == (words, path)


def test_json_is_all_that_comes_on_stdout(script, capsys):
    assert main(["explain", "--json", str(script)]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert err.startswith("arguments []")
    assert (report["script"], report["status"]) == (str(script), 0)
    assert {row["op"]: row["backend"] for row in report["rows"]}["Tanh"] == "reference"
    assert report["fallback_counts"] == [] and report["calls"] == sum(row["calls"] for row in report["rows"])


def test_a_chrome_trace_is_written(script, tmp_path, capsys):
    path = tmp_path / "trace.json"
    assert main(["explain", "--chrome", str(path), str(script)]) == 0
    names = {event["name"] for event in json.loads(path.read_text())["traceEvents"]}
    assert {"Tanh", "TanhGradX"} <= names
    assert f"wrote {path}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('no data')", 1), ("raise ValueError('no data')", 1)],
)
def test_the_exit_status_is_that_of_the_script_and_what_ran_is_reported(script, capsys, end, status):
    script.write_text(SCRIPT + end + "\n")
    assert main(["explain", str(script)]) == status
    out, err = capsys.readouterr()
    assert f"exit status {status}" in out and "Tanh" in out
    assert ("no data" in err) == ("no data" in end)


def test_what_cannot_work_is_refused_before_the_script_runs(script, tmp_path, capsys):
    assert main(["explain", str(tmp_path / "absent.py")]) == USER_ERROR
    assert "there is no such file" in capsys.readouterr().err
    assert main(["explain", "--chrome", str(tmp_path / "absent" / "t.json"), str(script)]) == USER_ERROR
    out, err = capsys.readouterr()
    assert out == "" and "cannot be written to" in err


def test_fallbacks_are_listed(script, capsys):
    pytest.importorskip("atled_sim")
    script.write_text(
        "import atled as nn, atled.functions as F, atled_sim\n"
        "with atled_sim.refuse({'Tanh'}), nn.context_scope(nn.get_extension_context('sim', fallback='quiet')):\n"
        "    F.tanh(nn.NdArray((3,)))\n"
    )
    assert main(["explain", str(script)]) == 0
    assert "Tanh went to reference: 1 calls" in capsys.readouterr().out


def test_what_ran_is_reported_where_the_trace_cannot_be_written(script, tmp_path, monkeypatch, capsys):
    def refuse(trace, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("atled_contexts.Trace.save_chrome", refuse)
    path = str(tmp_path / "trace.json")
    assert main(["explain", "--json", "--chrome", path, str(script)]) == USER_ERROR
    out, err = capsys.readouterr()
    assert json.loads(out)["files"] == []
    assert f"explain --chrome {path}: it cannot be written ({os.strerror(errno.ENOSPC)})" in err
