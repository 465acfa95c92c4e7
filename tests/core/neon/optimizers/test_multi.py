"""MultiOptimizer: each layer has its optimizer, and a step is whole or none."""

import numpy as np
import pytest

from atled.neon.optimizers import Adam, GradientDescentMomentum, MultiOptimizer, Optimizer

from .conftest import Bare, Parameters


def three(be):
    made = [Parameters(be, [np.ones((2, 3))], "first"), Bare(be, [np.ones((2, 3))], "second")]
    made.append(Bare(be, [np.ones((2, 3))], "third"))
    for layer in made:
        layer.pairs[0][1][:] = be.bsz
    return made


class Halving(Optimizer):
    """An optimizer of a program."""

    def optimize(self, layer_list, epoch):
        for layer in layer_list:
            (p, _), _ = layer.get_params()
            p[:] = p / 2


def rates(layers):
    return [1 - layer.values()[0][0, 0] for layer in layers]


def test_layers_are_told_by_name_then_by_class(be):
    layers = three(be)
    mapping = {"default": 0.25, "Bare": 0.5, "third": 0.75}
    optimizer = MultiOptimizer({name: GradientDescentMomentum(rate, 0) for name, rate in mapping.items()})
    optimizer.optimize(layers, 0)
    assert rates(layers) == [0.25, 0.5, 0.75]
    optimizer.optimize(layers, 1)
    assert rates(layers) == [0.5, 1.0, 1.5]
    assert [each for one in optimizer.map_list.values() for each in one] == layers


def test_optimizers_of_programs_are_called(be):
    layers = three(be)
    MultiOptimizer({"default": GradientDescentMomentum(0.25, 0), "Bare": Halving()}).optimize(layers, 0)
    assert rates(layers) == [0.25, 0.5, 0.5]


def test_a_step_that_fails_changes_no_layer(cpu):
    layers = three(cpu)
    layers[2].pairs = [(layers[2].pairs[0][0], cpu.ones((3, 2)))]
    first, second = Adam(), Adam()
    optimizer = MultiOptimizer({"default": first, "Bare": second})
    with pytest.raises(ValueError, match=r"(?s)layer 'third'.*its gradient has shape \[3, 2\]"):
        optimizer.optimize(layers, 0)
    assert rates(layers) == [0, 0, 0]
    assert (first.t, second.t) == (0, 0)


def test_descriptions_make_the_same_optimizer_again():
    described = MultiOptimizer({"default": Adam(0.5), "Bare": GradientDescentMomentum(0.25, 0.5)}).get_description()
    again = MultiOptimizer.gen_class(described["config"])
    assert again.get_description() == described
    assert again.optimizer_mapping["Bare"].momentum_coef == 0.5


def test_wrong_mappings_and_layers_are_refused(cpu):
    with pytest.raises(ValueError, match="there is no 'default'"):
        MultiOptimizer({"Bare": Adam()})
    with pytest.raises(TypeError, match=r"(?s)'Bare': 0.1.*it has no optimize"):
        MultiOptimizer({"default": Adam(), "Bare": 0.1})
    with pytest.raises(TypeError, match="str has no get_params"):
        MultiOptimizer({"default": Adam()}).optimize(["layer"], 0)
