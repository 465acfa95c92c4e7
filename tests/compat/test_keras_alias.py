"""Names of Keras-style backends mean atled.keras_backend where that is asked for, and say what is missing."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import atled.keras_backend
from atled.compat.keras_backend_names import keras_style
from atled_contexts import get_current_context


@pytest.fixture(autouse=True)
def keras_drop_in():
    """`import natural_bm.backend` means atled, until the end of the test."""
    module = importlib.import_module("atled.compat.keras_backend")
    module.install()
    yield module
    module.uninstall()


def test_names_are_those_of_atled():
    import natural_bm.backend as B
    from natural_bm import backend
    from natural_bm.backend import function, variable
    from natural_bm.backend.common import floatx
    from natural_bm.backend.theano_backend import sigmoid

    assert B is backend
    assert function is B.function is atled.keras_backend.function and variable is atled.keras_backend.variable
    assert floatx is B.common.floatx is atled.keras_backend.floatx
    assert sigmoid is B.sigmoid is B.theano_backend.sigmoid


def test_settings_are_those_of_atled():
    import natural_bm.backend as B

    with atled.keras_backend.settings(floatx="float64"):
        assert B.floatx() == B.variable([1]).dtype == "float64"


def test_star_import_brings_the_public_names():
    namespace = {}
    exec("from natural_bm.backend import *", namespace)
    assert namespace["placeholder"] is atled.keras_backend.placeholder
    assert "expressions" not in namespace


TABLE = keras_style("natural_bm.backend")


@pytest.mark.parametrize("name", [name for name in TABLE.modules if TABLE.has(name)])
def test_every_module_imports(name):
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert dir(module)


def test_nothing_that_is_there_is_called_missing():
    names = vars(atled.keras_backend)
    assert not [each for each in TABLE.absent if each.rpartition(".")[2] in names]


# Other names.


@pytest.mark.parametrize("name", ["keras.backend", "backend_of_mine", "some.deep.path"])
def test_a_backend_goes_by_any_name(keras_drop_in, name):
    keras_drop_in.install(name)
    assert importlib.import_module(name).function is atled.keras_backend.function
    assert importlib.import_module(f"{name}.common").floatx is atled.keras_backend.floatx
    keras_drop_in.uninstall()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


@pytest.mark.parametrize("name", ["", "a b", "natural-bm", ".backend", "atled", "atled.ops"])
def test_a_name_that_no_program_can_import_is_refused(keras_drop_in, name):
    with pytest.raises(ValueError, match="such as natural_bm"):
        keras_drop_in.install(name)


# What is installed.


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package natural_bm with a backend of its own, and what it would say."""
    package = tmp_path / "natural_bm"
    (package / "backend").mkdir(parents=True)
    (package / "__init__.py").write_text("from . import backend as B\nfrom .units import unit\n")
    (package / "units.py").write_text("import natural_bm.backend as B\n\ndef unit():\n    return B.floatx()\n")
    (package / "backend" / "__init__.py").write_text("raise ImportError('Theano is dead')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in ("natural_bm", "natural_bm.units"):
        sys.modules.pop(name, None)


def test_of_an_installed_package_the_backend_alone_is_taken_over(installed):
    import natural_bm

    assert Path(natural_bm.__file__).parent == installed
    assert natural_bm.unit() == "float32"
    assert natural_bm.B.function is natural_bm.backend.function is atled.keras_backend.function


def test_an_installed_package_is_as_before_when_the_names_are_given_back(installed, keras_drop_in):
    import natural_bm

    keras_drop_in.uninstall()
    assert sys.modules["natural_bm"] is natural_bm and not hasattr(natural_bm, "backend")
    with pytest.raises(ImportError, match="Theano is dead"):
        importlib.import_module("natural_bm.backend")


def test_the_real_one_is_refused_if_it_is_there_already(keras_drop_in, monkeypatch):
    keras_drop_in.uninstall()
    monkeypatch.setitem(sys.modules, "natural_bm.backend", ModuleType("natural_bm.backend"))
    with pytest.raises(ImportError, match="is imported already"):
        keras_drop_in.install()
    assert not any("compat" in type(finder).__module__ for finder in sys.meta_path)


def test_the_package_may_be_there_already_without_its_backend(keras_drop_in, monkeypatch):
    keras_drop_in.uninstall()
    package = ModuleType("natural_bm")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "natural_bm", package)
    keras_drop_in.install()
    assert importlib.import_module("natural_bm.backend").function is atled.keras_backend.function
    assert sys.modules["natural_bm"] is package


