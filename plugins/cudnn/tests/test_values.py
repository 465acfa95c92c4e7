"""What the backend computes beyond the conformance kit: what is fused, pairs, preferred layouts, networks."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.ext_utils import get_extension_context
from atled.plugin import ArrayDesc, Call, Program, op_spec
from atled_cudnn import confirmed, convolution, pooling


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def leaves(*arrays):
    return [nn.Variable.from_numpy_array(array, need_grad=True) for array in arrays]


def on(context, function, *arrays):
    """The output of a function, and the gradients by the arrays."""
    with nn.context_scope(context):
        variables = leaves(*arrays)
        y = function(*variables)
        y.forward()
        y.backward(values(*y.shape, seed=9))
        return [y.d.copy(), *(one.g.copy() for one in variables)]


def agree(function, *arrays, type_config="float", tolerance=1e-4):
    """Whether cudnn and the reference give the same, but for what Winograd's algorithms may lose."""
    cudnn = get_extension_context("cudnn", type_config=type_config, fallback="quiet")
    ours = on(cudnn, function, *arrays)
    theirs = on(nn.Context(["reference:float"]), function, *arrays)
    for one, other in zip(ours, theirs, strict=True):
        scale = max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


def rectified(x, w, b):
    return F.relu(F.convolution(x, w, b, pad=(1, 1)))


def residual(x, w, b, z):
    return F.relu(F.convolution(x, w, b, pad=(1, 1)) + z)


def summed(x, w, b, z):
    return F.convolution(x, w, b, pad=(1, 1)) + z


FUSED = {rectified: 3, residual: 4, summed: 3}
ARRAYS = values(2, 8, 6, 5), values(16, 8, 3, 3, seed=1), values(16, seed=2), values(2, 16, 6, 5, seed=3)


def operations(fake):
    """Kinds of the operations of all graphs that were finalized, in order."""
    return [[operation[0] for operation in attributes[0][2]] for _, attributes in fake.graphs.values()]


