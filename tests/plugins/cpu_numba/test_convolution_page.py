"""docs/cpu_convolution.md: its tables name every file that `choice` and `weight` choose from, and no other."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cpu_convolution.md").read_text("utf-8")
PACKAGE = "atled_cpu_numba.kernels."
KERNELS = ROOT / "plugins/cpu_numba/src/atled_cpu_numba/kernels"


def chosen_from(file):
    """The files of the modules whose `prepare` or `prepare_weight` a file calls, by their names there."""
    text = (KERNELS / file).read_text("utf-8")
    modules = [
        (node.module.removeprefix(PACKAGE), found.name, found.asname or found.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE)
        for found in node.names
    ]
    return {
        f"{folder}/{module}.py"
        for folder, module, name in modules
        if re.search(rf"\b{name}\.prepare(_weight)?\(", text)
    }


def test_the_tables_name_every_file_that_a_convolution_is_computed_by():
    tables = re.findall(r"^\| [^|]+ \| file \| note \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    listed = [set(re.findall(r"`(\w+/\w+\.py)`", table)) for table in tables]
    assert listed == [chosen_from("convolution/choice.py"), chosen_from("convolution/weight.py")]
