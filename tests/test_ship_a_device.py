"""The page about shipping a device quotes its example as it is, and counts its lines right."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/ship-a-device.md").read_text("utf-8")
EXAMPLE = ROOT / "examples/atled-opencl/src/atled_opencl"
QUOTED = re.findall(
    r"^```(?:python|c|toml)\n(?:# |/\* )(examples/\S+)(?: \*/)?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)


def test_every_listing_says_where_it_is_from():
    assert len(QUOTED) == len(re.findall(r"^```\w", PAGE, re.MULTILINE)) > 10


@pytest.mark.parametrize(("path", "code"), QUOTED, ids=lambda text: text.partition("\n")[0][-60:])
def test_listings_are_what_the_files_say(path, code):
    assert code in (ROOT / path).read_text("utf-8")


def test_the_lines_of_each_step_are_counted_right():
    # As the page says: Python and kernels, without docstrings, comments and blank lines.
    counts = {path.name: lines(path.read_text("utf-8"), path.suffix) for path in EXAMPLE.iterdir() if path.is_file()}
    first = sum(counts[name] for name in ("plugin.py", "runtime.py", "arrays.py", "elementwise.py"))
    kernels = (EXAMPLE / "kernels.cl").read_text("utf-8")
    spatial = kernels[kernels.index("/* Windows over") : kernels.index("/* Sums over")]
    spatial += kernels[kernels.index("/* Batch normalization of") :]
    operations = (EXAMPLE / "operations.py").read_text("utf-8")
    names = r"convolution\w*|pooling|max_pooling_grad|batch_normalization|streams"
    later = "\n".join(
        re.findall(rf"^def (?:_windows|prepare_(?:{names}))\(.*?(?=^def |^_OPS)", operations, re.DOTALL | re.MULTILINE)
    )
    total = first + counts["operations.py"] + counts["kernels.cl"]
    perceptron = total - lines(spatial, ".cl") - lines(later, ".py")
    stated = [int(number) for number in re.findall(r"^\| step.*?\| (\d+) \|", PAGE, re.MULTILINE)]
    assert stated == [first, perceptron, total]
    assert total < 660


def lines(text, suffix):
    """Lines of code of Python or OpenCL C; 0 of anything else."""
    if suffix == ".cl":
        return sum(bool(line.strip()) for line in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines())
    if suffix != ".py":
        return 0
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    numbered = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and number not in documented for number, line in numbered)
