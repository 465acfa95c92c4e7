"""Every call that the plugin accepts has a plan of the real cuDNN, for an H100 and an H200; so has what the kit made.

CUDNN_GRAPHS: file of operation graphs that the stand-in for cuDNN got in a run of the conformance kit.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from atled.generators.catalogue import SampleCalls
from atled.plugin import ArrayDesc, Call, Program, op_spec
from atled_cudnn import convolution, engines, launching, plans, pooling
from atled_cudnn.constants import DATA_TYPES, Kind, Name, Note, Type
from atled_cudnn.descriptors import Node, build
from atled_cudnn.plans import Plan, Wanted

TYPES = ("float", "tf32", "half", "bf16", "double")
OPS = {
    convolution: ("Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad", "Deconvolution"),
    pooling: ("AveragePooling", "AveragePoolingGrad", "MaxPooling"),
}
CONDITIONS = [
    {"deterministic": deterministic, "local_errors": local}
    for deterministic, local in itertools.product((False, True), repeat=2)
]
DEVICES = ("0", "1")


def dtype_of(type_config):
    names = {"half": "float16", "double": "float64", "bf16": "bfloat16"}
    if type_config == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(names.get(type_config, "float32"))


def placed(call, device, **conditions):
    """A call under other conditions."""
    wanted = tuple(name not in ("place",) for name in call.spec.outputs)
    return Call(
        call.spec, call.inputs, call.outputs, call.attributes, device_id=device, type_config=call.type_config,
        wanted=wanted, before=call.before, after=call.after, **conditions,
    )  # fmt: skip


def check(module, call):
    """Whether the call has a plan that does to numbers only what is allowed, and that is found again by its choice."""
    assert module.accepts(call) is True
    wanted = launching._wanted(call, module.describe(call))
    plan = plans.find(wanted)
    assert isinstance(plan, Plan)
    assert not plan.notes & launching.forbidden(call), plan.notes
    if call.spec.products and call.outputs[0].dtype == np.float32 and call.type_config == "float":
        assert Note.TENSOR_CORE not in plan.notes
    found = plans.properties(wanted.device).descriptor
    again = Plan(engines.chosen(build(wanted.graph), found, plan.choice), found, wanted.device, "found again")
    assert again.workspace == plan.workspace
    assert module.prepare(call).workspace == plan.workspace


@pytest.mark.parametrize("type_config", TYPES)
@pytest.mark.parametrize(("module", "op"), [(module, op) for module, ops in OPS.items() for op in ops])
def test_every_sample_that_is_accepted_on_paper_has_a_plan(module, op, type_config):
    accepted = 0
    for call in SampleCalls(op_spec(op)).of(type_config):
        if op == "MaxPooling":
            call = call.without((1,))
        if module.accepts(call) is True:
            accepted += 1
            for device, conditions in itertools.product(DEVICES, CONDITIONS):
                check(module, placed(call, device, **conditions))
    assert accepted >= 3


SHAPES = {
    "ResNet 3x3": ((16, 64, 56, 56), (64, 64, 3, 3), (1, 1), (1, 1), 1),
    "ResNet 1x1": ((16, 256, 14, 14), (512, 256, 1, 1), (0, 0), (2, 2), 1),
    "first": ((16, 3, 64, 64), (64, 3, 7, 7), (3, 3), (2, 2), 1),
    "depthwise": ((8, 64, 28, 28), (64, 1, 3, 3), (1, 1), (1, 1), 64),
    "grouped": ((8, 64, 28, 28), (64, 16, 3, 3), (1, 1), (1, 1), 4),
    "video": ((2, 16, 8, 16, 16), (32, 16, 3, 3, 3), (1, 1, 1), (1, 2, 2), 1),
    "sequence": ((8, 32, 200), (64, 32, 5), (2,), (1,), 1),
}


def calls(shape, weight, pad, stride, group, type_config, last):
    """Forward with bias, both gradients, deconvolution: of one convolution."""
    dtype, axes = dtype_of(type_config), len(pad)
    sizes = tuple((n + 2 * p - k) // s + 1 for n, p, k, s in zip(shape[2:], pad, weight[2:], stride, strict=True))

    def desc(dims):
        return ArrayDesc((dims[0], *dims[2:], dims[1]) if last else tuple(dims), dtype)

    x, w, y = desc(shape), desc(weight), desc((shape[0], weight[0], *sizes))
    bias = ArrayDesc((weight[0],), dtype)
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": (1,) * axes, "group": group}
    geometry |= {"channel_last": True} if last else {}
    for op, inputs, made, more in (
        ("Convolution", (x, w, bias), y, {}),
        ("Convolution", (x, w, None), y, {}),
        ("ConvolutionDataGrad", (y, w), x, {"shape": shape[2:]}),
        ("ConvolutionWeightGrad", (x, y), w, {"kernel": weight[2:]}),
    ):
        yield Call(op_spec(op), inputs, (made,), {**geometry, **more}, type_config=type_config)


@pytest.mark.parametrize("last", [False, True], ids=["channel first", "channel last"])
@pytest.mark.parametrize("type_config", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_convolutions_of_usual_sizes_have_plans(shape, type_config, last):
    for call in calls(*SHAPES[shape], type_config, last):
        for device in DEVICES:
            check(convolution, placed(call, device))
        check(convolution, placed(call, "0", deterministic=True, local_errors=True))


@pytest.mark.parametrize("last", [False, True], ids=["channel first", "channel last"])
@pytest.mark.parametrize("type_config", TYPES)
@pytest.mark.parametrize("text", ["maximum(y, 0)", "y + z", "maximum(y + z, 0)"])
def test_what_is_fused_has_plans(text, type_config, last):
    for shape in ("ResNet 3x3", "grouped", "video", "sequence"):
        call = next(calls(*SHAPES[shape], type_config, last))
        (y,) = call.outputs
        operands = (y, y) if "z" in text else (y,)
        program = Program(("y", "z")[: len(operands)], (), (("out", text),))
        spec = type("Formula", (), {"program": program, "float_names": (), "name": "Formula"})()
        behind = Call(spec, operands, (y,), {})
        for device in DEVICES:
            attached = call.attached({}, {0: behind}, (False,))
            made = Call(
                call.spec, call.inputs, call.outputs, call.attributes, device_id=device, type_config=type_config,
                wanted=(False,), after=attached.after,
            )  # fmt: skip
            check(convolution, made)


@pytest.mark.parametrize("type_config", TYPES)
def test_each_engine_that_a_search_would_measure_is_found_again(type_config):
    for call in calls(*SHAPES["ResNet 3x3"], type_config, last=False):
        call = placed(call, "0")
        wanted = launching._wanted(call, convolution.describe(call))
        here, graph = plans.properties(0), build(wanted.graph)
        offered = {plan.choice: plan for plan in plans._offered(wanted, graph, here)}
        assert offered
        for choice, plan in offered.items():
            offer = engines.chosen(graph, here.descriptor, choice)
            assert offer.choice == choice and offer.notes == plan.notes


def node(plain):
    """A descriptor that was written as JSON."""
    kind, attributes = plain
    made = []
    for name, type_, values in attributes:
        parts = tuple(node(value) if type_ == Type.DESCRIPTOR else value for value in values)
        made.append((Name(name), Type(type_), parts))
    return Node(Kind(kind), tuple(made))


def test_every_graph_that_the_kit_made_is_finalized():
    path = os.environ.get("CUDNN_GRAPHS")
    if not path:
        pytest.skip("CUDNN_GRAPHS names no file: make check-cudnn makes one")
    written = json.loads(Path(path).read_text("utf-8"))
    assert len(written) > 60
    for plain in written:
        graph = node(plain)
        is_float = f"[901, 1, [{DATA_TYPES['float32']}]]" in json.dumps(plain)
        for strict, device in itertools.product((False, True), (0, 1)):
            notes = {Note.DOWN_CONVERT_INPUTS, Note.REDUCED_PRECISION_REDUCTION}
            notes |= {Note.NONDETERMINISTIC, *launching._NOT_LOCAL} if strict else set()
            notes |= {Note.TENSOR_CORE} if strict and is_float and not _is_narrow(plain) else set()
            found = plans.find(Wanted(graph, (), device, frozenset(notes)))
            assert isinstance(found, Plan), (found, plain)


def _is_narrow(plain):
    """Whether it has arrays of a narrow dtype, beside which virtual ones of float32 stand."""
    return any(f"[901, 1, [{DATA_TYPES[name]}]]" in json.dumps(plain) for name in ("float16", "bfloat16"))
