"""Ops that a script or a package defines, from the outside: `atled.op_spec`."""

import re
import types

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.conformance.checks import check_op
from atled.generators.catalogue import catalogue
from atled.op_spec import DERIVED, Attribute, Input, OpSpec, Row, Sample, define, function_of, undefine
from atled.ops.own import OWN
from atled.ops.spec import FUNCTIONS, SPECS

VALUES = np.array([-2.0, -0.5, 0.0, 1.5], np.float32)


@pytest.fixture(autouse=True)
def only_the_library_afterwards():
    yield
    for title in list(OWN):
        undefine(title)


def row(name="SoftClip", function="soft_clip", y="x / (1 + a * abs(x))", gradients=None, attributes=None, **others):
    attributes = {"a": 1.0} if attributes is None else attributes
    return Row(name, function, y, gradients or {"x": DERIVED}, attributes, doc="Clips softly.", **others)


def variable():
    return nn.Variable.from_numpy_array(VALUES, need_grad=True)


def repeat_class(name="RepeatLast", function="repeat_last", bases=(OpSpec,), **keywords):
    """A class statement, with what the tests vary."""

    def infer(self, x, n):
        return type(x)((*x.shape[:-1], x.shape[-1] * n), x.dtype)

    def reference(self, x, n):
        return np.repeat(x, n, axis=-1)

    def gradient(self, g, x, n):
        pieces = g.op("Reshape", g.gy, shape=(*x.shape, n))
        return (g.op("Sum", pieces, axes=(len(x.shape),)),)

    body = {
        "__doc__": "Each element n times.",
        "__module__": __name__,
        "function": function,
        "inputs": (Input("x"),),
        "attributes": (Attribute("n", "int"),),
        "infer": infer,
        "reference": reference,
        "gradient": gradient,
        "samples": lambda self: (Sample((2, 3), n=2),),
    }
    return types.new_class(name, bases, keywords, lambda namespace: namespace.update(body))


def test_a_row_computes_at_once_recorded_and_in_backward_of_both_orders():
    soft_clip = define(row())
    assert F.soft_clip is soft_clip
    assert "soft_clip" in dir(F)
    want = VALUES / (1 + 2 * abs(VALUES))
    slope = 1 / (1 + 2 * abs(VALUES)) ** 2
    for _ in range(2):  # the second call is a known one
        np.testing.assert_allclose(soft_clip(nn.NdArray.from_numpy_array(VALUES), a=2.0).data, want, rtol=1e-6)
    x = variable()
    y = soft_clip(x, a=2.0)
    y.forward()
    y.backward()
    np.testing.assert_allclose(y.d, want, rtol=1e-6)
    np.testing.assert_allclose(x.g, slope, rtol=1e-6)
    (gradient,) = nn.grad(y, x)
    (second,) = nn.grad(gradient, x)
    second.forward()
    np.testing.assert_allclose(second.d, np.where(VALUES >= 0, -4, 4) * slope**1.5, rtol=1e-5)


def test_a_row_is_fused_explained_traced_and_verified():
    soft_clip = define(row())
    y = F.exp(soft_clip(variable()))
    with nn.trace() as trace, nn.verify(1.0):
        y.forward()
    assert "SoftClip" in str(trace)
    assert re.search(r"^SoftClip\w*\(float32", str(nn.explain(y)), re.MULTILINE)
    pytest.importorskip("atled_cpu_numba")
    with nn.context_scope(nn.Context("cpu:float", fallback="raise")):
        y = F.exp(soft_clip(variable()))
        y.forward()
    assert f"{soft_clip.spec.name}+Exp" in str(y.plan)


@pytest.mark.parametrize("backend", ["reference", "cpu", "sim"])
def test_ops_of_ones_own_pass_the_checks_of_the_library_on(backend):
    if backend != "reference":
        pytest.importorskip({"cpu": "atled_cpu_numba", "sim": "atled_sim"}[backend])
    assert check_op(define(row(tried={"a": 2.0})), backend) == 16
    if backend != "sim":  # a device computes no references
        assert check_op(repeat_class(), backend) == 1