# With channels last a single sum is cheaper behind the transpose that the result needs.
@pytest.mark.parametrize(
    ("function", "type_config", "tolerance"),
    [(function, "float", 1e-5) for function in FUSED]
    + [(function, name, 1e-2) for function in (rectified, residual) for name in ("tf32", "half")],
)
def test_bias_residual_and_rectifier_are_fused_with_the_convolution(fake, function, type_config, tolerance):
    arrays = ARRAYS[: function.__code__.co_argcount]
    with nn.context_scope(get_extension_context("cudnn", type_config=type_config, fallback="quiet")):
        y = function(*map(nn.Variable.from_numpy_array, arrays))
        y.forward()
    assert max(map(len, operations(fake))) == FUSED[function]
    with nn.context_scope(nn.Context(["reference:float"])):
        expected = function(*map(nn.Variable.from_numpy_array, arrays))
        expected.forward()
    np.testing.assert_allclose(y.d, expected.d, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("function", FUSED, ids=lambda function: function.__name__)
def test_what_is_fused_has_its_gradients(cudnn, function):
    agree(function, *ARRAYS[: function.__code__.co_argcount])


def formula(call, text, *others):
    spec = op_spec("ReLU")
    program = Program(("y", *(f"z{n}" for n in range(len(others)))), (), (("out", text),))
    made = type("Formula", (), {"program": program, "float_names": (), "name": "Formula"})()
    del spec
    return Call(made, (call.outputs[0], *others), (call.outputs[0],), {}, device_id="0")


def plain_call(bias=True):
    x, w, y = (ArrayDesc(shape, np.dtype("f")) for shape in ((2, 8, 6, 6), (8, 8, 3, 3), (2, 8, 4, 4)))
    geometry = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    return Call(
        op_spec("Convolution"), (x, w, ArrayDesc((8,), y.dtype) if bias else None), (y,), geometry, device_id="0"
    )


@pytest.mark.parametrize(
    ("text", "others", "bias", "wanted", "reason"),
    [
        ("exp(y)", (), True, False, "cuDNN fuses maximum(y, 0), y + residual and maximum(y + residual, 0) only"),
        ("y + z0 + z1", ((2, 8, 4, 4), (2, 8, 4, 4)), True, False, "cuDNN fuses maximum"),
        ("y + z0", ((8, 1, 1),), True, False, "cuDNN adds a residual of the output's shape only"),
        ("maximum(y, 0)", (), False, False, "a convolution that has a bias only"),
        ("maximum(y, 0)", (), True, True, "cuDNN does not store what it computes a formula of"),
    ],
)
def test_other_formulas_are_refused_with_the_reason(fake, text, others, bias, wanted, reason):
    call = plain_call(bias)
    attached = formula(call, text, *(ArrayDesc(shape, np.dtype("f")) for shape in others))
    assert reason in convolution.accepts(call.attached({}, {0: attached}, (wanted,)))


def test_where_tensor_cores_compute_the_channels_come_last(fake):
    with nn.context_scope(get_extension_context("cudnn", type_config="half", fallback="quiet")):
        y = F.convolution(*leaves(values(2, 8, 6, 6), values(16, 8, 3, 3)))
        y.forward()
    (*_, (_, ((_, _, (operation,)),))) = fake.graphs.values()
    tensors = [values_[0] for _, type_, values_ in operation[1] if type_ == 15 and values_[0][0] == 17]
    strides = [{name: given for name, _, given in attributes}[903] for _, attributes in tensors]
    assert all(one[1] == 1 for one in strides), strides


@pytest.mark.parametrize("type_config", ["float", "double"])
def test_elsewhere_they_stay_where_they_are(cudnn, type_config):
    with nn.context_scope(get_extension_context("cudnn", type_config=type_config, fallback="quiet")):
        y = F.convolution(*leaves(values(2, 8, 6, 6), values(16, 8, 3, 3)))
        y.forward()
    assert convolution.preferred_layout(plain_call()) == ""


def pooled(x):
    return F.max_pooling(x, (3, 2), stride=(2, 2), pad=(1, 0))


SPECIAL = np.round(values(2, 3, 6, 6))  # with equal maxima
SPECIAL[0, 1, 2:4, 3] = np.nan


@pytest.mark.parametrize("border", [True, False])
def test_where_it_is_confirmed_maxima_are_pooled_both_ways_without_places(fake, monkeypatch, border):
    monkeypatch.setattr(pooling, "FIRST_MAXIMUM", frozenset({(92800, "NVIDIA Emulated")}))

    def function(x):
        return F.max_pooling(x, (3, 3), stride=(2, 2), pad=(1, 1), ignore_border=border)

    nn.clear_memory_cache()
    with nn.trace() as trace:
        agree(function, SPECIAL)
    ran = {row.op: row.backend for row in trace.rows() if row.backend in ("cudnn", "cuda")}
    assert ran["MaxPooling"] == ran["MaxPoolingGradByValue"] == "cudnn"


def test_where_it_is_not_cuda_pools_maxima_with_places(fake):
    assert (fake.version, "NVIDIA Emulated") not in confirmed.FIRST_MAXIMUM
    with nn.trace() as trace:
        agree(pooled, np.round(values(2, 3, 7, 6)))
    assert {row.op: row.backend for row in trace.rows() if row.backend != "reference"}["MaxPooling"] != "cudnn"


def test_maxima_without_places_are_refused_where_places_are_wanted(fake):
    x, y, place = (ArrayDesc(shape, np.dtype(kind)) for shape, kind in (((2, 4), "f"), ((2, 2), "f"), ((2, 2), "u1")))
    geometry = {"kernel": (2,), "stride": (2,), "ignore_border": True, "pad": (0,)}
    call = Call(op_spec("MaxPooling"), (x,), (y, place), geometry, device_id="0")
    assert pooling.accepts(call) == "cuDNN gives no places of maxima"
    assert pooling.accepts(call.without((1,))) is True


def test_a_network_learns_as_on_the_reference(cudnn):
    def train(context):
        nn.clear_parameters()
        rng = np.random.default_rng(1)
        losses = []
        with nn.context_scope(context):
            x, t = nn.Variable((8, 1, 12, 12)), nn.Variable((8, 1))
            h = F.relu(PF.convolution(x, 8, (3, 3), pad=(1, 1), name="c1", rng=np.random.RandomState(0)))
            h = F.average_pooling(h, (2, 2))
            h = F.relu(PF.convolution(h, 8, (3, 3), group=2, name="c2", rng=np.random.RandomState(1)))
            loss = F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="a", rng=np.random.RandomState(2)), t))
            solver = S.Momentum(0.1)
            solver.set_parameters(nn.get_parameters())
            for _ in range(4):
                x.d, t.d = rng.standard_normal(x.shape), rng.integers(0, 3, t.shape)
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.update()
                losses.append(float(loss.d))
        return losses

    ours = train(get_extension_context("cudnn", fallback="quiet"))
    np.testing.assert_allclose(ours, train(nn.Context(["reference:float"])), rtol=1e-4)
    assert cudnn is None or cudnn.executed
