"""Segments of plans on the cpu: native programs, cut by steps that are Python."""

import numpy as np

import atled as nn
import atled.functions as F
from atled.function import PythonFunction
from atled.graph.compile.step import Step


class Doubled(PythonFunction):
    @property
    def name(self):
        return "Doubled"

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        outputs[0].d = 2 * inputs[0].d

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        inputs[0].g = 2 * outputs[0].g + (inputs[0].g if accum[0] else 0)


def backward_plan():
    x, first, last = (nn.Variable.from_numpy_array(np.ones((2, 2), np.float32), need_grad=True) for _ in range(3))
    x.need_grad = False
    with nn.context_scope(nn.Context(["cpu:float"])):
        y = F.sum(F.affine(Doubled()(F.affine(x, first)), last))
    y.forward()
    y.backward()
    np.testing.assert_array_equal(first.g, np.full((2, 2), 8))
    (binding,) = y.value.roots.backward.bindings.values()
    gradients = [id(first.grad.cell), id(last.grad.cell)]
    return binding.plan, [gradients.index(id(cell)) for cell in binding.gradients]


def test_python_steps_cut_a_plan_into_segments():
    plan, _ = backward_plan()
    assert [segment.is_native for segment in plan.segments] == [True, False, True]
    text = str(plan)
    for segment in plan.segments:
        assert segment.text in text


def test_a_plan_says_behind_which_segment_a_gradient_is_complete():
    plan, order = backward_plan()
    completed = dict(zip(order, plan.completed, strict=False))
    assert completed[0] == 2  # of the layer before the function: behind everything
    (number,) = [n for n, step in enumerate(plan.steps) if plan.targets[order.index(1)] in step.written]
    (segment,) = [n for n, segment in enumerate(plan.segments) if plan.steps[number] in segment.steps]
    assert completed[1] == segment


def test_where_carriers_stand_is_found_without_a_search(monkeypatch):
    x = nn.Variable.from_numpy_array(np.ones((2, 2), np.float32), need_grad=True)
    with nn.context_scope(nn.Context(["cpu:float"])):
        y = x
        for _ in range(20):
            y = F.tanh(F.affine(y, x))
    y.forward()
    assert sum(step.carrier is not None for step in y.plan.steps) == 20
    compared = []
    monkeypatch.setattr(Step, "__eq__", lambda step, other: compared.append(step) or step is other)
    assert set(y.plan.completed) == {0}
    assert not compared
