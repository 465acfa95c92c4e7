"""`python -m atled op NAME`: what it shows of ops of all kinds, and what it says of names that are none."""

import json
import re
import sys
from pathlib import Path

import pytest

from atled.calling.function_text import source
from atled.commands import USER_ERROR, main
from atled.commands.op import _PARTS, _PROPERTIES
from atled.generators.catalogue import all_specs
from atled.generators.op_description import PARTS, describe_op
from atled.op_spec import Attribute, Input, OpSpec, Row, Sample, define, undefine
from atled.ops.spec import SPECS
from atled_contexts import API_VERSION, BackendInfo, PluginInfo, hookimpl, register_plugin, unregister_plugin

DOCS = Path(__file__).parents[3] / "docs"


def shown(capsys, *words):
    assert main(["op", *words]) == 0
    return capsys.readouterr().out


def described(capsys, *words):
    return json.loads(shown(capsys, *words, "--json"))


@pytest.fixture
def own_op():
    """An op with a formula, defined by this module."""
    define(Row("Wobble", "wobble", "x + a * sin(x)", {"x": "derived"}, {"a": 1.0}, doc="Waves on a line."))
    yield
    undefine("Wobble")


@pytest.mark.parametrize("name", ["Convolution", "convolution", "F.convolution", "atled.functions.convolution"])
def test_an_op_is_found_by_its_spec_and_by_its_function(capsys, name):
    assert shown(capsys, name, "--part", "formula").startswith("Convolution (F.convolution), layer")


def test_the_gradient_of_an_op_is_an_op_too(capsys):
    out = shown(capsys, "ConvolutionDataGrad")
    assert "input      weight: compute, gradient flows" in out
    assert "= Convolution(ggx, weight, None, base_axis=1" in out
    assert "gradient of gy: v0" in out
    assert "none: it is not elementwise" in out and "none: it is not a function of its own" in out
    assert re.search(r"reference \(plugin reference\)\n +float +NumPy", out)


def test_a_derived_gradient_is_found_by_its_name_alone(capsys):
    found = described(capsys, "ELUGradXGradX", "--part", "formula", "--part", "gradients")
    assert found["formula"]["gx"] == str(SPECS["ELUGradX"].gradient_formula("x"))
    assert found["gradients"]["rule"] == "formulas"


def test_an_op_of_ones_own_is_shown_like_any_other(capsys, own_op):
    out = shown(capsys, "wobble")
    assert out.startswith(f"Wobble (F.wobble), own, defined in {__name__}")
    assert "F.wobble(x, a=1.0)" in out
    assert "gradient of x: gy * (1 + a * cos(x))" in out and "WobbleGradX(gy, x, a=1.0)" in out
    assert "Waves on a line." in out
    assert source(SPECS["Wobble"]) in out
    assert re.search(r"reference \(plugin reference\)\n +float +NumPy", out)


def test_an_op_that_was_taken_out_is_unknown(capsys, own_op):
    define(Row("Ripple", "ripple", "2 * x", {"x": "derived"}, doc="Doubles."))
    assert main(["op", "Ripple"]) == 0
    undefine("Ripple")
    assert main(["op", "Ripple"]) == USER_ERROR
    assert "there is no op spec" in capsys.readouterr().err


