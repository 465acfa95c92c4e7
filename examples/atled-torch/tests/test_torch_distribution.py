"""What holds without PyTorch: what the plugin imports, how long it is, what it says where it cannot work."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atled_torch", reason="the example is not installed")

import atled.plugin
import atled_torch
from atled_contexts import Unusable
from atled_torch.plugin import PLUGIN

SOURCE = Path(atled_torch.__file__).parent
MOST_LINES = 250


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
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and number not in documented for number, line in lines)


def test_it_imports_the_plugin_api_only():
    allowed = {"atled.plugin", "atled_torch", "numpy", "torch", *sys.stdlib_module_names}
    for file, module, names in imported():
        top = module.partition(".")[0]
        assert module in allowed or top in allowed, f"{file} imports {module}"
        if module == "atled.plugin":
            assert set(names) <= set(atled.plugin.__all__), f"{file}: beyond the API"


def test_it_is_short():
    counts = {path.name: code_lines(path) for path in SOURCE.glob("*.py")}
    assert sum(counts.values()) < MOST_LINES, counts


def test_discovery_imports_no_torch():
    code = "import sys, atled_contexts; atled_contexts.plugins(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_torch_it_is_unusable_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = PLUGIN.atled_probe()
    assert isinstance(answer, Unusable)
    assert answer.reason == "PyTorch is not installed"
    assert answer.remedy == "pip install 'atled-torch[torch]'"
