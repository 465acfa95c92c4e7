"""An inference computes what forward does, from arrays, and touches nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.function import PythonFunction
from atled_contexts import Context

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"], fallback="quiet"),
    "reference": Context(["reference:float"]),
}

TOLERANCE = 2e-5  # of the largest element: what folding rounds otherwise, in networks of a few layers


@pytest.fixture(params=CONTEXTS, autouse=True)
def context(request: pytest.FixtureRequest) -> Iterator[Context]:
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(CONTEXTS[request.param]):
        yield CONTEXTS[request.param]
    nn.clear_parameters()


def images(count: int = 2, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, 8, 8)).astype(np.float32)


def randomize() -> None:
    rng = np.random.default_rng(2)
    for name, variable in nn.get_parameters(grad_only=False).items():
        values = rng.standard_normal(variable.shape) * 0.3
        variable.d = values + 1 if name.endswith(("gamma", "var")) else values


def residual(x: nn.Variable) -> nn.Variable:
    """Convolutions with normalization behind them, one of them with bias, a sum, and a layer."""

    def normalized(h: nn.Variable, name: str, with_bias: bool = False) -> nn.Variable:
        h = PF.convolution(h, 4, (3, 3), pad=(1, 1), with_bias=with_bias, name=name)
        return PF.batch_normalization(h, batch_stat=False, name=name)

    h = F.relu(normalized(x, "first", with_bias=True))
    h = F.relu(normalized(F.relu(normalized(h, "a")), "b") + h)
    return PF.affine(F.average_pooling(h, (4, 4)), 5, name="last")


def recorded(count: int = 2) -> tuple[nn.Variable, nn.Variable]:
    x = nn.Variable((count, 3, 8, 8))
    y = residual(x)
    randomize()
    return x, y


def forward_of(x: nn.Variable, y: nn.Variable, values: np.ndarray) -> np.ndarray:
    x.d = values
    y.forward()
    return y.d.copy()


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max()


def test_one_output_gives_what_forward_gives():
    x, y = recorded()
    infer = nn.inference(y, x)
    assert_close(infer(images()), forward_of(x, y, images()))


def test_a_list_of_outputs_gives_a_list():
    x, y = recorded()
    found = nn.inference([y, F.sum(y)], [x])(images())
    wanted = forward_of(x, y, images())
    assert isinstance(found, list)
    assert_close(found[0], wanted)
    assert_close(found[1], wanted.sum())


@pytest.mark.parametrize("count", [1, 3])
def test_any_batch_size_is_computed(count):
    x, y = recorded()
    values = images(4)
    wanted = np.concatenate([forward_of(x, y, values[:2]), forward_of(x, y, values[2:])])[:count]
    assert_close(nn.inference(y, x)(values[:count]), wanted)


def test_zeros_of_either_sign_are_numbers_of_their_own():
    x = nn.Variable((2,))
    infer = nn.inference([1 / (x * number) for number in (0.0, -0.0, 0.0)], x)
    for found, expected in zip(infer([1, -1]), ([np.inf, -np.inf], [-np.inf, np.inf], [np.inf, -np.inf]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_variables_are_left_as_they_were():
    x, y = recorded()
    before = forward_of(x, y, images())
    nn.inference(y, x)(images(3, seed=5))
    np.testing.assert_array_equal(x.d, images())
    np.testing.assert_array_equal(y.d, before)
    assert x.shape == (2, 3, 8, 8)


def test_a_result_is_the_callers_own():
    x, y = recorded()
    infer = nn.inference(y, x)
    first = infer(images())
    kept = first.copy()
    infer(images(seed=7))
    np.testing.assert_array_equal(first, kept)
    first[...] = 0  # writable


def test_parameters_are_read_as_they_are_at_each_call():
    x, y = recorded()
    infer = nn.inference(y, x)
    infer(images())
    for variable in nn.get_parameters(grad_only=False).values():
        variable.d = variable.d * 0.5 + 0.25
    assert_close(infer(images()), forward_of(x, y, images()))


def test_an_array_put_in_a_parameters_place_is_read():
    x, y = recorded()
    infer = nn.inference(y, x)
    infer(images())
    w = nn.get_parameters()["a/conv/W"]
    w.data = nn.NdArray.from_numpy_array(w.d * 2)
    assert_close(infer(images()), forward_of(x, y, images()))


def test_normalization_behind_nothing_to_fold_into_is_computed():
    x = nn.Variable((2, 3, 8, 8))
    y = F.tanh(PF.batch_normalization(x, batch_stat=False))
    randomize()
    assert_close(nn.inference(y, x)(images()), forward_of(x, y, images()))


def test_a_convolution_that_others_read_too_is_as_it_was():
    x = nn.Variable((2, 3, 8, 8))
    h = PF.convolution(x, 4, (3, 3), name="c")
    y = PF.batch_normalization(h, batch_stat=False) - h
    randomize()
    assert_close(nn.inference(y, x)(images()), forward_of(x, y, images()))
    found, inner = nn.inference([y, h], x)(images())
    assert_close(found, forward_of(x, y, images()))
    assert_close(inner, forward_of(x, h, images()))


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_normalization_is_folded_on_the_axis_of_channels_only(axis):
    x = nn.Variable((2, 3, 8, 8))
    h = PF.convolution(x, 8, (3, 3), pad=(1, 1), name="c")
    y = PF.batch_normalization(h, axes=[axis], batch_stat=False)
    randomize()
    assert_close(nn.inference(y, x)(images()), forward_of(x, y, images()))


def test_products_and_depthwise_convolutions_take_normalization_in():
    x = nn.Variable((2, 3, 8, 8))
    h = PF.batch_normalization(PF.depthwise_convolution(x, (3, 3), name="d"), batch_stat=False, name="d")
    y = PF.batch_normalization(PF.affine(h, 6, name="a"), batch_stat=False, name="a")
    randomize()
    assert_close(nn.inference(y, x)(images()), forward_of(x, y, images()))


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_sum_with_a_number_per_channel_is_computed_by_the_product_before_it(with_bias, is_first):
    x = nn.Variable((2, 3, 8, 8))
    b, c = (nn.Variable(shape) for shape in ((1, 4, 1, 1), (1, 5)))
    h = PF.convolution(x, 4, (3, 3), with_bias=with_bias, name="a")
    h = b + h if is_first else h + b
    y = PF.affine(F.relu(h), 5, with_bias=with_bias, name="b") + c
    randomize()
    b.d, c.d = (np.random.default_rng(3).standard_normal(each.shape) for each in (b, c))
    infer = nn.inference(y, x)
    assert_close(infer(images()), forward_of(x, y, images()))
    assert "Add2" not in [step.name for step in infer.plan.steps]


@pytest.mark.parametrize("shape", [(1, 1, 6, 1), (1, 4, 6, 1), (2, 4, 1, 1), (1, 1, 1, 1)])
def test_other_sums_stay(shape):
    x, b = nn.Variable((2, 3, 8, 8)), nn.Variable(shape)
    y = PF.convolution(x, 4, (3, 3), name="a") + b
    randomize()
    b.d = np.random.default_rng(3).standard_normal(shape)
    infer = nn.inference(y, x)
    assert_close(infer(images()), forward_of(x, y, images()))
    assert "Add2" in [step.name for step in infer.plan.steps]


def test_an_output_that_only_shows_another_is_an_array_of_its_own():
    x, y = recorded()
    found, shown = nn.inference([y, F.reshape(y, (-1,))], x)(images(3))
    assert shown.shape == (15,)
    np.testing.assert_array_equal(found.ravel(), shown)


def test_integers_of_an_input_that_holds_nothing_stay_integers():
    x = nn.Variable((2, 3))
    y = PF.embed(x, 10, 4)
    randomize()
    found = nn.inference(y, x)(np.array([[1, 2, 3], [9, 0, 1]]))
    np.testing.assert_array_equal(found, nn.get_parameters()["embed/W"].d[[[1, 2, 3], [9, 0, 1]]])


def test_lists_of_numbers_are_taken():
    x = nn.Variable((1, 3))
    np.testing.assert_array_equal(nn.inference(x * 2, x)([[1, 2, 3], [4, 5, 6]]), [[2, 4, 6], [8, 10, 12]])


def test_weights_may_be_inputs():
    x, w = nn.Variable((2, 3, 8, 8)), nn.Variable((4, 3, 3, 3))
    y = F.convolution(F.convolution(x, w), nn.Variable.from_numpy_array(np.ones((2, 4, 3, 3), np.float32)))
    infer = nn.inference(y, [x, w])
    rng = np.random.default_rng(4)
    for _ in range(3):
        weights = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
        w.d = weights
        assert_close(infer(images(), weights), forward_of(x, y, images()))


def test_threads_get_what_each_asked_for():
    x, y = recorded()
    infer = nn.inference(y, x)
    batches = [images(2, seed) for seed in range(4)]
    wanted = [infer(batch) for batch in batches]
    wrong = []

    def ask(number: int) -> None:
        for _ in range(20):
            if not np.array_equal(infer(batches[number]), wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_trace_sees_the_steps(context):
    x, y = recorded()
    infer = nn.inference(y, x)
    with nn.trace() as trace:
        found = infer(images())
    assert any("Convolution" in row.op for row in trace.rows())
    assert_close(found, infer(images()))


def test_the_plan_has_no_normalization_left():
    x, y = recorded()
    infer = nn.inference(y, x)
    assert "BatchNormalization" in str(nn.explain(infer))
    assert "BatchNormalization" not in str(infer.plan)


def test_a_function_in_python_is_refused_with_what_to_write_instead() -> None:
    class Square(PythonFunction):
        def min_outputs(self) -> int:
            return 1

        def setup_impl(self, inputs: list[nn.Variable], outputs: list[nn.Variable]) -> None:
            outputs[0].reset_shape(inputs[0].shape, True)

        def forward_impl(self, inputs: list[nn.Variable], outputs: list[nn.Variable]) -> None:
            outputs[0].d = inputs[0].d ** 2

    x = nn.Variable((2, 3))
    with pytest.raises(ValueError, match=r"Square, a PythonFunction[\s\S]*What to do: compute with forward\(\)"):
        nn.inference(F.exp(Square()(x)), x)


def test_an_explanation_tells_what_does_not_run_as_it_was_recorded():
    x = nn.Variable((2, 3, 8, 8))
    weight = nn.Variable.from_numpy_array(np.ones((4, 3, 3, 3), np.float32))
    shift = nn.Variable.from_numpy_array(np.ones((1, 5), np.float32))
    h = F.relu(PF.batch_normalization(F.convolution(x, F.tanh(weight)), batch_stat=False, name="n"))
    h = F.relu(PF.batch_normalization(F.average_pooling(h, (3, 3)), batch_stat=False, name="m"))
    y = PF.affine(F.max_pooling(F.leaky_relu(h), (2, 2)), 5, name="a") + shift
    explained = nn.explain(nn.inference(y, x))
    assert [(call.op, call.elsewhere) for call in explained.calls] == [
        ("Tanh", "computed once, of parameters alone"),
        ("Convolution", ""),
        ("BatchNormalization", "in the weight and the bias of Convolution, which are computed once"),
        ("ReLU", ""),
        ("AveragePooling", ""),
        ("BatchNormalization", "a multiplication and an addition, by values that are computed once"),
        ("ReLU", ""),
        ("LeakyReLU", "behind the maxima that read it, on fewer elements"),
        ("MaxPooling", ""),
        ("Affine", ""),
        ("Add2", "in the bias of Affine, which is computed once"),
    ]
    assert "\nin the inference: in the bias of Affine" in str(explained.calls[-1])
    assert [call["elsewhere"] for call in explained.to_json()] == [call.elsewhere for call in explained.calls]
    assert all(call.elsewhere == "" for call in nn.explain(y).calls)


def test_an_explanation_does_not_say_that_a_view_of_a_parameter_is_computed_once():
    x, weight = nn.Variable((2, 4)), nn.Variable((4, 4))
    explained = nn.explain(nn.inference(F.reshape(weight, (2, 8)) * F.concatenate(x, x), x))
    assert [call.elsewhere for call in explained.calls] == ["", "", ""]


@pytest.mark.parametrize(
    "given", [None, [[None, 1.0]], [["1", "2"]], [[b"1", b"2"]], [[1j, 0]], [[2**70, 0]], [[1], [1, 2]]]
)
def test_what_holds_no_numbers_is_refused_and_not_taken_for_nan(given):
    x = nn.Variable((1, 2))
    with pytest.raises(TypeError, match=r"(?s)inputs\[0\] of type .*: it does not become an array of float32"):
        nn.inference(F.exp(x), x)(given)


def test_python_numbers_are_taken_where_nothing_is_lost():
    x, i = nn.Variable((1, 2)), nn.Variable.from_numpy_array(np.array([[0, 1]], np.int32))
    twice, picked = nn.inference(x * 2, x), nn.inference(F.embed(i, nn.Variable.from_numpy_array(np.eye(2))), i)
    for given in ([[0.5, True]], ((0.5, 1),), memoryview(np.array([[0.5, 1]]))):
        assert twice(given).tolist() == [[1, 2]]
    assert picked([[1, 0]]).tolist() == [[[0, 1], [1, 0]]]
    with pytest.raises(TypeError, match=r"the input is int32, to which float64 is not cast without loss"):
        picked([[0.7, 1.2]])
    with pytest.raises(TypeError, match=r"it does not become an array of int32"):
        picked([[2**40, 0]])


def test_zeros_of_two_signs_are_two_numbers():
    x = nn.Variable((2, 3))
    infer = nn.inference([F.mul_scalar(x, zero) for zero in (0.0, -0.0)], x)
    positive, negative = infer(np.ones((2, 3), np.float32))
    assert not np.signbit(positive).any() and np.signbit(negative).all()
