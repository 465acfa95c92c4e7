"""A device that compiles formulas: fewer launches, the same numbers."""

import os
import sys

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim

sys.path.append(os.path.dirname(__file__))  # for network: pytest's importlib mode leaves this folder off the path

from network import Training, assert_same_bits

pytest_plugins = "pytester"


@pytest.fixture
def compiling():
    with atled_sim.compile_formulas():
        yield


def test_outside_of_the_block_nothing_is_compiled(device, sim):
    with atled_sim.compile_formulas():
        pass
    training = Training(sim)
    training.step()
    device.reset_counts()
    with nn.context_scope(sim):
        training.solver.update()
    assert device.counts.launches == len(nn.get_parameters())


@pytest.mark.parametrize("type_config", ["float", "double"])
def test_training_gives_the_numbers_of_the_reference(type_config, compiling):
    wanted = Training(nn.Context([f"reference:{type_config}"])).run(5)
    found = Training(nn.get_extension_context("sim", type_config=type_config, fallback="raise")).run(5)
    assert_same_bits(found, wanted)


def test_all_updates_are_one_launch(device, sim, compiling):
    training = Training(sim)
    training.step()
    device.reset_counts()
    with nn.context_scope(sim):
        training.solver.update()
    assert device.counts.launches == 1


def test_a_group_that_fails_moves_nothing(sim, compiling):
    with nn.context_scope(sim):
        parameters = {str(n): nn.Variable((n + 1,), need_grad=True) for n in range(4)}
        for parameter in parameters.values():
            parameter.d, parameter.g = 1, 1
        solver = S.Sgd(0.5)
        solver.set_parameters(parameters)
        with atled_sim.faults.fail("launch"), pytest.raises(atled_sim.SimFault, match=r"SgdUpdate.* and SgdUpdate"):
            solver.update()
        assert all((parameter.d == 1).all() for parameter in parameters.values())
        solver.update()
    for parameter in parameters.values():
        np.testing.assert_array_equal(parameter.d, np.full(parameter.shape, 0.5))


def test_an_activation_and_a_residual_take_no_launch(device, sim, compiling):
    with nn.context_scope(sim):
        x, w = nn.Variable((2, 3, 4, 4)), nn.Variable((3, 3, 3, 3))
        y = F.relu(F.convolution(x, w, pad=(1, 1)) + x)
        y.forward()
        device.reset_counts()
        y.forward()
    assert device.counts.launches == 1
    assert "Convolution+Add2+ReLU" in str(y.plan)


def test_the_kit_finds_nothing(pytester, compiling):
    off = [word for name in ("cacheprovider", "hypothesispytest") for word in ("-p", f"no:{name}")]
    ops = "Affine,BatchNormalization,Cast,Convolution,Identity,MaxPooling,MomentumUpdate,Sum,Tanh"
    what = ["--pyargs", "atled.conformance.test_formulas", "--atled-plugin", "sim", "--atled-ops", ops]
    result = pytester.runpytest_inprocess("-q", *off, "-p", "atled_pytest", *what)
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] > 50
