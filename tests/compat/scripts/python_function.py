"""A function written in Python, and gradients as a graph: a network whose slope is held near one."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from nnabla.function import PythonFunction


class Softsign(PythonFunction):
    """y = x / (1 + |x|)"""

    @property
    def name(self):
        return "Softsign"

    def min_outputs(self):
        return 1

    def grad_depends_output_data(self, i, o):  # asked for by later versions
        return False

    def grad_depends_input_data(self, i, j):  # likewise
        return True

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        self.slope = 1 / (1 + np.abs(inputs[0].d))
        outputs[0].d = inputs[0].d * self.slope

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        if propagate_down[0]:
            gradient = outputs[0].g * self.slope**2
            inputs[0].g = inputs[0].g + gradient if accum[0] else gradient


def critic(x):
    h = F.tanh(PF.affine(x, 16, name="one"))
    return PF.affine(h, 1, name="two")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=150)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))
    np.random.seed(7)

    x = nn.Variable((2, 3), need_grad=True)
    x.d = [[-2, -1, 0], [0.5, 1, 3]]
    y = F.sum(Softsign()(x) * 2.0)
    y.forward()
    x.grad.zero()
    y.backward()
    np.testing.assert_allclose(y.d, 2 * (x.d / (1 + np.abs(x.d))).sum(), rtol=1e-5)
    np.testing.assert_allclose(x.g, 2 / (1 + np.abs(x.d)) ** 2, rtol=1e-5)

    points = nn.Variable((32, 2), need_grad=True)
    points.d = np.random.randn(32, 2)
    (slope,) = nn.grad([critic(points)], [points])
    norm = F.sum(slope**2, axis=1, keepdims=True) ** 0.5
    penalty = F.mean((norm - 1.0) ** 2)
    solver = S.Adam(0.01)
    solver.set_parameters(nn.get_parameters())
    values = []
    for _ in range(args.max_iter):
        penalty.forward()
        solver.zero_grad()
        penalty.backward()
        solver.update()
        values.append(float(penalty.d))
    assert values[-1] < 0.1 * values[0], (values[0], values[-1])
    print(f"done: penalty {values[0]:.4f} to {values[-1]:.4f}")


if __name__ == "__main__":
    main()
