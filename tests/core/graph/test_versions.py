"""Arrays that change within a plan: whatever is planned, they change as if each call ran alone, one after the other."""

import importlib.util
import random

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.graph.backward import call_backward
from atled.graph.record.traversal import functions_before
from atled.graph.run.one_call import call_function

WIDE, NARROW = (4, 3), (1, 3)
UNARY = (F.tanh, F.sin, lambda x, **into: F.mul_scalar(x, -0.5, **into))
BINARY = (F.add2, F.mul2, F.sub2)
BACKENDS = ["fusing", "sim"] + ["cpu"] * bool(importlib.util.find_spec("atled_cpu_numba"))


class Program:
    """A graph that writes into arrays which others read: results given arrays, running statistics, views.

    One seed gives one program, so that it can be built several times.
    """

    def __init__(self, seed, gradients=False):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.leaves = [self.leaf(WIDE, gradients) for _ in range(3)]
        self.narrow = [self.leaf(NARROW, False) for _ in range(4)]
        self.scales = [self.leaf(NARROW, gradients) for _ in range(2)]
        if self.random.random() < 0.5:  # one array, two leaves
            self.leaves.append(nn.Variable(WIDE, need_grad=False))
            self.leaves[-1].data = self.leaves[0].data
        self.made = []
        for _ in range(self.random.randrange(3, 10)):
            way = self.random.choice((self.unary, self.binary, self.binary, self.view, self.normalized, self.scaled))
            self.made.append(way())
        self.random.shuffle(self.made)
        total = self.made[0]
        for y in self.made[1:]:
            total = total + y
        self.loss = F.sum(total * total)

    def leaf(self, shape, need_grad):
        return nn.Variable.from_numpy_array(self.numbers.uniform(0.5, 1.5, shape), need_grad=need_grad)

    def pick(self):
        return self.random.choice(self.leaves + self.made)

    def into(self):
        """Sometimes an array that other values are in."""
        return {} if self.random.random() < 0.6 else {"outputs": [self.pick().data]}

    def unary(self):
        return self.random.choice(UNARY)(self.pick(), **self.into())

    def binary(self):
        return self.random.choice(BINARY)(self.pick(), self.pick(), **self.into())

    def view(self):
        return F.reshape(F.mul_scalar(F.reshape(self.pick(), (2, 6)), 0.75), WIDE)

    def scaled(self):
        return self.pick() * F.tanh(self.random.choice(self.narrow))

    def normalized(self):
        mean, variance = self.random.sample(self.narrow, 2)
        return F.batch_normalization(self.pick(), *self.scales, mean, variance, decay_rate=0.5)

    @property
    def arrays(self):
        return [x.d.copy() for x in (*self.leaves, *self.narrow, *self.made, self.loss)]

    @property
    def gradients(self):
        return [x.g.copy() for x in (*self.leaves, *self.scales)]

    def forward_alone(self):
        for function in functions_before(self.loss.value):
            call_function(function, function.inputs, function.live_outputs())

    def backward_alone(self):
        """Backpropagate call by call: gradients in the middle start from zero, those of leaves are added to."""
        functions = functions_before(self.loss.value)
        for function in functions:
            for value in function.live_outputs():
                if value is not None:
                    value.need_grad = True  # a call on its own takes it for a leaf
                    value.grad.zero()
        self.loss.value.grad.fill(1)
        for function in reversed(functions):
            call_backward(function, function.inputs, function.live_outputs(), [True] * len(function.inputs))


def compare(found, expected):
    for got, want in zip(found, expected, strict=True):
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got / scale, want / scale, rtol=1e-6, atol=1e-9)


def check_forward(seed):
    planned, alone = Program(seed), Program(seed)
    for _ in range(2):
        planned.loss.forward()
        alone.forward_alone()
        compare(planned.arrays, alone.arrays)


def check_backward(seed):
    planned, alone = Program(seed, gradients=True), Program(seed, gradients=True)
    for program in (planned, alone):
        if seed % 3 == 0:
            program.leaves[1].grad = program.leaves[0].grad
        for leaf in (*program.leaves, *program.scales):
            leaf.grad.zero()
    planned.loss.forward()
    alone.forward_alone()
    for _ in range(3):
        planned.loss.backward()
        alone.backward_alone()
        compare(planned.gradients, alone.gradients)


def check_step(seed):
    planned, alone = Program(seed, gradients=True), Program(seed, gradients=True)
    solvers = [S.Momentum(lr=1e-3), S.Momentum(lr=1e-3)]
    for program, solver in zip((planned, alone), solvers, strict=True):
        solver.set_parameters({str(n): x for n, x in enumerate([*program.leaves[:3], *program.scales])})
    step = nn.compile_step(planned.loss, solvers[0], weight_decay=0.1)
    for _ in range(2):
        step()
        alone.forward_alone()
        solvers[1].zero_grad()
        alone.backward_alone()
        solvers[1].weight_decay(0.1)
        solvers[1].update()
        compare([x.d for x in (*planned.leaves, *planned.narrow)], [x.d for x in (*alone.leaves, *alone.narrow)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("check", "count"), [(check_forward, 8), (check_backward, 3), (check_step, 3)])
def test_a_plan_changes_arrays_as_the_calls_do_one_by_one(check, count, backend):
    with nn.context_scope(nn.Context([f"{backend}:double"])):
        for seed in range(count):
            try:
                check(seed)
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise


def test_a_plan_of_the_same_kernels_gives_the_same_bits():
    with nn.context_scope(nn.Context(["reference:double"])):
        for seed in range(8):
            planned, alone = Program(seed), Program(seed)
            planned.loss.forward()
            alone.forward_alone()
            for got, want in zip(planned.arrays, alone.arrays, strict=True):
                np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
