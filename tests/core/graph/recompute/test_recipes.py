"""Values that a plan does not store: to the user they are there all the same, or an error says why not."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S


@pytest.fixture(autouse=True, params=["reference", "fusing"])
def _context(request):
    with nn.context_scope(nn.Context([f"{request.param}:float"], fallback="raise")):
        yield


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def chain(x):
    """y = tanh(3 x + 1): nobody holds what is in the middle."""
    return F.tanh(x * 3 + 1)


def middle_of(y):
    return y.parent.inputs[0]


def stored_count(y):
    return len(y.plan.targets)


def test_only_the_result_is_stored_where_nobody_looks_at_the_middle():
    y = chain(leaf([0.5, 1]))
    assert stored_count(y) == 1


def test_a_held_handle_a_view_of_it_and_a_persistent_value_are_stored():
    x = leaf([0.5, 1])
    held = x * 3
    y = F.tanh(held + 1)
    assert stored_count(y) == 2
    view = F.reshape(F.exp(x), (2, 1))
    y = F.tanh(F.reshape(view, (2,)) * 2)
    assert stored_count(y) == 2
    y = chain(x)
    middle_of(y).persistent = True
    assert stored_count(y) == 2


def test_an_array_that_was_handed_out_is_written_by_every_forward():
    x = leaf([0.5, 1])
    y = chain(x)
    array = middle_of(y).data
    for value in (0.5, 2):
        x.d = value
        y.forward()
        assert_allclose(array.data, [3 * value + 1] * 2)


def test_what_backward_reads_is_stored_and_the_rest_is_not():
    x = leaf([0.5, 1], True)
    y = F.sum(F.tanh(x * 3 + 1) * 2)
    assert stored_count(y) == 2  # the sum, and tanh, of which the gradient is made
    y.forward()
    y.backward()
    assert_allclose(x.g, 6 * (1 - np.tanh(3 * x.d + 1) ** 2), rtol=1e-5)


def test_a_value_that_was_looked_at_is_stored_from_then_on():
    x = leaf([0.5, 1])
    y = chain(x)
    y.forward()
    assert_allclose(middle_of(y).d, [2.5, 4])
    assert stored_count(y) == 2
    x.d = 2
    y.forward()
    x.d = 3
    assert_allclose(middle_of(y).d, [7, 7])


def test_a_long_chain_of_lost_values_is_recovered():
    h = x = leaf([0.5])
    for _ in range(3000):
        h = h * 1.0001
    h.forward()
    assert_allclose(middle_of(h).d, x.d * 1.0001**2999, rtol=1e-3)


def test_what_a_repeatable_op_makes_is_lost_too_and_recovered():
    x, w = leaf([[1, 2], [3, 4]]), leaf([[0, 1], [1, 0]])
    y = F.transpose(F.affine(x, w), (1, 0))
    assert stored_count(y) == 1
    y.forward()
    assert_array_equal(middle_of(y).d, [[2, 1], [4, 3]])


def test_inference_reuses_the_memory_of_what_it_has_read():
    h = leaf(np.ones((8, 6)))
    for _ in range(20):
        h = F.transpose(h, (1, 0))
    inside = {slot.memory for slot in h.plan.slots if slot.source[0] == "internal"}
    assert len(inside) == 2


def test_results_of_one_of_several_outputs_stay_as_they_are():
    first, second = F.split(leaf([[1, 2], [3, 4]]), axis=0)
    y = F.tanh(first + second)
    del second
    assert stored_count(y) == 3


def test_a_value_seen_through_a_view_is_recovered():
    y = F.tanh(F.reshape(leaf([[1, 2]]) * 3, (2,)))
    y.forward()
    shown = middle_of(y)
    assert_array_equal(shown.d, [3, 6])
    assert_array_equal(middle_of(shown).d, [[3, 6]])


def test_a_value_in_the_middle_that_rewiring_made_a_leaf_keeps_what_was_computed():
    x, other = leaf([0.5, 1]), leaf([1, 2])
    y = chain(x)
    y.forward()
    middle = middle_of(y)
    other.rewire_on(middle)
    twice = middle * 2
    twice.forward()
    assert_array_equal(twice.d, [5, 8])


def test_a_value_in_the_middle_is_gone_with_what_took_its_place():
    x, other = leaf([0.5, 1]), leaf([1, 2])
    y = chain(x)
    y.forward()
    middle = middle_of(y)
    other.rewire_on(middle)
    del other
    with pytest.raises(RuntimeError, match="the function that makes it is gone"):
        middle.d  # noqa: B018  # computes the values


def writes():
    def through_a_view(x, y):
        x.d[...] = 7

    def by_another_array(x, y):
        x.data = nn.NdArray.from_numpy_array(np.full(2, 7, np.float32))

    def by_rewiring(x, y):
        x.rewire_on(leaf([3, 4]) + 1)

    return [
        lambda x, y: setattr(x, "d", 7),
        lambda x, y: x.data.fill(7),
        lambda x, y: x.data.zero(),
        lambda x, y: x.data.copy_from(nn.NdArray((2,))),
        through_a_view,
        by_another_array,
        by_rewiring,
        lambda x, y: F.add_scalar(x.data, 1, outputs=[x.data]),
        lambda x, y: x.reset_shape((5,), force=True) or x.data.fill(1),
        lambda x, y: x.reset_shape((2, 1)),
    ]


@pytest.mark.parametrize("write", writes())
def test_a_value_whose_input_was_written_since_is_not_computed_from_the_new_one(write):
    x = leaf([0.5, 1])
    y = chain(x)
    y.forward()
    write(x, y)
    late = middle_of(y)
    with pytest.raises(RuntimeError, match=r"(?s)written since.*compute the graph again"):
        late.d  # noqa: B018  # reading is the point
    y.forward()
    x.d = 11
    assert late.d.any()


def test_a_view_through_which_an_input_may_change_unseen_is_an_error():
    x = leaf([0.5, 1])
    y = chain(x)
    view = x.d
    y.forward()
    view[...] = 5
    with pytest.raises(RuntimeError, match="a view of one was held"):
        middle_of(y).d  # noqa: B018


def test_a_view_that_is_gone_may_have_changed_an_input_unseen():
    x = leaf([0.5, 1])
    y = chain(x)
    view = x.d
    y.forward()
    view[...] = 5
    del view
    with pytest.raises(RuntimeError, match="a view of one was held"):
        middle_of(y).d  # noqa: B018


def test_a_solver_that_changed_a_parameter_counts_as_a_write():
    w = leaf([0.5, 1], True)
    h = w * 3
    y = F.sum(h + 1)
    del h
    y.forward()
    y.backward()
    solver = S.Sgd(lr=0.1)
    solver.set_parameters({"w": w})
    solver.update()
    late = middle_of(y)
    with pytest.raises(RuntimeError, match="compute the graph again"):
        late.d  # noqa: B018
    y.forward()
    assert_allclose(late.d, 3 * w.d + 1)


def test_a_random_draw_is_never_repeated():
    x = leaf(np.ones(64))
    drawn = F.dropout(x, 0.5)
    y = F.tanh(drawn * 2)
    z = F.exp(drawn)
    mask = weakref.ref(drawn.value)
    del drawn
    y.forward()
    late = middle_of(y).d
    assert_array_equal(late, mask().data.data * 2)
    other = F.tanh(nn.Variable.on(mask()) * 2)
    other.forward()
    z.forward()  # draws anew
    with pytest.raises(RuntimeError, match="compute the graph again"):
        middle_of(other).d  # noqa: B018


def test_what_is_written_to_a_late_handle_lasts_until_the_next_forward():
    x = leaf([0.5, 1])
    y = chain(x)
    y.forward()
    middle_of(y).d = 5
    assert_array_equal(middle_of(y).d, [5, 5])
    y.forward()
    assert_allclose(middle_of(y).d, [2.5, 4])


def test_an_unlinked_late_handle_shares_what_forward_computes():
    x = leaf([0.5, 1])
    y = chain(x)
    y.forward()
    twin = middle_of(y).unlinked()
    assert_allclose(twin.d, [2.5, 4])
    x.d = 2
    y.forward()
    assert_allclose(twin.d, [7, 7])


def test_two_results_that_share_a_lost_value_each_leave_their_own():
    x = leaf([0.5, 1])
    shared = x * 3
    one, other = F.tanh(shared), F.exp(shared)
    del shared
    one.forward()
    x.d = 2
    other.forward()
    assert_allclose(middle_of(one).d, [6, 6])
    x.d = 3
    one.forward()
    x.d = 4
    other.forward()
    assert_allclose(middle_of(one).d, [12, 12])


def test_a_lost_value_can_become_a_root():
    x = leaf([0.5, 1])
    y = chain(x)
    y.forward()
    late = middle_of(y)
    x.d = 2
    late.forward()
    assert_allclose(late.d, [7, 7])
    x.d = 3
    y.forward()
    assert_allclose(late.d, [10, 10])


def test_imperative_code_may_take_a_lost_value():
    y = chain(leaf([0.5, 1]))
    y.forward()
    with nn.auto_forward():
        assert_allclose((middle_of(y) * 2).d, [5, 8])


def test_before_the_first_forward_a_value_shows_zeros():
    y = chain(leaf([0.5, 1]))
    assert y.plan.targets
    assert_array_equal(middle_of(y).d, [0, 0])


def test_a_gradient_switched_on_after_forward_finds_the_values_it_needs():
    x = leaf([0.5, 1])
    y = F.sum(F.tanh(x * 3 + 1))
    y.forward()
    x.need_grad = True
    y.backward()
    assert_allclose(x.g, 3 * (1 - np.tanh(3 * x.d + 1) ** 2), rtol=1e-5)


def test_backward_after_a_leaf_was_changed_takes_the_values_of_the_forward():
    x = leaf([0.5, 1], True)
    y = F.sum(F.tanh(x * 3 + 1))
    y.forward()
    slope = 3 * (1 - np.tanh(3 * x.d + 1) ** 2)
    x.d = 100
    y.backward()
    assert_allclose(x.g, slope, rtol=1e-5)


def test_a_lost_value_holds_no_memory_and_dies_with_its_graph():
    x = leaf(np.ones(1000))
    y = chain(x)
    y.forward()
    lost = middle_of(y).value
    assert lost.data.cell.storage is None
    gone = weakref.ref(lost)
    del lost
    gc.disable()
    try:
        del y
        assert gone() is None
    finally:
        gc.enable()


# Gradients.


def test_a_gradient_in_the_middle_is_computed_when_it_is_asked_for():
    x = leaf([0.5, 1], True)
    y = F.sum(F.tanh(x * 3 + 1))
    y.forward()
    y.backward()
    before = x.g.copy()
    late = middle_of(middle_of(y))
    assert_allclose(late.g, 1 - np.tanh(3 * x.d + 1) ** 2, rtol=1e-5)
    assert_array_equal(x.g, before)
    x.d = [1, 2]
    y.forward()
    y.backward()
    x.d = 0
    assert_allclose(late.g, 1 - np.tanh([4, 7]) ** 2, atol=1e-6)


def test_a_gradient_in_the_middle_is_not_computed_from_changed_values():
    x = leaf([0.5, 1], True)
    y = F.sum(F.tanh(x * 3 + 1))
    y.forward()
    y.backward()
    x.d = 7
    late = middle_of(middle_of(y))
    with pytest.raises(RuntimeError, match=r"(?s)gradient of a Variable of shape \(2,\).*compute the graph again"):
        late.g  # noqa: B018
    y.forward()
    y.backward()
    assert_allclose(late.g, 1 - np.tanh(22) ** 2, atol=1e-6)


def test_gradients_of_one_value_from_two_roots_are_those_of_the_last_backward():
    x = leaf([0.5, 1], True)
    shared = F.tanh(x)
    one, other = F.sum(shared * 2), F.sum(shared * 5)
    del shared
    for root in (one, other, one):
        root.forward()
        root.backward()
    shared = middle_of(middle_of(one))
    assert_array_equal(shared.g, [2, 2])


def test_a_gradient_can_be_set_and_zeroed_by_a_late_handle():
    x = leaf([0.5, 1], True)
    y = F.sum(F.tanh(x * 3))
    y.forward()
    y.backward()
    middle_of(middle_of(y)).grad.zero()
    late = middle_of(middle_of(y))
    assert_array_equal(late.g, [0, 0])
    late.g = 4
    y.backward()
    assert_allclose(late.g, 1 - np.tanh(3 * x.d) ** 2, rtol=1e-5)


@pytest.mark.parametrize("was_looked_at", [False, True])
def test_a_gradient_set_by_a_late_handle_lasts_until_the_next_backward(was_looked_at):
    x = leaf([0.5, 1], True)
    y = F.sum(F.tanh(x) * 2)
    if was_looked_at:
        assert not middle_of(middle_of(y)).g.any()
    y.forward()
    y.backward()
    middle_of(middle_of(y)).g = 4
    assert_array_equal(middle_of(middle_of(y)).g, [4, 4])
    x.grad.zero()
    y.backward()
    assert_array_equal(middle_of(middle_of(y)).g, [2, 2])


@pytest.mark.parametrize(
    "function", [lambda x: F.dropout(x, 0.5, seed=3), lambda x: F.max_pooling(x, (1, 4))], ids=["dropout", "pooling"]
)
def test_a_gradient_in_the_middle_is_not_computed_from_what_a_function_kept_of_another_call(function):
    x = leaf(np.arange(32).reshape(1, 1, 4, 8) / 32, True)
    y = function(F.sin(x * 3))
    root = F.sum(y * y)
    root.forward()
    root.backward()
    other = nn.Variable.from_numpy_array(-np.arange(32, dtype=np.float32).reshape(x.shape))
    y.parent.forward([other], [nn.Variable(y.shape)])
    with pytest.raises(RuntimeError, match="compute the graph again"):
        y.parent.inputs[0].g  # noqa: B018
