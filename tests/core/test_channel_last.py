"""`channel_last` is the same op on transposed arrays, whoever computes it; nobody is given it who does not know it."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.ops.channel_axis import back_axes, front_axes
from atled.reference import prepare_reference
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    PluginInfo,
    hookimpl,
    register_plugin,
    unregister_plugin,
)

WINDOWS = {"pad": (1, 0), "stride": (2, 1)}
WINDOW = {"kernel": (2, 2), "pad": (1, 0)}
# Function, shapes of the inputs with channels last, attributes.
CALLS = {
    "convolution": ([(2, 5, 4, 4), (6, 3, 2, 2), (6,)], {**WINDOWS, "group": 2}),
    "deconvolution": ([(2, 4, 3, 6), (6, 3, 2, 2), (4,)], {**WINDOWS, "group": 2}),
    "depthwise_convolution": ([(2, 5, 4, 3), (6, 3, 2), (6,)], {**WINDOWS, "multiplier": 2}),
    "depthwise_deconvolution": ([(2, 4, 3, 6), (6, 3, 2), (3,)], {**WINDOWS, "divisor": 2}),
    "max_pooling": ([(2, 5, 4, 3)], WINDOW),
    "average_pooling": ([(2, 5, 4, 3)], {**WINDOW, "including_pad": False}),
    "sum_pooling": ([(2, 5, 4, 3)], {**WINDOW, "ignore_border": False}),
    "unpooling": ([(2, 5, 4, 3)], {"kernel": (2, 3)}),
}


def channelled(name):
    """Which inputs of a function have a channel axis."""
    spec = getattr(F, name).spec
    return [item in spec.channelled for item in spec.input_names]


def arrays(shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def variables(given):
    return [nn.Variable.from_numpy_array(x, need_grad=True) for x in given]


def result_and_gradients(name, given, **attributes):
    inputs = variables(given)
    y = getattr(F, name)(*inputs, **attributes)
    y.forward()
    y.backward(np.arange(y.size, dtype=np.float32).reshape(y.shape) if attributes.get("channel_last") else weights(y))
    return y.d.copy(), [x.g.copy() for x in inputs]


def weights(y):
    """The gradient that is 0, 1, 2... with channels last."""
    last = np.arange(y.size, dtype=np.float32).reshape([y.shape[axis] for axis in back_axes(4, 2)])
    return np.ascontiguousarray(last.transpose(front_axes(4, 2)))


def front(x):
    return np.ascontiguousarray(x.transpose(front_axes(4, 2)))


@pytest.mark.parametrize("backend", ["reference", "cpu", "sim"])
@pytest.mark.parametrize("name", CALLS)
def test_channel_last_is_the_op_on_transposed_arrays(name, backend):
    shapes, attributes = CALLS[name]
    given = arrays(shapes)
    first = [front(x) if has else x for x, has in zip(given, channelled(name), strict=True)]
    with nn.context_scope(nn.Context([f"{backend}:float"], fallback="raise")), nn.trace() as trace:
        y, gradients = result_and_gradients(name, given, **attributes, channel_last=True)
        expected, theirs = result_and_gradients(name, first, **attributes)
        at_once = getattr(F, name)(*map(nn.NdArray.from_numpy_array, given), **attributes, channel_last=True)
    assert {row.backend for row in trace.rows()} <= {backend, "engine"}  # which copies to and from a device
    np.testing.assert_allclose(front(y), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(at_once.data, y)
    for gradient, wanted, has in zip(gradients, theirs, channelled(name), strict=True):
        np.testing.assert_allclose(front(gradient) if has else gradient, wanted, rtol=1e-5, atol=1e-4)


class Unaware:
    """A host backend whose implementations were written before there was channel_last."""

    def __init__(self, ops, **facts):
        self.ops = ops
        self.facts = facts
        self.calls = []

    @hookimpl
    def atled_info(self):
        backend = BackendInfo("unaware", ("float",), host=True, array_classes=("CpuArray",))
        return PluginInfo("unaware", API_VERSION, "test", "1", (backend,))

    @hookimpl
    def atled_register(self, registrar):
        for op in self.ops:
            registrar.implementation(op, "unaware", self.prepare, **self.facts)

    def prepare(self, call):
        self.calls.append(call)
        return prepare_reference(call)


@pytest.fixture
def register():
    """Register an Unaware plugin for the test."""

    def put(*ops, **facts):
        plugin = Unaware(ops, **facts)
        register_plugin("unaware", plugin)
        return plugin

    yield put
    unregister_plugin("unaware")


def convolved():
    x, w, _ = arrays(CALLS["convolution"][0])
    with nn.context_scope(nn.Context(["unaware:float", "reference:float"])), nn.trace() as trace:
        y = F.convolution(*variables([x, w]), group=2, channel_last=True)
        y.forward()
    expected = F.convolution(*map(nn.NdArray.from_numpy_array, (front(x), front(w))), group=2).data
    np.testing.assert_allclose(front(y.d), expected, rtol=1e-5, atol=1e-5)
    return [(row.op, row.backend) for row in trace.rows()]


def test_who_does_not_know_channel_last_is_given_transposed_arrays_and_no_such_attribute(register):
    plugin = register("Convolution", "Transpose")
    assert {("Convolution", "unaware"), ("Transpose", "unaware")} == set(convolved())
    assert [sorted(call.attributes) for call in plugin.calls if call.spec.name == "Convolution"] == [
        ["base_axis", "dilation", "group", "pad", "stride"]
    ]


def test_where_nobody_transposes_the_next_backend_computes(register):
    plugin = register("Convolution")
    assert convolved() == [("Convolution", "reference")]
    assert not plugin.calls


def test_where_not_every_array_is_transposed_the_next_backend_computes(register):
    def accepts(call):
        return call.spec.name != "Transpose" or call.inputs[0].shape[0] == 2 or "it transposes images only"

    plugin = register("Convolution", "Transpose", accepts=accepts)
    assert convolved() == [("Convolution", "reference")]
    assert not plugin.calls


def test_who_knows_channel_last_is_given_the_arrays_as_they_are(register):
    plugin = register("Convolution", layout=lambda call: "")
    assert convolved() == [("Convolution", "unaware")]
    assert [call.channel_last for call in plugin.calls] == [True]


def test_an_unknown_layout_is_an_error_that_names_the_backend(register):
    register("Convolution", "Transpose", layout=lambda call: "nhwc")
    with pytest.raises(ValueError, match=r"backend 'unaware' of plugin '.*' answered 'nhwc'"):
        convolved()


def test_explain_says_that_arrays_are_transposed(register):
    register("Convolution", "Transpose")
    x, w, _ = arrays(CALLS["convolution"][0])
    with nn.context_scope(nn.Context(["unaware:float", "reference:float"])):
        told = nn.explain(F.convolution, *variables([x, w]), group=2, channel_last=True)
    assert told.calls[0].is_transposed
    assert told.calls[0].chosen.backend == "unaware"
    assert "channel_last: the arrays are transposed before and behind" in str(told)
