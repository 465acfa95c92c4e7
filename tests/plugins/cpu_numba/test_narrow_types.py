"""Every function of the front end under type configs `half` and `bf16` on backend cpu, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.conformance.cases import samples_of
from atled.ops.elementwise import ProgramOp
from atled.ops.samples import Away, Normal, Sample
from atled.ops.spec import FUNCTIONS, OpSpec
from atled.type_configs import compute_dtype

EXACT = nn.Context(["reference:double"], fallback="raise")

# Functions made of others have no spec and so no samples.
COMPOSITES = {
    "gru": Sample((3, 2, 4), (1, 1, 2, 5), (1, 3, 5, 9), None, (1, 1, 4, 5)),
    "lstm": Sample((3, 2, 4), (1, 1, 2, 5), (1, 1, 2, 5), (1, 4, 5, 9), None, (1, 1, 4, 5)),
    "rnn": Sample((3, 2, 4), (1, 1, 2, 5), (1, 5, 9), None, (1, 1, 5)),
    "clip_by_norm": Sample((3, 4), clip_norm=1.5),
    "clip_by_value": Sample(Away((3, 4), -0.5, 0.5), min=-0.5, max=0.5),
    "reduce": Sample((3, 4), op="mean"),
    "vat_noise": Sample((3, 4), Normal((3, 4))).no_gradient(),
}


def sample_of(name):
    """The first call with elements, of those with a gradient where there is one."""
    if name in COMPOSITES:
        return COMPOSITES[name]
    spec = FUNCTIONS[name]
    fitting = [sample for sample in samples_of(spec) if all(a is None or a.size for a in sample.draw())]
    if isinstance(spec, ProgramOp):
        # Op specs broadcast as NumPy does; functions want equal counts of axes.
        fitting = [sample for sample in fitting if len({a.ndim for a in sample.draw() if a is not None}) <= 1]
    return next((sample for sample in fitting if sample.differentiable), fitting[0])


def flows_to(name, position, array):
    spec = FUNCTIONS.get(name)
    if array.dtype.kind != "f" or (spec is not None and spec.no_gradient):
        return False
    return spec is None or spec.input_at(position).gradient == "flows"


def compute(name, sample, context, dtype):
    """Values and gradients in one Context, on inputs that the dtype holds exactly."""
    arrays = [None if a is None else a.astype(dtype) if a.dtype.kind == "f" else a for a in sample.draw(3)]
    with nn.context_scope(context):
        inputs = []
        for position, array in enumerate(arrays):
            flows = array is not None and flows_to(name, position, array)
            inputs.append(None if array is None else nn.Variable.from_numpy_array(array, need_grad=flows))
        spec = FUNCTIONS.get(name)
        if spec is not None and spec.states:
            del inputs[-len(spec.states) :]  # the function makes them
        known = {attribute.name: attribute.argument for attribute in spec.attributes} if spec else {}
        hidden = {attribute.name for attribute in spec.attributes if attribute.hidden} if spec else set()
        arguments = {known.get(k, k): v for k, v in sample.attributes.items() if k not in hidden}
        if spec is not None and spec.random:
            arguments["seed"] = 7
        made = getattr(F, name)(*inputs, **arguments)
        outputs = made if isinstance(made, (tuple, list)) else (made,)
        for output in outputs:
            output.persistent = True
        y = outputs[0] if len(outputs) == 1 else F.concatenate(*(F.reshape(o, (o.size,)) for o in outputs), axis=0)
        y.forward()
        values = [np.array(output.d, np.float64) for output in outputs]
        leaves = [x for x in inputs if x is not None and x.need_grad]
        for leaf in leaves:
            leaf.grad.zero()
        if leaves:
            y.backward()
        return values, [np.array(leaf.g, np.float64) for leaf in leaves]


@pytest.mark.parametrize("type_config", ["half", "bf16"])
@pytest.mark.parametrize("name", dir(F))
def test_function_and_gradient(name, type_config):
    dtype = compute_dtype(type_config)
    sample = sample_of(name)
    with nn.trace() as trace:
        values, gradients = compute(name, sample, nn.Context([f"cpu:{type_config}"], fallback="raise"), dtype)
    assert {row.backend for row in trace.rows()} <= {"cpu", ""}, "ran elsewhere"
    expected, expected_gradients = compute(name, sample, EXACT, dtype)
    spec = FUNCTIONS.get(name)
    tolerance = OpSpec.tolerance[dtype.name] if spec is None else spec.allowed_error(type_config)
    for found, wanted in zip([*values, *gradients], [*expected, *expected_gradients], strict=True):
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)