def test_a_module_with_ops_is_imported_first(capsys, tmp_path, monkeypatch):
    lines = (
        "from atled.op_spec import Row, define",
        'define(Row("Lift", "lift", "x + 1", {"x": "gy"}, doc="One more."))',
    )
    (tmp_path / "lifting.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    out = shown(capsys, "lift", "--import", "lifting", "--part", "formula")
    assert "y = x + 1" in out and sys.path == path
    undefine("Lift")
    del sys.modules["lifting"]
    assert main(["op", "relu", "--import", "no_such_module"]) == USER_ERROR
    assert "--import no_such_module" in capsys.readouterr().err


def test_parts_come_alone_and_in_their_order(capsys):
    out = shown(capsys, "relu", "--part", "text", "--part", "formula")
    assert re.findall(r"^(\w+)$", out, re.MULTILINE) == ["formula", "text"]
    assert list(described(capsys, "relu", "--part", "doc"))[4:] == ["doc"]


def test_the_arguments_name_the_parts_that_there_are():
    assert tuple(PARTS) == _PARTS
    assert set(_PROPERTIES) <= set(describe_op(SPECS["ReLU"], ["spec"])["spec"])


@pytest.mark.parametrize("name", ["Convolution", "Dropout", "SgdUpdate", "Constant", "TopKData", "GRUSequence"])
def test_json_holds_what_the_description_says(capsys, name):
    found = described(capsys, name)
    assert found == describe_op(SPECS[name], _PARTS)
    assert list(found) == ["op", "function", "category", "module", *_PARTS]


def test_the_spec_is_told_as_it_was_declared():
    spec = describe_op(SPECS["TopKData"], ["spec"])["spec"]
    assert [item["name"] for item in spec["attributes"] if item["required"]] == ["k"]
    assert spec["outputs"] == ["y", "index"] and spec["auxiliary"] == ["index"]
    assert describe_op(SPECS["Dropout"], ["spec"])["spec"]["random"]
    assert describe_op(SPECS["Reshape"], ["spec"])["spec"]["views"]
    assert describe_op(SPECS["SgdUpdate"], ["spec"])["spec"]["inplace"]


def test_gradients_of_all_ops_are_told_and_no_rule_fails_on_its_sample():
    rules = {}
    for spec in all_specs():
        gradients = describe_op(spec, ["gradients"])["gradients"]
        json.dumps(gradients)
        rules.setdefault(gradients["rule"], []).append(spec.name)
        if gradients["rule"] in ("formulas", "ops"):
            assert gradients["error"] is None and gradients["nodes"], spec.name
    assert set(rules) == {"formulas", "ops", "stops", "raises"}
    assert "Convolution" in rules["ops"] and "ELUGradX" in rules["formulas"]


class Lasting(OpSpec, abstract=True):
    """Twice x."""

    inputs = (Input("x"),)
    attributes = (Attribute("n", "int", 1),)

    def infer(self, x, n):
        return x

    def reference(self, x, n):
        return 2 * x

    def samples(self):
        return (Sample((2, 3)),)


def test_an_op_without_a_rule_and_a_rule_that_fails_are_told(capsys):
    class Ruleless(Lasting):
        """Twice x."""

    class Failing(Lasting):
        """Twice x."""

        def gradient(self, g, x, n):
            raise ZeroDivisionError("no rule here")

    try:
        assert "has no gradient rule" in shown(capsys, "Ruleless", "--part", "gradients")
        assert "The rule fails on Sample((2, 3)): ZeroDivisionError: no rule here" in shown(capsys, "Failing")
    finally:
        undefine("Ruleless")
        undefine("Failing")


def test_a_backend_that_refuses_says_why(capsys):
    pytest.importorskip("atled_sim")
    import atled_sim

    (sim,) = (entry for entry in describe_op(SPECS["Tanh"], ["backends"])["backends"] if entry["plugin"] == "sim")
    assert set(sim["type_configs"]) >= {"float", "half"} and not sim["refused"]
    with atled_sim.refuse({"Tanh"}):
        out = shown(capsys, "tanh", "--part", "backends")
    assert re.search(r"sim \(plugin sim\)\n +computes none of the samples\n +float +refused, such as Tanh\(", out)


def test_a_plugin_that_cannot_be_asked_is_told_beside_the_others(capsys):
    class Broken:
        @hookimpl
        def atled_info(self):
            return PluginInfo("broken", API_VERSION, "acme-broken", "0.1", (BackendInfo("broken"),))

        @hookimpl
        def atled_register(self, registrar):
            raise OSError("no driver")

    register_plugin("broken", Broken())
    try:
        out = shown(capsys, "relu", "--part", "backends")
    finally:
        unregister_plugin("broken")
    assert re.search(r"plugin broken.*it cannot be asked: .*no driver", out)
    assert "reference (plugin reference)" in out


@pytest.mark.parametrize(
    ("name", "near"),
    [("convolutin", "Convolution"), ("F.rellu", "relu"), ("ConvolutionDatGrad", "ConvolutionDataGrad")],
)
def test_an_unknown_name_is_refused_with_the_nearest_ones(capsys, name, near):
    assert main(["op", name]) == USER_ERROR
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"atled: op {name}: there is no op spec")
    assert near in err.split("Considered: ")[1] and "What to do: try python -m atled op" in err


def test_a_composition_is_refused_as_one(capsys):
    assert main(["op", "F.gru"]) == USER_ERROR
    assert "it is made of several ops" in capsys.readouterr().err


def test_the_example_of_the_page_is_what_comes_out(capsys):
    text = (DOCS / "dispatch.md").read_text("utf-8")
    ((command, output),) = re.findall(r"^```text\n\$ python -m atled op (.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    assert shown(capsys, *command.split()) == output


def test_code_is_coloured_on_a_terminal_only_and_not_against_the_wish_of_the_user(capsys, monkeypatch):
    pytest.importorskip("rich")
    plain = shown(capsys, "relu", "--part", "text")
    assert "\x1b[" not in plain
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("atled.standard_output._Output.isatty", lambda output: True)
    coloured = shown(capsys, "relu", "--part", "text")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == plain.split()
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(capsys, "relu", "--part", "text") == plain
