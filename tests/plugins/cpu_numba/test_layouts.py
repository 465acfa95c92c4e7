"""Words of argument blocks go by the names of their layouts, in kernels and in those who write the blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import atled_cpu_numba
from atled.plugin import RangeWord
from atled_cpu_numba.kernels.shared.carrying import Carried
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout, size_of, words_of

FOLDER = Path(atled_cpu_numba.__file__).parent
FILES = sorted([*FOLDER.glob("kernels/**/*.py"), FOLDER / "elementwise.py", FOLDER / "int64_casts.py"])

# Names that blocks have in pieces of kernels, which are given them, and in those who write them.
BLOCKS = {"w", "q", "block", "words"}
LAUNCHES = {"launch": 2, "Native": 2}  # by name the position of the arguments; the block stands before it
WORDS_BY_NAME = ("attributes", "after", "before", "spread")
COLLECTIONS = {"tuple", "list", "dict", "zip"}


def findings(source: str) -> list[str]:
    """Expressions by which `source` takes a word of a block by number, with their lines."""
    tree = ast.parse(source)
    found = {(node.lineno, ast.unparse(node)) for node in (*_numbered_indices(tree), *_numbered_writes(tree))}
    return [f"line {line}: {text}" for line, text in sorted(found)]


def _numbered_indices(tree: ast.AST) -> Iterator[ast.expr]:
    for function in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]:
        blocks = BLOCKS | {name for name, value in _assigned(function) if _is_call(value, "words", "filled")}
        numbered = {name for name, value in _assigned(function) if _has_number(value) and not _names_layout(value)}
        # Counters go through what follows a place that is named elsewhere.
        numbered -= {ast.unparse(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)}
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and _is_block(node.value, blocks):
                names = {each.id for each in ast.walk(node.slice) if isinstance(each, ast.Name)}
                if _has_number(node.slice) or names & numbered:
                    yield node


def _is_block(node: ast.expr, blocks: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "block"
    return _is_call(node, "words", "filled") or (isinstance(node, ast.Name) and node.id in blocks)


def _is_call(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is assigned to them, tuples name by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            yield from _pairs(node.target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its_value in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, its_value)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _has_number(node: ast.expr) -> bool:
    """Whether a number is part of a sum, difference or product, or all of it."""
    if isinstance(node, ast.BinOp):
        return _has_number(node.left) or _has_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _has_number(node.operand)
    return _is_number(node)


def _names_layout(node: ast.expr) -> bool:
    """Whether a word of a layout is part of it, which numbers then count from."""
    return any(isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) for each in ast.walk(node))


def _numbered_writes(tree: ast.AST) -> Iterator[ast.expr]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        values: dict[str, list[ast.expr]] = {}
        for name, value in (*_assigned(function), *_assigned(ast.Module(_statements(tree), []))):
            values.setdefault(name, []).append(value)
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in LAUNCHES:
                position = LAUNCHES[call.func.id]
                given = {keyword.arg: keyword.value for keyword in call.keywords}
                arguments = [given["arguments"]] if "arguments" in given else call.args[position : position + 1]
                for word in (*arguments, *(given[name] for name in WORDS_BY_NAME if name in given)):
                    yield from _numbers(word, values, set())
                for block in call.args[position - 1 : position]:
                    yield from _positional(block, values, set())


def _statements(tree: ast.AST) -> list[ast.stmt]:
    """The assignments of the module itself."""
    assert isinstance(tree, ast.Module)
    return [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]


def _numbers(node: ast.expr, values: dict[str, list[ast.expr]], seen: set[str]) -> Iterator[ast.expr]:
    """Numbers that `node` has as words: keys of dicts, which are numbers of arguments, are none."""
    parts: list[ast.expr] = []
    if _is_number(node):
        yield node
    elif isinstance(node, (ast.Tuple, ast.List)):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = node.values
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    elif isinstance(node, (ast.Starred, ast.Subscript, ast.DictComp)):
        parts = [node.value]
    elif isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        parts = [node.elt]
    elif _is_call(node, *COLLECTIONS):
        assert isinstance(node, ast.Call)
        parts = node.args
    elif isinstance(node, ast.Name) and node.id not in seen:
        parts = values.get(node.id, [])
        seen = seen | {node.id}
    for part in parts:
        yield from _numbers(part, values, seen)


def _positional(node: ast.expr, values: dict[str, list[ast.expr]], seen: set[str]) -> Iterator[ast.expr]:
    """Lists of words whose places in the list say what they are."""
    if isinstance(node, ast.List) and any(not isinstance(part, ast.Starred) for part in node.elts):
        yield node
    elif isinstance(node, ast.List):
        for part in node.elts:
            assert isinstance(part, ast.Starred)
            yield from _positional(part.value, values, seen)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "array":
        yield from _positional(node.args[0], values, seen)
    elif isinstance(node, ast.Name) and node.id not in seen:
        for value in values.get(node.id, []):
            yield from _positional(value, values, seen | {node.id})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_words_of_blocks_go_by_name(path: Path) -> None:
    found = findings(path.read_text(encoding="utf-8"))
    assert not found, "name these words in a layout (kernels/shared/layout.py); arrays of integers are for ints64"


KERNEL = """
def build():
    def kernel(block, part, parts):
        w, x = words(block), floats(part)
        {}
