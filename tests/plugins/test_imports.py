"""What plugins import of the library: `atled.plugin`, and nothing else."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "core" / "atled" / "scaffold" / "template"
SOURCES = sorted(
    [
        *ROOT.glob("plugins/*/src/**/*.py"),
        *ROOT.glob("examples/*/src/**/*.py"),
        *TEMPLATE.glob("*/src/**/*.tmpl"),
    ]
)
PAGES = [ROOT / "docs" / name for name in ("kernels.md", "formulas.md", "own_ops.md")]
# What every program may import; a page may show a program beside a plugin.
FRONT = {"atled", "atled.functions", "atled.parametric_functions", "atled.op_spec", "atled.plugin"}


def imported(text: str) -> set[str]:
    """The modules of atled that a program imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if name.split(".")[0] in ("atled", "atled_contexts")}


def test_there_are_sources():
    folders = {path.relative_to(ROOT).parts[:2] for path in SOURCES}
    assert {("plugins", "sim"), ("plugins", "cpu_numba"), ("examples", "atled-opencl"), ("core", "atled")} <= folders


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_imports_the_plugin_api_alone(path):
    text = path.read_text("utf-8")
    if path.suffix == ".tmpl":  # $name and ${name} stand for names
        text = re.sub(r"\$\{?(\w+)\}?", r"\1", text)
    assert imported(text) <= {"atled.plugin"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_for_authors_show_nothing_else(path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.S)
    assert blocks
    for block in blocks:
        assert imported(block) - FRONT <= {"atled.conformance.checks"}, block
