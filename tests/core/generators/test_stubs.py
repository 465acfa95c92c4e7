"""The stub files of `atled.functions` and of `atled.parametric_functions`."""

import ast
import inspect

import pytest

from atled import functions
from atled import parametric_functions as PF
from atled.generators import stubs

LAYERS = [name for name in PF.__all__ if name not in ("LSTMCell", "parametric_function_api")]


def test_the_file_is_up_to_date():
    assert stubs.PATH.read_text(encoding="utf-8") == stubs.write_stubs()


def test_the_file_of_the_layers_is_up_to_date():
    assert stubs.LAYERS_PATH.read_text(encoding="utf-8") == stubs.write_layers_stubs()


def test_it_names_every_function():
    tree = ast.parse(stubs.write_stubs())
    assert {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} >= set(dir(functions))


@pytest.mark.parametrize("name", LAYERS)
def test_the_stub_of_a_layer_has_its_signature(name):
    tree = ast.parse(stubs.write_layers_stubs())
    (stub,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    given = [(a.arg, ast.unparse(a.annotation)) for a in (*stub.args.args, *stub.args.kwonlyargs)]
    defaults = [ast.literal_eval(d) for d in (*stub.args.defaults, *stub.args.kw_defaults)]
    parameters = inspect.signature(getattr(PF, name)).parameters.values()
    assert given == [(p.name, p.annotation) for p in parameters]
    assert defaults == [p.default for p in parameters if p.default is not p.empty]


def test_the_check_names_the_file_that_is_old(tmp_path, monkeypatch, capsys):
    old = tmp_path / "parametric_functions.pyi"
    old.write_text("def affine(): ...\n")
    monkeypatch.setattr(stubs, "LAYERS_PATH", old)
    # Other tests read the file of the tree meanwhile.
    monkeypatch.setattr(stubs, "PATH", tmp_path / "functions.pyi")
    assert stubs.main(["--check"]) == 1
    assert str(old) in capsys.readouterr().err
    assert stubs.main([]) == stubs.main(["--check"]) == 0
    assert old.read_text(encoding="utf-8") == stubs.write_layers_stubs()
