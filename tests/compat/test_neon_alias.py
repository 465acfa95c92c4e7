"""neon's names mean atled.neon where that is asked for, and say what is missing."""

import importlib
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import atled.neon.backends
import atled.neon.transforms
from atled.compat.neon_names import NEON


@pytest.fixture(autouse=True)
def neon_drop_in():
    """`import neon` means atled, until the end of the test."""
    module = importlib.import_module("atled.compat.neon")
    module.install()
    yield module
    module.uninstall()
    atled.neon.backends.cleanup_backend()


def test_names_are_those_of_atled():
    import neon
    from neon import NervanaObject
    from neon.backends import Autodiff, gen_backend
    from neon.backends.backend import Tensor
    from neon.transforms import Rectlin

    assert neon.NervanaObject is NervanaObject is atled.neon.NervanaObject
    assert gen_backend is atled.neon.backends.gen_backend and Autodiff is atled.neon.backends.Autodiff
    assert issubclass(neon.backends.nervanacpu.CPUTensor, Tensor)
    assert Rectlin is neon.transforms.activation.Rectlin is atled.neon.transforms.Rectlin


@pytest.mark.parametrize("name", [name for name in NEON.modules if NEON.has(name)])
def test_every_module_imports(name):
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert dir(module)


def test_modules_have_the_same_names_here_and_there():
    assert all(here == f"atled.{there}" for there, here in NEON.modules.items())


def test_what_neon_says_of_itself():
    import neon

    assert neon.__version__ == "2.6.0"
    assert isinstance(neon.logger, logging.Logger) and neon.logger.display


def test_star_import_brings_the_public_names():
    namespace = {}
    exec("from neon.initializers import *", namespace)
    assert namespace["GlorotUniform"] is importlib.import_module("atled.neon.initializers").GlorotUniform


# What is missing.


@pytest.mark.parametrize(
    "statement, error, words",
    [
        ("import neon.transforms as t; t.Rectlinn", AttributeError, "did you mean 'Rectlin'?"),
        ("from neon.transforms import Rectlinn", ImportError, "did you mean 'Rectlin'?"),
        ("from neon.transforms.activation import Rectlinn", ImportError, "did you mean 'Rectlin'?"),
        ("import neon.backend", ModuleNotFoundError, "did you mean 'neon.backends'?"),
        ("import neon.trees", ModuleNotFoundError, "import neon.trees: atled has no such module"),
        ("from neon import calls", ModuleNotFoundError, "import neon.calls: atled has no such module"),
        ("import neon; neon.calls", AttributeError, "neon.calls: atled does not have it"),
        ("from neon.backends.nervanamgpu import NervanaMGPU", ModuleNotFoundError, "computes on one device"),
        ("from neon.backends import float_ew", ModuleNotFoundError, "kernels in CUDA C"),
        ("import neon.backends as b; b.winograd", AttributeError, "kernels in CUDA C"),
        ("from neon.layers import Seq2Seq", ImportError, "Seq2Seq"),
        ("import neon.visualizations", ModuleNotFoundError, "plots"),
        ("from neon.transforms import BLEUScore", ImportError, "What to do"),
    ],
)
def test_what_is_missing_is_named(statement, error, words):
    with pytest.raises(error) as raised:
        exec(statement, {})
    assert words in str(raised.value)


def test_loaders_that_download_are_named_with_a_remedy():
    target = ModuleType("atled.neon.data")
    for text in (NEON.missing("neon.data", "MNIST", target), NEON.missing_module("neon.data.MNIST")):
        assert "no data loaders that download" in text and "neon.data.ArrayIterator" in text


def test_a_module_that_this_version_lacks_is_told_from_one_that_is_none(monkeypatch):
    monkeypatch.setitem(NEON.modules, "neon.later", "atled.neon.later")
    monkeypatch.setitem(NEON.modules, "neon.later.still", "atled.neon.later.still")
    for statement in ("import neon.later", "from neon import later", "import neon.later.still"):
        with pytest.raises(ModuleNotFoundError, match="this version of atled does not have this module of neon's"):
            exec(statement, {})


# What is changed, and what is not.


def test_both_drop_ins_go_side_by_side(drop_in):
    import neon
    import nnabla

    drop_in.uninstall()
    assert "nnabla" not in sys.modules and sys.modules["neon"] is neon
    assert nnabla.__version__ != neon.__version__


def test_uninstalling_frees_the_names(neon_drop_in):
    import neon.backends  # noqa: F401  # to be forgotten

    neon_drop_in.uninstall()
    assert not any(name.partition(".")[0] == "neon" for name in sys.modules)
    assert not any("compat" in type(finder).__module__ for finder in sys.meta_path)


def test_the_real_one_is_refused_if_it_is_there_already(neon_drop_in, monkeypatch):
    neon_drop_in.uninstall()
    monkeypatch.setitem(sys.modules, "neon", ModuleType("neon"))
    with pytest.raises(ImportError, match="the real neon is imported already"):
        neon_drop_in.install()


# Where it computes.


def named_backends(*asked):
    return [atled.neon.backends.gen_backend(name).context.backends[0][0] for name in asked]


def test_a_context_is_what_the_kinds_mean(neon_drop_in):
    before = named_backends("cpu", "mkl", "reference")
    neon_drop_in.install("sim")
    assert named_backends("cpu", "mkl", "gpu", "nervanagpu") == ["sim"] * 4
    assert named_backends("reference") == ["reference"]
    assert atled.neon.backends.gen_backend().context.backends[0][0] == "sim"
    neon_drop_in.uninstall()
    assert named_backends("cpu", "mkl", "reference") == before


def test_classes_of_programs_follow_the_context(neon_drop_in):
    neon_drop_in.install("reference:half")
    from neon.backends.nervanacpu import NervanaCPU

    made = type("Own", (NervanaCPU,), {})()
    assert made.context.backends[0] == ("reference", "half")


def test_a_context_that_is_none_changes_nothing(neon_drop_in):
    before = named_backends("cpu")
    with pytest.raises(ValueError, match="did you mean 'reference'"):
        neon_drop_in.install("referense")
    assert named_backends("cpu") == before


# The command.


def run(*words, folder):
    command = [sys.executable, "-W", "error", "-m", "atled.compat.neon", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_a_script_runs_where_the_command_says(tmp_path):
    script = Path(tmp_path, "script.py")
    script.write_text(
        "import sys\nfrom neon.backends import gen_backend\n"
        "print(gen_backend('gpu').context.backends[0][0], __name__, sys.argv[1:])\n"
    )
    done = run("--context", "sim", "script.py", "--context", "x", folder=tmp_path)
    assert done.stdout == "sim __main__ ['--context', 'x']\n", done.stderr
    done = run("--context=reference", "-m", "script", folder=tmp_path)
    assert done.stdout == "reference __main__ []\n", done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "usage: python -m atled.compat.neon"),
        (["--context"], "no backend is named"),
        (["--context", "nonesuch", "x.py"], "there is no such backend"),
        (["nothing.py"], "there is no such file"),
        (["--contxt", "sim", "x.py"], "no such option in front of the script\nWhat to do: did you mean '--context'?"),
        (["-e", "3", "x.py"], "those of the script go behind it"),
    ],
)
def test_what_cannot_run_is_said(words, said, monkeypatch, capsys):
    main = importlib.import_module("atled.compat.neon.__main__").main
    monkeypatch.setattr(sys, "argv", ["atled.compat.neon", *words])
    assert main() == 2
    assert said in capsys.readouterr().err