def test_a_gradient_that_is_wrong_fails_the_check():
    soft_clip = define(row(gradients={"x": "gy / (1 + a * abs(x))"}))
    with pytest.raises(AssertionError, match="gradient of x"):
        check_op(soft_clip)


def test_a_class_trains():
    repeat_class()
    repeat_last = function_of("RepeatLast")
    assert repeat_last is F.repeat_last
    x = variable()
    y = repeat_last(x, n=3)
    y.forward()
    y.backward(np.arange(12.0))
    np.testing.assert_array_equal(y.d, np.repeat(VALUES, 3))
    np.testing.assert_array_equal(x.g, np.arange(12.0).reshape(4, 3).sum(axis=1))
    assert y.parent(x).shape == (12,)  # called once more by its recorded call


def test_a_gradient_may_name_an_op_without_a_function():
    slope = repeat_class(name="RepeatSlope", function="")

    def gradient(self, g, x, n):
        return (g.op("RepeatSlope", g.op("Sum", g.gy), n=x.shape[0]),)

    def infer(self, x, n):
        return type(x)((max(x.shape[-1:] or (1,)) * n,), x.dtype)

    repeat_class().gradient, slope.infer = gradient, infer
    with pytest.raises(ValueError, match="the op has none"):
        function_of(slope)
    x = variable()
    y = F.repeat_last(x, n=2)
    y.forward()
    y.backward()
    np.testing.assert_array_equal(x.g, [8, 8, 8, 8])


def test_one_call_can_name_its_backend():
    with nn.trace() as trace:
        define(row())(nn.NdArray.from_numpy_array(VALUES), using="reference")
    assert [found.backend for found in trace.rows()] == ["reference"]


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (lambda: define(row(name="ReLU")), "the library has an op of this name"),
        (lambda: define(row(name="TanhGradX")), "the library has an op of this name"),
        (lambda: define(row(function="relu")), "the function relu is the library's"),
        (lambda: define(row(name="soft_clip")), "no name of an op"),
        (lambda: define(row(function="soft clip")), "no name of a function"),
        (lambda: define(row(y="x +")), "is not an expression"),
        (lambda: define(row(y="x + b")), "unknown name 'b'"),
        (lambda: define(row(y="x > 0")), "outputs are numbers"),
        (lambda: define(row(gradients={"x": "gy * z"})), "uses z"),
        (lambda: define(row(gradients={"x": "gy > 0"})), "is a condition"),
        (lambda: define(row(y="y", gradients={"y": None}, attributes={})), "'y' is taken"),
        (lambda: define(row(y="x", attributes={"outputs": 1.0})), "'outputs' is taken"),
        (lambda: define(row(y="x", attributes={"x": 1.0})), "two arguments 'x'"),
        (lambda: repeat_class(name="Convolution"), "the library has an op of this name"),
        (lambda: repeat_class(function="relu"), "the function relu is the library's"),
        (lambda: types.new_class("Empty", (OpSpec,), {}, lambda body: body.update(__doc__="None.")), "has no infer"),
        (lambda: types.new_class("Empty", (OpSpec,)), "no docstring"),
    ],
)
def test_what_cannot_be_defined_is_refused_and_leaves_nothing(made, wrong):
    before = {name for name, spec in SPECS.items() if not spec.removed}, dict(FUNCTIONS)
    with pytest.raises(ValueError, match=wrong) as caught:
        made()
    assert "What to do:" in str(caught.value)
    after = {name for name, spec in SPECS.items() if not spec.removed}, dict(FUNCTIONS)
    # The gradient of an op that was asked for by its name is made then.
    assert (after[0] - {"TanhGradX"}, after[1]) == (before[0] - {"TanhGradX"}, before[1])


