"""What holds without an OpenCL runtime: what the plugin imports, how long it is, what it says where it cannot work."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atled_opencl", reason="the example is not installed")

import atled.plugin
from atled_contexts import Unusable
from atled_opencl import runtime
from atled_opencl.plugin import PLUGIN

SOURCE = Path(runtime.__file__).parent
MOST_LINES = 660


def imported():
    """(file, module, names) of every import of the example, inside functions too."""
    for path in sorted(SOURCE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path.name, alias.name, ()) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield path.name, node.module, tuple(alias.name for alias in node.names)


def code_lines(path):
    """Lines of code: no comments, docstrings and blank lines."""
    text = path.read_text("utf-8")
    if path.suffix == ".cl":
        return sum(bool(line.strip()) for line in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines())
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and number not in documented for number, line in lines)


def test_it_imports_the_plugin_api_only():
    allowed = {"atled.plugin", "atled_opencl", "numpy", "pyopencl", *sys.stdlib_module_names}
    for file, module, names in imported():
        top = module.partition(".")[0]
        assert module in allowed or top in allowed, f"{file} imports {module}"
        if module == "atled.plugin":
            assert set(names) <= set(atled.plugin.__all__), f"{file}: beyond the API"


def test_it_is_short():
    counts = {path.name: code_lines(path) for path in SOURCE.iterdir() if path.suffix in (".py", ".cl")}
    assert sum(counts.values()) < MOST_LINES, counts


def test_asking_who_it_is_imports_no_opencl():
    code = (
        "import sys; from atled_opencl.plugin import PLUGIN; PLUGIN.atled_info(); PLUGIN.atled_probe(); "
        "print('pyopencl' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_a_runtime_it_is_unusable_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(runtime, "has_runtime", lambda: False)
    answer = PLUGIN.atled_probe()
    assert isinstance(answer, Unusable)
    assert "no OpenCL runtime" in answer.reason
    assert "pip install 'atled-opencl[intel]'" in answer.remedy


def test_without_pyopencl_it_is_unusable_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = PLUGIN.atled_probe()
    assert isinstance(answer, Unusable)
    assert answer.remedy == "pip install pyopencl"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system brings the loader")
def test_a_runtime_is_looked_for_where_pip_and_the_system_put_it(monkeypatch, tmp_path):
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(runtime, "_SYSTEM", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert not runtime.has_runtime()
    (tmp_path / "pocl.icd").touch()
    assert runtime.has_runtime()
    (tmp_path / "pocl.icd").unlink()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libintelocl.so").touch()
    assert runtime.has_runtime()
    assert runtime.intel_runtime() == tmp_path / "lib" / "libintelocl.so"
    (tmp_path / "lib" / "libintelocl.so").unlink()
    monkeypatch.setenv("OCL_ICD_VENDORS", "somewhere")
    assert runtime.has_runtime()
