"""The demo as a whole: it learns, writes its files, and says in JSON what it did."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys

import pytest

pytest.importorskip("h5py", reason="the demo writes its parameters with h5py")
pytest.importorskip("matplotlib", reason="the demo draws with matplotlib")
pytest.importorskip("rich", reason="the demo's display needs rich")
pytest.importorskip("sklearn", reason="the demo's data come with scikit-learn")

from atled.commands import USER_ERROR, main
from atled.parameter import get_parameters
from atled_contexts import extension_names

PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments):
    """Exit status, what was written to stdout, and to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["demo", "digits", *map(str, arguments)])
    return status, out.getvalue(), err.getvalue()


def run_json(*arguments):
    status, out, _ = run("--json", *arguments)
    assert status == 0
    return json.loads(out)


def context_or_skip(name):
    if name not in extension_names():
        pytest.skip(f"no usable plugin brings {name!r}")
    return name


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """One epoch on the reference."""
    return run_json("--context", "reference", "--epochs", 1, "--out", tmp_path_factory.mktemp("out"))


def test_json_has_all_that_is_promised(reference):
    assert {name: type(value) for name, value in reference.items()} == {
        "version": str,
        "test_accuracy": float,
        "test_count": int,
        "seconds": float,
        "context": dict,
        "mode": str,
        "epochs": int,
        "batch_size": int,
        "seed": int,
        "losses": list,
        "accuracies": list,
        "images_per_second": list,
        "preparation": dict,
        "trace": dict,
        "fallbacks": list,
        "files": dict,
    }
    assert reference["context"]["backend"] == ["reference:float"]
    assert (reference["mode"], reference["epochs"], reference["seed"]) == ("static", 1, 0)
    assert len(reference["losses"]) == len(reference["accuracies"]) == len(reference["images_per_second"]) == 1
    assert reference["fallbacks"] == []


def test_one_epoch_learns_most_digits(reference):
    assert reference["test_accuracy"] > 0.7


def test_the_trace_says_who_ran_each_op(reference):
    calls = {(row["op"], row["backend"]): row["calls"] for row in reference["trace"]["rows"]}
    steps = 1438 // reference["batch_size"]
    # Two convolutions per step, and two when the held-out images are classified.
    assert calls["Convolution", "reference"] == 2 * steps + 2
    assert all(backend == "reference" for _, backend in calls)


def test_the_files_are_there(reference):
    from h5py import File

    for name in ("learning_curve", "digits"):
        with open(reference["files"][name], "rb") as file:
            assert file.read(len(PNG)) == PNG
    with File(reference["files"]["parameters"]) as file:
        assert file["conv1/conv/W"].shape == (16, 1, 3, 3)
        assert file["scores/affine/b"].shape == (10,)


def test_no_parameters_are_left_behind(tmp_path):
    before = get_parameters(grad_only=False).keys()
    run_json("--context", "reference", "--epochs", 1, "--batch-size", 400, "--out", tmp_path)
    assert get_parameters(grad_only=False).keys() == before


@pytest.mark.parametrize("name", ["cpu", "sim"])
@pytest.mark.parametrize("mode", [[], ["--dynamic"]], ids=["static", "dynamic"])
def test_other_backends_and_dynamic_graphs_give_the_same_losses(reference, name, mode, tmp_path):
    result = run_json("--context", context_or_skip(name), "--epochs", 1, "--out", tmp_path, *mode)
    # float32 sums of different order over 44 steps
    assert result["losses"] == pytest.approx(reference["losses"], rel=1e-3)
    assert {row["backend"] for row in result["trace"]["rows"]} <= {name, "engine"}


def test_equal_seeds_give_equal_results_and_others_do_not(reference, tmp_path):
    arguments = ("--context", "reference", "--epochs", 1, "--out", tmp_path, "--seed")
    again, other = run_json(*arguments, 0), run_json(*arguments, 1)
    assert again["losses"] == reference["losses"]
    assert again["accuracies"] == reference["accuracies"]
    assert other["losses"] != reference["losses"]


def test_people_get_a_table_and_the_accuracy_on_stdout(tmp_path):
    status, out, err = run("--context", "reference", "--epochs", 1, "--batch-size", 200, "--out", tmp_path)
    assert (status, err) == (0, "")
    assert "epoch 1/1  loss" in out
    assert "ConvolutionDataGrad  reference" in out
    assert "test accuracy: " in out
    assert str(tmp_path / "digits.png") in out


@pytest.mark.parametrize("json_asked", [False, True])
def test_what_was_trained_is_reported_where_the_disk_does_not_take_the_files(tmp_path, monkeypatch, json_asked):
    def refuse(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("atled.demo.session.save_parameters", refuse)
    arguments = ["--context", "reference", "--epochs", 1, "--out", tmp_path]
    status, out, err = run(*arguments, *(["--json"] if json_asked else []))
    assert status == USER_ERROR
    if json_asked:
        assert list(json.loads(out)["files"]) == ["learning_curve", "digits"]
    else:
        assert "test accuracy" in out and "digits.h5" not in out
    assert "not all files can be written" in err and os.strerror(errno.ENOSPC) in err


def test_a_missing_library_is_told_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "rich", None)
    status, out, err = run("--json", "--out", tmp_path / "out")
    assert (status, out) == (USER_ERROR, "")
    assert "not installed: rich, scikit-learn" in err
    assert 'pip install "atled[demo]"' in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("--context", "refrence"), "did you mean 'reference'?"),
        (("--context", "reference:hal"), "did you mean 'half'?"),
        (("--batch-size", 2000), "there are 1438 training images"),
        (("--out", __file__), "no files can be written there"),
    ],
)
def test_what_cannot_be_is_refused_before_training(arguments, told, tmp_path):
    # Of two values for --out the later one counts.
    status, out, err = run("--json", "--out", tmp_path / "out", *arguments)
    assert (status, out) == (USER_ERROR, "")
    assert told in err
    assert "epoch" not in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [("--epochs", "0"), ("--epochs", "x"), ("--seed", "-1"), ("--batch-size", "1.5")])
def test_numbers_out_of_range_do_not_parse(arguments):
    with pytest.raises(SystemExit):
        run(*arguments)