def test_a_second_definition_needs_to_say_that_it_replaces():
    define(row())
    with pytest.raises(ValueError, match=r"defined already(.|\n)*replace=True"):
        define(row())
    repeat_class()
    with pytest.raises(ValueError, match="defined already"):
        repeat_class()
    with pytest.raises(ValueError, match="the function soft_clip is that of SoftClip"):
        define(row(name="Other"))


def test_replacing_is_for_the_module_that_defined_the_op():
    source = "define(Row('SoftClip', 'soft_clip', 'x', {'x': 'gy'}, doc='Other.'), replace=True)"
    define(row())
    with pytest.raises(ValueError, match=f"{__name__} defines an op of this name"):
        exec(source, {"__name__": "another_module", "define": define, "Row": Row})


def test_what_was_made_before_a_replacement_goes_on_with_the_old_definition():
    first = define(row())
    x = variable()
    y = first(x)
    y.forward()
    at_once = first(nn.NdArray.from_numpy_array(VALUES)).data
    second = define(row(y="2 * x", attributes={"a": 1.0}), replace=True)
    assert F.soft_clip is second
    np.testing.assert_array_equal(second(nn.NdArray.from_numpy_array(VALUES)).data, 2 * VALUES)
    np.testing.assert_array_equal(first(nn.NdArray.from_numpy_array(VALUES)).data, at_once)
    later = second(x)
    later.forward()
    later.backward()
    np.testing.assert_array_equal(x.g, np.full(4, 2.0))
    x.grad.zero()
    y.forward()
    y.backward()
    np.testing.assert_array_equal(y.d, at_once)
    np.testing.assert_allclose(x.g, 1 / (1 + abs(VALUES)) ** 2, rtol=1e-6)
    # Told apart by a number, which shows how many there were in this process.
    assert re.fullmatch(r"SoftClip_\d+", later.parent.name)
    assert y.parent.name != later.parent.name
    repeat_class()
    assert function_of(repeat_class(replace=True)) is F.repeat_last


def test_an_op_can_be_taken_out_and_its_names_are_free_then():
    soft_clip = define(row())
    y = soft_clip(variable())
    undefine("SoftClip")
    assert not hasattr(F, "soft_clip")
    assert "soft_clip" not in dir(F)
    y.forward()
    y.backward()
    with pytest.raises(ValueError, match="not defined any more"):
        undefine(soft_clip)
    with pytest.raises(ValueError, match="op of the library"):
        undefine("ReLU")
    with pytest.raises(LookupError, match="SoftClop"):
        undefine("SoftClop")
    define(row(name="Other"))


def test_the_librarys_listings_have_no_ops_of_others():
    define(row())
    repeat_class()
    assert not {"SoftClip", "RepeatLast"} & {spec.name for spec in catalogue()}


def test_a_network_file_refuses_an_op_that_nnabla_has_not(tmp_path):
    pytest.importorskip("google.protobuf")
    pytest.importorskip("h5py")
    from atled.utils.save import save

    x = nn.Variable((2, 3))
    y = define(row())(x)
    network = {"name": "net", "batch_size": 2, "outputs": {"y": y}, "names": {"x": x}}
    with pytest.raises(ValueError, match=r"SoftClip\w*: NNabla's format has no such function"):
        save(str(tmp_path / "net.nnp"), {"networks": [network], "executors": []})
    assert list(tmp_path.iterdir()) == []


def test_defaults_of_attributes_need_no_literal():
    y = define(row(y="minimum(x, a)", attributes={"a": float("inf")}))(nn.NdArray.from_numpy_array(VALUES))
    np.testing.assert_array_equal(y.data, VALUES)
    other = define(row(name="Other", function="other", y="x * a", attributes={"a": np.float32(2)}))
    np.testing.assert_array_equal(other(nn.NdArray.from_numpy_array(VALUES)).data, 2 * VALUES)
