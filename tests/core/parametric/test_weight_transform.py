"""Layers made of a base layer and a transform of its weight: one class adds functions with all that they need."""

import inspect
from typing import ClassVar

import numpy as np
import pytest

from atled import NdArray, Variable
from atled import functions as F
from atled import parametric_functions as PF
from atled.initializer import ConstantInitializer
from atled.parameter import get_parameters
from atled.parametric.arguments import Argument, Signature, docstring
from atled.parametric.base_layers import Affine, DepthwiseConvolution
from atled.parametric.weight_transform import LAYERS, WeightTransform


@pytest.fixture
def scaled(monkeypatch):
    """The layers of a transform that is declared here."""
    before = set(LAYERS)

    class Scaled(WeightTransform):
        """{layer} with a multiple of a weight: `y = {x} (factor W) + b`."""

        prefix, scope = "scaled_", "s_"
        bases = (Affine, DepthwiseConvolution)
        before: ClassVar = {"b_init": (Argument("factor", "float", 2.0, "the multiple"),)}
        without = ("rng",)
        parameters: ClassVar = {"W": "{W}; not multiplied", "b": "{b}"}

        def call(self, layer):
            w = layer.weight() * layer.given.factor
            return getattr(F, layer.function)(layer.inp, w, layer.bias(), **layer.attributes)

    made = {name: LAYERS.pop(name) for name in set(LAYERS) - before}
    return made


def test_one_class_adds_a_function_for_each_base_layer(scaled):
    assert set(scaled) == {"scaled_affine", "scaled_depthwise_convolution"}
    x = Variable.from_numpy_array(np.ones((2, 3), np.float32))
    y = scaled["scaled_affine"](x, 4, factor=3.0, w_init=ConstantInitializer(1), name="n")
    y.forward()
    np.testing.assert_array_equal(y.d, np.full((2, 4), 9))
    assert {name: p.shape for name, p in get_parameters().items()} == {
        "n/s_affine/W": (3, 4),
        "n/s_affine/b": (4,),
    }


def test_its_signature_is_that_of_the_base_layer_with_its_own_arguments_among_them(scaled):
    function = scaled["scaled_depthwise_convolution"]
    names = list(inspect.signature(function).parameters)
    expected = list(inspect.signature(PF.depthwise_convolution).parameters)
    expected.insert(expected.index("b_init"), "factor")
    expected.remove("rng")
    assert names == expected
    assert function.__name__ == "scaled_depthwise_convolution"


def test_its_docstring_tells_of_every_argument_and_parameter(scaled):
    doc = scaled["scaled_affine"].__doc__
    assert doc.startswith("Affine map with a multiple of a weight: `y = x (factor W) + b`.\n")
    assert "W: (D, L...) float, D the product of inp.shape[base_axis:]; not multiplied.\n" in doc
    assert "factor: the multiple.\n" in doc and "name: scope above `s_affine`.\n" in doc
    assert "rng" not in doc and "Source" not in doc


@pytest.mark.parametrize("name", sorted(LAYERS.keys() & set(PF.__all__)))
def test_no_line_of_a_docstring_is_wider_than_the_source_may_be(name):
    assert max(map(len, LAYERS[name].__doc__.splitlines())) <= 120
    assert "{" not in LAYERS[name].__doc__


SIGNATURE = Signature("layer", [Argument("a", "int", inspect.Parameter.empty, "one"), Argument("b", "int", 2, "two")])


@pytest.mark.parametrize(
    ("args", "kwargs"), [((1,), {}), ((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1}), ((), {"b": 2, "a": 1})]
)
def test_arguments_are_bound_by_place_and_by_name(args, kwargs):
    assert SIGNATURE.bind(args, kwargs) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("args", "kwargs", "wrong"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((), {"c": 3}, "missing a required argument: 'a'"),
        ((1,), {"c": 3}, "unexpected keyword argument 'c'"),
        ((1, 2), {"b": 3}, "multiple values for argument 'b'"),
        ((1, 2, 3), {}, "too many positional arguments"),
    ],
)
def test_a_call_with_wrong_arguments_is_told_the_right_ones(args, kwargs, wrong):
    with pytest.raises(TypeError, match=rf"layer: .*{wrong}[\s\S]*call layer\(a, b=2, name=None\)"):
        SIGNATURE.bind(args, kwargs)


def test_what_a_base_layer_takes_and_a_layer_does_not_is_refused():
    x = NdArray((2, 3, 4, 4))
    with pytest.raises(TypeError, match="unexpected keyword argument 'group'"):
        PF.svd_convolution(x, 2, (3, 3), 1, group=1)


def test_an_empty_section_of_a_docstring_is_left_out():
    assert docstring("What.", {"Args": {"x": "one"}, "Source": ""}) == "What.\n\nArgs:\n    x: one.\n"
