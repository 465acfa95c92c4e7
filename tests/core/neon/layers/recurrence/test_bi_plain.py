"""BiRNN: values, gradients, views of W, the padded buffer, halves of inputs, states over calls, saved weights."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import (
    BATCH,
    ROWS,
    STEPS,
    UNITS,
    Draws,
    backwards,
    check_gradients,
    cut,
    made,
    normal,
    plain,
    ready,
)

from atled.neon.layers.recurrent import BiRNN
from atled.neon.transforms import Tanh

_ZEROS = np.zeros((UNITS, BATCH))


def expected(layer, x, h=_ZEROS, g=_ZEROS, lower=None):
    """Outputs of both directions.  h, g: from which they start.  lower: inputs of the backward one, if others."""
    forward = plain(x, layer.W_input_f.get(), layer.W_recur_f.get(), layer.b_f.get(), h)
    weights = layer.W_input_b.get(), layer.W_recur_b.get(), layer.b_b.get()
    return np.vstack([forward, backwards(plain, x if lower is None else lower, *weights, g)])


def test_both_directions_lie_one_above_the_other(be):
    layer, x = made(BiRNN), normal(ROWS, STEPS * BATCH)
    layer.b_f[:], layer.b_b[:] = 0.25, -0.5
    y = layer.fprop(be.array(x))
    assert y is layer.outputs
    np.testing.assert_allclose(y.get(), expected(layer, x), rtol=0, atol=1e-6)


def test_outputs_are_the_inner_part_of_the_padded_buffer(cpu):
    layer = made(BiRNN)
    layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH)))
    assert layer.h_buffer.shape == (2 * UNITS, (STEPS + 2) * BATCH)
    np.testing.assert_array_equal(layer.h_buffer.get()[:, BATCH:-BATCH], layer.outputs.get())


def test_parts_of_w_are_views_read_row_by_row(be):
    layer = made(BiRNN)
    assert layer.W.shape == layer.dW.shape == (2 * (ROWS + UNITS + 1), UNITS)
    assert layer.W_input is None
    for of, prefix in ((layer.W, ""), (layer.dW, "d")):
        of[:] = np.arange(of.size).reshape(of.shape)
        flat, begin = of.get().ravel(), 0
        shapes = {"W_input": (UNITS, ROWS), "W_recur": (UNITS, UNITS), "b": (UNITS, 1)}
        for name, shape in shapes.items():
            for way in "fb":
                part = getattr(layer, f"{prefix}{name}_{way}").get()
                end = begin + part.size
                np.testing.assert_array_equal(part, flat[begin:end].reshape(shape), f"{prefix}{name}_{way}")
                begin = end
        assert begin == of.size


def test_initializers_fill_inputs_and_states_apart_and_biases_are_zero(cpu):
    class Sevens:
        def fill(self, param):
            param[:] = 7

    layer = made(BiRNN, init_inner=Sevens())
    assert (layer.W_recur_f.get() == 7).all()
    assert (layer.W_recur_b.get() == 7).all()
    assert (layer.W_input_f.get() != 7).all()
    assert not layer.b_f.get().any()
    assert not layer.b_b.get().any()


def test_first_values_may_be_an_array(be):
    values = normal(2 * (ROWS + UNITS + 1), UNITS)
    layer = ready(BiRNN(UNITS, values, activation=Tanh()))
    np.testing.assert_allclose(layer.W.get(), values, rtol=1e-6)
    with pytest.raises(ValueError, match=r"(?s)weights of BiRNN.*init has shape \[3, 3\]"):
        ready(BiRNN(UNITS, np.ones((3, 3)), activation=Tanh()))
    with pytest.raises(ValueError, match="it has no initializer"):
        ready(BiRNN(UNITS, None, activation=Tanh()))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_gradients_are_those_of_finite_differences(double, steps):
    layer = made(BiRNN, steps=steps)
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, steps=steps)


def test_gradients_on_each_backend(be):
    layer = made(BiRNN)
    x, error = (be.array(normal(*shape)) for shape in ((ROWS, STEPS * BATCH), (2 * UNITS, STEPS * BATCH)))
    y = layer.fprop(x).get()
    deltas = layer.bprop(error).get()
    # The error holds by now that before the activation.
    pre = error.get()
    np.testing.assert_allclose(layer.dW_input_b.get(), pre[UNITS:] @ x.get().T, rtol=0, atol=1e-5)
    np.testing.assert_allclose(layer.db_f.get(), pre[:UNITS].sum(axis=1, keepdims=True), rtol=0, atol=1e-5)
    inner = pre[:UNITS, BATCH:] @ y[:UNITS, :-BATCH].T, pre[UNITS:, :-BATCH] @ y[UNITS:, BATCH:].T
    np.testing.assert_allclose(layer.dW_recur_f.get(), inner[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(layer.dW_recur_b.get(), inner[1], rtol=0, atol=1e-5)
    both = layer.W_input_f.get().T @ pre[:UNITS] + layer.W_input_b.get().T @ pre[UNITS:]
    np.testing.assert_allclose(deltas, both, rtol=0, atol=1e-5)
    last = (1 - y[:UNITS, -BATCH:] ** 2) * normal(2 * UNITS, STEPS * BATCH)[:UNITS, -BATCH:]
    np.testing.assert_allclose(pre[:UNITS, -BATCH:], last, rtol=0, atol=1e-5)


def test_the_state_from_which_it_starts_has_no_part_in_gradients(cpu):
    layer, error = made(BiRNN, steps=1), cpu.array(normal(2 * UNITS, BATCH))
    for _ in range(2):
        layer.fprop(cpu.array(normal(ROWS, BATCH)))
    layer.bprop(error)
    assert not layer.dW_recur_f.get().any()
    assert not layer.dW_recur_b.get().any()


def test_alpha_scales_deltas_and_beta_adds_to_them_where_it_is_given(cpu):
    layer, error = made(BiRNN), normal(2 * UNITS, STEPS * BATCH)
    layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH)))
    once = layer.bprop(cpu.array(error)).get()
    np.testing.assert_allclose(layer.bprop(cpu.array(error), alpha=2.0).get(), 2 * once, rtol=1e-5)
    np.testing.assert_allclose(layer.bprop(cpu.array(error), 1.0, 1.0).get(), 3 * once, rtol=1e-5)


def test_halves_of_the_inputs_go_to_a_direction_each(be):
    layer, x = made(BiRNN, rows=2 * ROWS, split_inputs=True), normal(2 * ROWS, STEPS * BATCH)
    y = layer.fprop(be.array(x)).get()
    np.testing.assert_allclose(y, expected(layer, x[:ROWS], lower=x[ROWS:]), rtol=0, atol=1e-6)


def test_gradients_with_halves_of_the_inputs(double):
    layer = made(BiRNN, rows=2 * ROWS, split_inputs=True)
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, rows=2 * ROWS)


def test_odd_rows_have_no_halves(cpu):
    with pytest.raises(ValueError, match=r"(?s)BiRNN 'ends'.*split_inputs halves the 3 rows"):
        BiRNN(UNITS, Draws(), activation=Tanh(), split_inputs=True, name="ends").configure((3, STEPS))


def test_states_go_on_whatever_tensor_comes(be):
    layer, x = made(BiRNN), normal(ROWS, STEPS * BATCH)
    first = layer.fprop(be.array(x)).get()
    second = layer.fprop(be.array(x)).get()
    kept = expected(layer, x, first[:UNITS, -BATCH:], first[UNITS:, :BATCH])
    np.testing.assert_allclose(second, kept, rtol=0, atol=1e-6)


@pytest.mark.parametrize("ended_by", ["reset_cells", "reset_state", "shape"])
def test_states_end(cpu, ended_by):
    layer, x = made(BiRNN, reset_cells=ended_by == "reset_cells"), normal(ROWS, STEPS * BATCH)
    first = layer.fprop(cpu.array(x)).get()
    if ended_by == "reset_state":
        layer.reset_state()
    given = x.reshape(ROWS * STEPS, BATCH) if ended_by == "shape" else x
    np.testing.assert_array_equal(layer.fprop(cpu.array(given)).get(), first)


def test_other_sizes_make_other_memory_and_no_other_weights(cpu):
    layer = made(BiRNN)
    layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH)))
    weights, longer = layer.W, normal(ROWS, (STEPS + 2) * BATCH)
    ready(layer, steps=STEPS + 2)
    assert layer.W is weights
    np.testing.assert_allclose(layer.fprop(cpu.array(longer)).get(), expected(layer, longer), rtol=0, atol=1e-6)


def test_shorter_sequences_are_as_if_there_were_no_more_steps(cpu):
    layer, x, error = made(BiRNN), normal(ROWS, STEPS * BATCH), normal(2 * UNITS, STEPS * BATCH)
    layer.set_seq_len(2)
    y = layer.fprop(cpu.array(x)).get()[:, : 2 * BATCH]
    np.testing.assert_allclose(y, expected(layer, x[:, : 2 * BATCH]), rtol=0, atol=1e-6)
    layer.bprop(cpu.array(error))
    short = made(BiRNN, steps=2)
    short.fprop(cpu.array(x[:, : 2 * BATCH]))
    short.bprop(cpu.array(error[:, : 2 * BATCH]))
    np.testing.assert_allclose(layer.dW.get(), short.dW.get(), rtol=1e-5, atol=1e-6)


def test_outputs_may_be_memory_of_another(cpu):
    shared, x = cpu.zeros((3 * UNITS, STEPS * BATCH)), normal(ROWS, STEPS * BATCH)
    layer = ready(BiRNN(UNITS, Draws(), activation=Tanh()), shared_outputs=shared[: 2 * UNITS])
    layer.fprop(cpu.array(x))
    np.testing.assert_allclose(shared.get()[: 2 * UNITS], expected(layer, x), rtol=0, atol=1e-6)


def test_gradients_add_up(be):
    layer = ready(BiRNN(UNITS, Draws(), activation=Tanh()), accumulate_updates=True)
    layer.fprop(be.array(normal(ROWS, STEPS * BATCH)))
    layer.bprop(be.array(normal(2 * UNITS, STEPS * BATCH)))
    once = layer.dW.get()
    layer.set_acc_on(True)
    layer.bprop(be.array(normal(2 * UNITS, STEPS * BATCH)))
    np.testing.assert_allclose(layer.dW.get(), 2 * once, rtol=1e-5)


def test_saved_weights_make_the_same_layer(be):
    layer, x = made(BiRNN, reset_cells=True, name="pair"), be.array(normal(ROWS, STEPS * BATCH))
    layer.states = [be.ones(layer.W.shape)]
    described = layer.get_description(get_weights=True)
    assert described["type"] == "atled.neon.layers.recurrence.bi_plain.BiRNN"
    assert described["config"]["output_size"] == UNITS
    assert set(described["params"]) == {"W"}
    config = {**described["config"], "init": Draws(), "activation": Tanh()}
    other = BiRNN.gen_class(config)
    other.load_weights(described)
    np.testing.assert_array_equal(ready(other).fprop(x).get(), layer.fprop(x).get())
    assert (other.states[0].get() == 1).all()
    assert other.name == "pair"


def test_what_is_asked_for_too_early_is_refused(cpu):
    layer, x = BiRNN(UNITS, Draws(), activation=Tanh(), name="early"), cpu.array(normal(ROWS, STEPS * BATCH))
    with pytest.raises(RuntimeError, match=r"early.*not configured"):
        layer.allocate()
    layer.configure((ROWS, STEPS))
    with pytest.raises(RuntimeError, match=r"early.*no memory yet"):
        layer.fprop(x)
    layer.allocate()
    with pytest.raises(RuntimeError, match=r"early.*no fprop"):
        layer.bprop(cpu.array(normal(2 * UNITS, STEPS * BATCH)))


def test_what_does_not_fit_is_refused_with_nothing_written(cpu):
    layer, x = made(BiRNN, name="fit"), cpu.array(normal(ROWS, STEPS * BATCH))
    before = layer.fprop(x).get()
    with pytest.raises(ValueError, match=r"(?s)fit.*inputs have shape \[2, 12\]"):
        layer.fprop(x[:, BATCH:])
    with pytest.raises(TypeError, match=r"fit.*inputs"):
        layer.fprop(None)
    with pytest.raises(ValueError, match=r"(?s)fit.*errors have shape"):
        layer.bprop(x)
    np.testing.assert_array_equal(layer.outputs.get(), before)
    with pytest.raises(TypeError, match=r"(?s)fit.*inputs are float64, the weights float32"):
        layer.fprop(cpu.zeros(x.shape, dtype=np.float64))
    with pytest.raises(ValueError, match="it has no activation"):
        BiRNN(UNITS, Draws()).configure((ROWS, STEPS))


def test_a_call_that_fails_leaves_the_state(cpu):
    class Broken(Tanh):
        is_broken = False

        def __call__(self, x):
            if self.is_broken:
                raise OSError("broken")
            return super().__call__(x)

    layer, x = ready(BiRNN(UNITS, Draws(), activation=Broken())), cpu.array(normal(ROWS, STEPS * BATCH))
    calls = [layer.fprop(x).get() for _ in range(3)]
    layer.reset_state()
    layer.fprop(x)
    layer.activation.is_broken = True
    with pytest.raises(OSError, match="broken"):
        layer.fprop(x)
    layer.activation.is_broken = False
    np.testing.assert_array_equal(layer.fprop(x).get(), calls[1])
    np.testing.assert_array_equal(layer.fprop(x).get(), calls[2])


def test_inputs_of_which_no_view_is_in_order_are_read_anew(cpu):
    layer, wide = made(BiRNN, reset_cells=True), cpu.zeros((ROWS * STEPS, BATCH + 1))
    given = wide[:, :BATCH]
    for seed in (1, 2):
        x = normal(ROWS * STEPS, BATCH, seed=seed)
        given[:] = x
        with pytest.warns(UserWarning, match="it is a copy"):
            y = layer.fprop(given).get()
        np.testing.assert_allclose(y, expected(layer, x.reshape(ROWS, -1)), rtol=0, atol=1e-6)


def test_an_activation_that_computes_by_itself_runs_step_by_step(cpu):
    class Slow(Tanh):
        def __call__(self, x):
            x[:] = self.be.tanh(x)
            return x

    x = normal(ROWS, STEPS * BATCH)
    layer = ready(BiRNN(UNITS, Draws(), activation=Slow()))
    np.testing.assert_allclose(layer.fprop(cpu.array(x)).get(), expected(layer, x), rtol=0, atol=1e-6)


def test_each_direction_is_one_loop(cpu):
    layer = made(BiRNN)
    before, forward, *_ = layer._steps()
    about = (layer.W_recur_f, before, forward, forward, layer.b_f, UNITS, STEPS, None, layer.activation)
    told = str(cpu.plan(cpu.compound_rnn_unroll_fprop, *about))
    assert told.count("Loop") == 1
    assert len(cut(layer.outputs.get())) == STEPS
