"""Calls on whole sequences: what is asked of their tensors, and that nothing is written where it is not given."""

import numpy as np
import pytest

from atled.neon.transforms import Logistic, Tanh

UNITS, BATCH, STEPS = 3, 2, 4
GATES = {"lstm": 4, "gru": 3}


def arguments(be, kind):
    """Tensors for `compound_lstm_unroll_fprop` or `compound_gru_unroll_fprop`, by name."""
    count, rng = GATES[kind], np.random.default_rng(2)
    shapes = {"W_recur": (count * UNITS, UNITS), "b": (count * UNITS, 1), "h_init": (UNITS, BATCH)}
    states = ["c", "c_act", "h"] if kind == "lstm" else ["reset_h", "h"]
    if kind == "lstm":
        shapes["c_init"] = (UNITS, BATCH)
    shapes["gates"] = (count * UNITS, STEPS * BATCH)
    shapes |= dict.fromkeys(states, (UNITS, STEPS * BATCH))
    return {name: be.array(rng.normal(size=shape)) for name, shape in shapes.items()}


def run(be, kind, given, **keywords):
    call = getattr(be, f"compound_{kind}_unroll_fprop")
    call(*given.values(), Tanh(), Logistic(), **keywords)


@pytest.mark.parametrize("kind", GATES)
def test_a_reversed_sequence_has_its_last_step_first(be, kind):
    forward, turned = arguments(be, kind), arguments(be, kind)
    columns = np.arange(STEPS * BATCH).reshape(STEPS, BATCH)[::-1].ravel()
    turned["gates"][:] = turned["gates"].get()[:, columns]
    run(be, kind, forward)
    run(be, kind, turned, reverse=True)
    np.testing.assert_allclose(turned["h"].get()[:, columns], forward["h"].get(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(turned["gates"].get()[:, columns], forward["gates"].get(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("wrong", ["W_recur", "b", "gates", "h"])
def test_other_shapes_are_refused_with_nothing_written(cpu, kind, wrong):
    given = arguments(cpu, kind)
    before = given["gates"].get()
    part = given | {wrong: given[wrong][:2]}
    with pytest.raises(ValueError, match=f"{wrong} has shape"):
        run(cpu, kind, part)
    np.testing.assert_array_equal(given["gates"].get(), before)


@pytest.mark.parametrize("kind", GATES)
def test_columns_that_are_no_steps_and_other_dtypes_are_refused(cpu, kind):
    given = arguments(cpu, kind)
    with pytest.raises(ValueError, match="7 columns are not steps of a batch of 2"):
        run(cpu, kind, given | {"gates": given["gates"][:, 1:]})
    with pytest.raises(TypeError, match="dtypes"):
        run(cpu, kind, given | {"h": cpu.zeros(given["h"].shape, dtype=np.float64)})
    with pytest.raises(TypeError, match="h_init"):
        run(cpu, kind, given | {"h_init": None})


def test_activations_that_are_none_or_no_trees_are_refused(cpu):
    given = arguments(cpu, "gru").values()
    with pytest.raises(TypeError, match="it is no function"):
        cpu.compound_gru_unroll_fprop(*given, None, Logistic())
    with pytest.raises(ValueError, match="have it give an op-tree"):
        cpu.compound_gru_unroll_fprop(*given, Tanh(), lambda x: cpu.array(x.get()))