"""
WRITER = """
_ARGUMENTS = {{"op": (Block.x, 2)}}
def prepare(call):
    words = filled(Block, x=1)
    {}
"""


@pytest.mark.parametrize(
    "line",
    [
        "n = w[3]",
        "n = w[3 + i]",
        "n = w[Block.x + 1]",
        "n = w[-1]",
        "n = w[2 * (i + 1)]",
        "w[0], w[Block.y] = 1, 2",
        "w[Block.x], w[Block.y + 1] = 1, 2",
        "n = words(block)[0]",
        "other = words(block)\n        n = other[0]",
        "y, other = floats(part), words(block)\n        n = other[0]",
        "at = 8 + 3 * i\n        n = w[at]",
        "call(w[Block.x], w[2])",
    ],
)
def test_numbered_words_of_kernels_are_found(line: str) -> None:
    assert findings(KERNEL.format(line)) != []


@pytest.mark.parametrize(
    "line",
    [
        "n = w[Block.x] + 1",
        "n = w[Block.sizes + axis]",
        "at = Block.axes + AXIS_WORDS * (axes - 1)\n        n = w[at + Axis.size]",
        "n = floats(w[Block.x])[0]",
        "n = x[3]",
        "at = w[Block.table]\n        n = w[at + Target.count]",
    ],
)
def test_named_words_of_kernels_are_not_found(line: str) -> None:
    assert findings(KERNEL.format(line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "launch(KERNEL, words, (0, 1))",
        "launch(KERNEL, words, arguments=(Block.x, 1))",
        "launch(KERNEL, words, (Block.x, -1))",
        "launch(KERNEL, words, (Block.x,), after={0: 4})",
        "launch(KERNEL, words, (Block.x,), before={0: Block.x + 1})",
        "launch(KERNEL, words, (Block.x,), attributes={'eps': 3} if call else None)",
        "launch(KERNEL, words, (Block.x,), spread={0: 5})",
        "arguments = (0, 1)\n    launch(KERNEL, words, (*arguments, Block.y))",
        "launch(KERNEL, words, _ARGUMENTS[call])",
        "launch(KERNEL, [0, 0, n], (Block.x,))",
        "block = [0, *sizes]\n    launch(KERNEL, block, (Block.x,))",
        "words += [n]\n    launch(KERNEL, words, (Block.x,))",
        "words[3] = 4",
        "words[Block.x + 1] = 4",
        "native.block[2] = 4",
        "Native(address, np.array([n, 0], np.int64), (Block.x,))",
        "Native(address, words, tuple(4 + i for i in range(n)))",
    ],
)
def test_numbered_words_of_writers_are_found(line: str) -> None:
    assert findings(WRITER.format(line)) != []


@pytest.mark.parametrize(
    "line",
    [
        "launch(KERNEL, words, (Block.x,), after={0: Block.after}, attributes={'eps': Block.eps})",
        "launch(KERNEL, [*filled(Block, n=2), *sizes], (Block.x,), parts=3, in_place={0: 0})",
        "launch(KERNEL, words, words_of(Block, 'x', None), workspace=8 * parts)",
        "words += sizes\n    words[Block.x] = 3\n    launch(KERNEL, words, (Block.x,))",
        "arguments = (Block.x,) if n == 1 else (Block.y,)\n    launch(KERNEL, words, arguments)",
    ],
)
def test_named_words_of_writers_are_not_found(line: str) -> None:
    assert findings(WRITER.format(line)) == []


@layout
class Words:
    first: int
    sizes: int = 3
    after: int
    rest: int = 0


def test_a_layout_counts_the_words_before_each_name() -> None:
    assert (Words.first, Words.sizes, Words.after, Words.rest, size_of(Words)) == (0, 1, 4, 5, 5)


def test_a_block_is_filled_by_name() -> None:
    assert filled(Words, after=7, first=2) == [2, 0, 0, 0, 7]
    with pytest.raises(AttributeError, match="missing"):
        filled(Words, missing=1)


def test_arguments_are_words_by_name() -> None:
    assert words_of(Words, "after", None, "first") == (Words.after, NO_WORD, Words.first)


def test_what_is_carried_has_the_words_of_the_core() -> None:
    assert (Carried.kernel, Carried.block, Carried.copied, Carried.made) == (
        RangeWord.KERNEL,
        RangeWord.BLOCK,
        RangeWord.BLOCK_WORDS,
        RangeWord.ADDRESS_WORD,
    )
