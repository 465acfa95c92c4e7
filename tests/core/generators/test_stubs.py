"""The stub file of `atled.functions`."""

import ast

from atled import functions
from atled.generators import stubs


def test_the_file_is_up_to_date():
    assert stubs.PATH.read_text(encoding="utf-8") == stubs.write_stubs()


def test_it_names_every_function():
    tree = ast.parse(stubs.write_stubs())
    assert {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} >= set(dir(functions))