# What is missing.


@pytest.mark.parametrize(
    "statement, error, words",
    [
        ("from natural_bm.backend import sigmoidd", ImportError, "did you mean 'sigmoid'?"),
        ("import natural_bm.backend as B; B.sigmoidd", AttributeError, "did you mean 'sigmoid'?"),
        ("from natural_bm.backend import relu", ImportError, "write maximum(x, 0)"),
        ("import natural_bm.backend as B; B.softmax", AttributeError, "write exp(x - logsumexp("),
        ("from natural_bm.backend.theano_backend import backend", ImportError, "What to do"),
        ("import natural_bm.backend.expressions", ModuleNotFoundError, "atled has no such module"),
        ("import natural_bm.backend as B; B.compiling", AttributeError, "atled does not have it"),
        ("import natural_bm.backend.tensorflow_backend", ModuleNotFoundError, "import the backend itself"),
        ("import natural_bm.models", ModuleNotFoundError, "install natural_bm beside atled"),
        ("from natural_bm import models", ImportError, "install natural_bm beside atled"),
        ("import natural_bm; natural_bm.models", AttributeError, "atled stands for natural_bm.backend alone"),
    ],
)
def test_what_is_missing_is_named(statement, error, words):
    with pytest.raises(error) as raised:
        exec(statement, {})
    assert words in str(raised.value)


def test_uninstalling_frees_the_names(keras_drop_in):
    import natural_bm.backend.common  # noqa: F401  # to be forgotten

    keras_drop_in.uninstall()
    assert not any(name.partition(".")[0] == "natural_bm" for name in sys.modules)
    assert not any("compat" in type(finder).__module__ for finder in sys.meta_path)


# Where it computes.


def test_a_context_is_the_default_until_the_names_are_given_back(keras_drop_in):
    before = get_current_context()
    keras_drop_in.install(context="sim:double")
    assert get_current_context().backends[0] == ("sim", "double")
    keras_drop_in.uninstall()
    assert get_current_context() == before


def test_a_context_that_is_none_changes_nothing(keras_drop_in):
    before = get_current_context()
    with pytest.raises(ValueError, match="did you mean 'sim'"):
        keras_drop_in.install("of_mine", "simm")
    assert get_current_context() == before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("of_mine")


# The command.


def run(*words, folder):
    command = [sys.executable, "-W", "error", "-m", "atled.compat.keras_backend", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "name, options",
    [("natural_bm.backend", []), ("keras.backend", ["--as", "keras.backend", "--context=sim"])],
)
def test_a_script_runs_on_atled(tmp_path, name, options):
    script = (
        f"import sys\nfrom {name} import backend\nfrom {name}.common import floatx\n"
        "print(backend(), floatx(), __name__, sys.argv[1:])\n"
    )
    Path(tmp_path, "script.py").write_text(script)
    done = run(*options, "script.py", "--as", "x", folder=tmp_path)
    assert done.stdout == "atled float32 __main__ ['--as', 'x']\n", done.stderr
    done = run(*options, "-m", "script", folder=tmp_path)
    assert done.stdout == "atled float32 __main__ []\n", done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "usage: python -m atled.compat.keras_backend"),
        (["--as"], "no module is named"),
        (["--as="], "no module is named"),
        (["--as", "a-b", "x.py"], "no module can have this name"),
        (["--context"], "no backend is named"),
        (["--context", "nonesuch", "x.py"], "none of its backends is usable"),
        (["nothing.py"], "there is no such file"),
    ],
)
def test_what_cannot_run_is_said(words, said, monkeypatch, capsys):
    main = importlib.import_module("atled.compat.keras_backend.__main__").main
    monkeypatch.setattr(sys, "argv", ["atled.compat.keras_backend", *words])
    assert main() == 2
    assert said in capsys.readouterr().err


def test_help_names_the_options(monkeypatch, capsys):
    main = importlib.import_module("atled.compat.keras_backend.__main__").main
    monkeypatch.setattr(sys, "argv", ["atled.compat.keras_backend", "--help"])
    assert main() == 0
    assert {"--as", "--context"} <= set(capsys.readouterr().out.split())
