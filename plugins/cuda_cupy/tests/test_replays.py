"""Programs against their steps one by one: random chains with gradients, and training."""

import contextlib
from random import Random

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled_cuda_cupy import cupy_names as cp

SHAPE = 3, 4, 10
OPERANDS = SHAPE, SHAPE, (3, 1, 10), (1, 4, 1), (3, 4, 1), (1, 1, 1)
ONE = ["tanh", "sigmoid", "sin", "cos", "relu", "swish", "elu", "selu", "abs", "atan", "asinh"]
TWO = ["add2", "sub2", "mul2", "maximum2", "minimum2"]
SCALAR = ["add_scalar", "mul_scalar", "maximum_scalar", "minimum_scalar", "r_sub_scalar"]


class Chain:
    """A chain drawn from a seed: what to do with which earlier value; as few jumps as random values can miss."""

    def __init__(self, seed):
        random = self._random = Random(seed)
        self.values = [
            np.random.default_rng(seed + n).standard_normal(OPERANDS[n]).astype(np.float32) for n in self._operands()
        ]
        self.steps = [self._step(len(self.values) + n) for n in range(random.randint(2, 9))]

    def _operands(self):
        return [0, *(self._random.randrange(len(OPERANDS)) for _ in range(self._random.randint(0, 2)))]

    def _step(self, known):
        random = self._random
        places = [random.randrange(known), max(random.randrange(known), random.randrange(known))]
        kind = random.random()
        if kind < 0.4:
            return random.choice(ONE), places[1:], None
        if kind < 0.8:
            return random.choice(TWO), places, None
        return random.choice(SCALAR), places[1:], round(random.uniform(-2, 2), 3)

    def build(self, context):
        """Its operands and its result, which depends on all steps."""
        with nn.context_scope(context):
            operands = [
                nn.Variable.from_numpy_array(value.copy(), need_grad=value.shape == SHAPE) for value in self.values
            ]
            known = list(operands)
            for name, places, scalar in self.steps:
                given = [known[place] for place in places]
                function = getattr(F, name)
                known.append(function(*given) if scalar is None else function(*given, scalar))
            result = known[len(operands)]
            for one in known[len(operands) + 1 :]:
                result = F.tanh(result) + one * 0.5
        return operands, result


def values_of(context, operands, y):
    """The result, and the gradients of the operands that are no smaller."""
    operands = [x for x in operands if x.need_grad]
    with nn.context_scope(context):
        for x in operands:
            x.g = 0
        y.forward()
        y.backward()
        return [y.d.copy(), *(x.g.copy() for x in operands)]


@pytest.mark.parametrize("seed", range(12))
def test_a_program_gives_what_its_steps_give_one_by_one(cuda, seed):
    """To the last bit: again and again, for other inputs, and on another stream."""
    chain = Chain(seed)
    results = []
    for surroundings in (contextlib.nullcontext, nn.trace):
        operands, y = chain.build(cuda)
        found = []
        with surroundings():
            for run in range(5):
                for x, value in zip(operands, chain.values, strict=True):
                    x.d = value * (1 + 0.1 * (run // 2))
                with cp.Stream(non_blocking=True) if run == 4 else contextlib.nullcontext():
                    found += values_of(cuda, operands, y)
        assert surroundings is nn.trace or "device program" in str(y.plan)
        results.append(found)
    for program, steps in zip(*results, strict=True):
        np.testing.assert_array_equal(program, steps)


@pytest.mark.parametrize("solver", ["Sgd", "Momentum", "Adam", "RMSprop", "Nesterov"])
def test_training_by_programs_gives_what_its_steps_give_one_by_one(cuda, solver):
    """To the last bit, also after the learning rate has changed."""
    results = []
    for surroundings in (contextlib.nullcontext, nn.trace):
        random = np.random.default_rng(7)
        with nn.context_scope(cuda), surroundings():
            x = nn.Variable.from_numpy_array(random.standard_normal((8, 5), np.float32))
            weights = [
                nn.Variable.from_numpy_array(random.standard_normal((8, 5), np.float32), need_grad=True)
                for _ in range(3)
            ]
            loss = F.tanh(x * weights[0] + weights[1]) * weights[2]
            made = getattr(S, solver)()
            made.set_parameters({str(n): weight for n, weight in enumerate(weights)})
            for step in range(8):
                x.d = random.standard_normal((8, 5), np.float32)
                if step == 5:
                    made.set_learning_rate(0.003)
                loss.forward()
                made.zero_grad()
                loss.backward()
                made.weight_decay(0.01)
                made.update()
            results.append([weight.d.copy() for weight in weights])
    for program, steps in zip(*results, strict=True):
        np.testing.assert_array_equal(program, steps)
