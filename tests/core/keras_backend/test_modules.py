"""The module paths of the backend, and that importing it touches nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import atled.keras_backend as B
from atled.keras_backend import common, theano_backend


def test_common_has_the_settings():
    names = ("epsilon", "floatx", "intx", "cast_to_floatx", "set_epsilon", "set_floatx", "set_intx")
    assert all(getattr(common, name) is getattr(B, name) for name in names)


def test_theano_backend_has_the_names_of_the_package_but_backend():
    assert all(getattr(theano_backend, name) is getattr(B, name) for name in theano_backend.__all__)
    assert {"function", "variable", "sum", "set_floatx"} <= set(theano_backend.__all__)
    assert not hasattr(theano_backend, "backend")


def test_theano_backend_has_no_module_of_the_package():
    assert not {"compiling", "expressions", "functions", "annotations"} & set(theano_backend.__all__)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("softmax", r"later backends .*\n.*write exp\(x - logsumexp\("),
        ("sigmoidd", r"no such function\n.*did you mean 'sigmoid'\?"),
        ("qqqqqqqqq", r"no such function\n.*dir\(atled.keras_backend\)"),
        ("__all__", "has no attribute '__all__'$"),
    ],
)
def test_a_missing_name_is_refused_with_what_to_write_instead(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(B, name)


@pytest.mark.slow
def test_nothing_in_the_home_directory_is_read_or_written(tmp_path):
    for folder in (".keras", ".natural_bm"):
        Path(tmp_path, folder).mkdir()
        for file in ("keras.json", "natural_bm.json"):
            Path(tmp_path, folder, file).write_text('{"floatx": "float64", "backend": "numpy", "epsilon": 1}')
    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "import atled.keras_backend as B, atled.keras_backend.theano_backend\n"
        "B.set_floatx('float64')\n"
        "print(B.backend(), [name for name in opened if name.startswith(sys.argv[1])])\n"
    )
    environment = {"HOME": str(tmp_path), "NATURAL_BM_BACKEND": "numpy", "KERAS_BACKEND": "numpy"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert done.stdout == "atled []\n", done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".keras", ".natural_bm"]
