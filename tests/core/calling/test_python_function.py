"""PythonFunction: ops of the user, in every mode, as part of plans, with their errors and their state."""

import gc
import traceback
import weakref

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.function import PythonFunction
from atled.graph.compile.plans import PLANS


def leaf(values, need_grad=True):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


class Square(PythonFunction):
    """y = x^2, by NumPy."""

    def __init__(self):  # without a call of the base class: NNabla's users leave it out
        self.setups = 0
        self.flags = None

    @property
    def name(self):
        return "Square"

    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        self.setups += 1
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        outputs[0].d = inputs[0].d ** 2

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        self.flags = list(propagate_down), list(accum)
        if propagate_down[0]:
            gx = 2 * inputs[0].d * outputs[0].g
            if accum[0]:
                inputs[0].g += gx
            else:
                inputs[0].g = gx


class Product(PythonFunction):
    """a * b and a + b, by functions on NdArrays; each gradient from what forward kept."""

    def min_outputs(self):
        return 2

    def setup_impl(self, inputs, outputs):
        if inputs[0].shape != inputs[1].shape:
            raise ValueError("shapes differ")
        for y in outputs:
            y.reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        a, b = (x.data for x in inputs)
        outputs[0].data.copy_from(a * b)
        F.add2(a, b, outputs=[outputs[1].data])
        self.kept = a.data.copy(), b.data.copy()

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        gp, gs = (y.grad for y in outputs)
        for position, x in enumerate(inputs):
            if propagate_down[position]:
                other = nn.NdArray.from_numpy_array(self.kept[1 - position])
                gradient = gp * other + gs
                if accum[position]:
                    x.grad += gradient
                else:
                    x.grad = gradient


# Modes.


def test_static_graph_forward_and_backward(backend):
    x = leaf([1.0, 2.0])
    function = Square()
    y = function(x * 3.0) + 1.0
    y.forward()
    np.testing.assert_array_equal(y.d, 9 * x.d**2 + 1)
    y.backward()
    np.testing.assert_array_equal(x.g, 18 * x.d)
    assert function.flags == ([True], [False])
    y.backward()
    np.testing.assert_array_equal(x.g, 36 * x.d)
    assert function.setups == 1


def test_dynamic_graph_computes_at_the_call(backend):
    with nn.auto_forward():
        x = leaf([1.0, 2.0])
        y = Square()(x)
        np.testing.assert_array_equal(y.d, [1, 4])
        F.sum(y * y).backward()
    np.testing.assert_array_equal(x.g, 4 * x.d**3)


def test_auto_forward_can_be_asked_for_at_one_call(backend):
    x = leaf([3.0])
    np.testing.assert_array_equal(Square()(x, auto_forward=True).d, [9])
    with nn.auto_forward():
        y = Square()(x, auto_forward=False)
    assert not y.d.any()


def test_ndarrays_are_computed_at_once(backend):
    a, b = (nn.NdArray.from_numpy_array(np.array(v, np.float32)) for v in ([1.0, 2.0], [3.0, 4.0]))
    p, s = Product()(a, b)
    assert isinstance(p, nn.NdArray)
    np.testing.assert_array_equal(p.data, [3, 8])
    np.testing.assert_array_equal(s.data, [4, 6])


def test_several_outputs_and_inputs(backend):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    p, s = Product()(a, b)
    y = F.sum(p * 2.0 + s * s)
    y.forward()
    y.backward()
    np.testing.assert_array_equal(a.g, 2 * b.d + 2 * (a.d + b.d))
    np.testing.assert_array_equal(b.g, 2 * a.d + 2 * (a.d + b.d))


def test_an_output_that_nothing_uses_arrives_with_a_zero_gradient(backend):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = Product()(a, b)[1]
    y.forward()
    y.backward()
    np.testing.assert_array_equal(a.g, [1, 1])


def test_only_inputs_that_need_a_gradient_get_one(backend):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0], need_grad=False)
    b.g = 7
    p, _ = Product()(a, b)
    p.forward()
    p.backward()
    np.testing.assert_array_equal(a.g, b.d)
    np.testing.assert_array_equal(b.g, [7, 7])


def test_one_variable_given_twice_gets_both_gradients(backend):
    a = leaf([3.0])
    p, _ = Product()(a, a)
    p.forward()
    p.backward()
    np.testing.assert_array_equal(a.g, [6])


def test_outputs_may_be_given(backend):
    x, y = leaf([2.0]), nn.NdArray((1,))
    Square()(x.data, outputs=[y])
    np.testing.assert_array_equal(y.data, [4])


def test_whole_number_inputs_stay_what_they_are(backend):
    class Pick(PythonFunction):
        def setup_impl(self, inputs, outputs):
            outputs[0].reset_shape(inputs[1].shape, True)

        def forward_impl(self, inputs, outputs):
            outputs[0].d = inputs[0].d[inputs[1].d]

        def backward_impl(self, inputs, outputs, propagate_down, accum):
            gx = np.zeros(inputs[0].shape)
            np.add.at(gx, inputs[1].d, outputs[0].g)
            inputs[0].g = gx

    x, i = leaf([5.0, 6.0, 7.0]), nn.Variable.from_numpy_array(np.array([2, 0, 2]))
    y = Pick()(x, i)
    y.forward()
    np.testing.assert_array_equal(y.d, [7, 5, 7])
    y.backward()
    np.testing.assert_array_equal(x.g, [1, 0, 2])


@pytest.mark.parametrize(("type_config", "dtype"), [("half", np.float16), ("double", np.float64)])
def test_outputs_have_the_dtype_of_the_type_config(type_config, dtype):
    with nn.context_scope(nn.Context([f"reference:{type_config}"], fallback="raise")):
        x = leaf([1.0, 2.0])
        y = Square()(x * 1.0)
        y.forward()
        y.backward()
    assert y.data.dtype == dtype
    np.testing.assert_array_equal(x.g, 2 * x.d)


def test_functions_computed_inside_follow_the_context_of_the_call():
    class Who(Square):
        def forward_impl(self, inputs, outputs):
            self.context = nn.get_current_context()
            super().forward_impl(inputs, outputs)

    function = Who()
    with nn.context_scope(nn.Context(["reference:float"])):
        y = function(leaf([1.0]))
    y.forward()
    assert function.context.backend == ["reference:float"]
    function.ctx = nn.Context(["reference:double"])
    y = function(leaf([1.0]))
    y.forward()
    assert function.context.backend == ["reference:double"] and y.data.dtype == np.float64


# As part of a graph.


def test_it_is_a_step_of_the_plan_and_shows_in_trace_and_explain():
    y = Square()(leaf([1.0]) + 1.0)
    assert " Square " in str(y.plan)
    chosen = nn.explain(y).calls[-1].chosen
    assert (chosen.backend, chosen.note) == ("python", "the function's own Python code")
    with nn.trace() as trace:
        y.forward()
    assert ("Square", "python", 1) in [(row.op, row.backend, row.calls) for row in trace.rows()]
    assert y.parent.name == y.parent.info.type_name == "Square"


def test_verification_leaves_it_alone():
    with nn.verify(1.0):
        y = Square()(leaf([1.0]))
        y.forward()


def test_the_function_of_the_graph_runs_on_other_variables(backend):
    x = leaf([1.0, 2.0])
    y = Square()(x)
    u, v = leaf([5.0, 6.0]), nn.Variable((2,))
    y.parent.forward([u], [v])
    np.testing.assert_array_equal(v.d, [25, 36])
    v.g = 1
    u.g = 100
    y.parent.backward([u], [v], [True])
    np.testing.assert_array_equal(u.g, [110, 112])
    y.parent.backward([u], [v], [False])
    np.testing.assert_array_equal(u.g, [10, 12])


def test_the_methods_may_be_run_by_hand():
    function, x, y = Square(), leaf([3.0]), nn.Variable()
    function.setup([x], [y])
    function.forward([x], [y])
    y.g = 1
    x.g = 1
    function.backward([x], [y])
    assert (y.d, x.g) == (9, 7)


def test_another_shape_is_set_up_anew(backend):
    x = leaf([1.0, 2.0])
    function = Square()
    y = function(x)
    y.forward()
    x.reset_shape((3,), True)
    x.d = [1, 2, 3]
    y.forward()
    np.testing.assert_array_equal(y.d, [1, 4, 9])
    y.backward()
    np.testing.assert_array_equal(x.g, [2, 4, 6])
    assert function.setups == 2


def test_one_object_serves_calls_of_different_shapes(backend):
    class Scaled(Square):
        """Divided by the count of elements, which setup looks up."""

        def setup_impl(self, inputs, outputs):
            super().setup_impl(inputs, outputs)
            self.count = inputs[0].size

        def forward_impl(self, inputs, outputs):
            outputs[0].d = inputs[0].d / self.count

    function = Scaled()
    y, z = function(leaf([6.0, 6.0])), function(leaf([6.0, 6.0, 6.0]))
    for _ in range(2):
        y.forward()
        z.forward()
        np.testing.assert_array_equal(y.d, [3, 3])
        np.testing.assert_array_equal(z.d, [2, 2, 2])


def test_a_view_kept_from_forward_holds_its_values_in_backward(backend):
    class Keeps(Square):
        def forward_impl(self, inputs, outputs):
            self.x = inputs[0].d
            super().forward_impl(inputs, outputs)

        def backward_impl(self, inputs, outputs, propagate_down, accum):
            inputs[0].g = 2 * self.x * outputs[0].g

    x = leaf(np.linspace(-1, 1, 1000))
    y = Keeps()(F.exp(x) * 2.0)
    for _ in range(6):  # whose buffers could serve the one that was kept
        y = F.tanh(F.sin(y) + 1.0)
    y.forward(clear_buffer=True)
    y.backward(clear_buffer=True)
    got = x.g.copy()
    x.grad.zero()
    z = (F.exp(x) * 2.0) ** 2
    for _ in range(6):
        z = F.tanh(F.sin(z) + 1.0)
    z.forward()
    z.backward()
    np.testing.assert_allclose(got, x.g, rtol=2e-4, atol=1e-6)


def test_a_gradient_that_is_not_written_is_zero(backend):
    class Silent(Square):
        def backward_impl(self, inputs, outputs, propagate_down, accum):
            pass

    x = leaf([1.0, 2.0])
    y = Silent()(x) + x
    y.forward()
    y.backward()
    np.testing.assert_array_equal(x.g, [1, 1])


def test_new_objects_of_a_dynamic_graph_share_a_plan_and_are_let_go():
    x = leaf([1.0, 2.0])
    y = Square()(x)
    y.forward()
    y.backward()
    before = len(PLANS)
    kept = []
    for _ in range(5):
        function = Square()
        kept.append(weakref.ref(function))
        y = function(x)
        y.forward()
        y.backward()
    assert len(PLANS) <= before + 1  # one more for a gradient that is added to
    del function, y
    gc.collect()
    assert [reference() for reference in kept] == [None] * 5


def test_two_classes_of_one_name_do_not_mix(backend):
    class Other(Square):
        def forward_impl(self, inputs, outputs):
            outputs[0].d = -inputs[0].d

    x = leaf([3.0])
    y, z = Square()(x), Other()(x)
    (y + z).forward()
    for variable, expected in ((y, 9), (z, -3)):
        variable.forward()
        assert variable.d == expected


def test_the_name_may_be_a_method_or_missing():
    class Method(Square):
        def name(self):
            return "FromMethod"

    assert Method()(leaf([1.0])).parent.name == "FromMethod"
    assert Product()(leaf([1.0]), leaf([1.0]))[0].parent.name == "Product"


def test_on_a_device_its_arrays_live_there_and_it_computes_the_same():
    sim = pytest.importorskip("atled_sim", reason="the simulated device is not installed")
    assert sim
    with nn.context_scope(nn.get_extension_context("sim")):
        a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        p, s = Product()(a * 1.0, b)
        y = F.sum(Square()(p) + s)
        y.forward()
        y.backward()
        assert y.d == 9 + 64 + 10
        np.testing.assert_array_equal(a.g, 2 * a.d * b.d**2 + 1)
        np.testing.assert_array_equal(b.g, 2 * b.d * a.d**2 + 1)


# With nn.grad.


def test_its_gradient_is_recorded_but_has_none_itself(backend):
    x = leaf([1.0, 2.0])
    (dx,) = nn.grad(F.sum(Square()(x) ** 2), x)
    dx.forward()
    np.testing.assert_allclose(dx.d, 4 * x.d**3)
    with pytest.raises(RuntimeError, match="SquareGrad"):
        nn.grad(dx, x)


# Errors.


@pytest.mark.parametrize("method", ["setup_impl", "forward_impl", "backward_impl"])
def test_errors_of_user_code_keep_their_traceback_and_name_the_function(method, backend):
    class Fails(Square):
        pass

    def fail(self, *_):
        raise KeyError("what went wrong")

    setattr(Fails, method, fail)
    with pytest.raises(KeyError, match="what went wrong") as caught:
        y = Fails()(leaf([1.0]))
        y.forward()
        y.backward()
    assert any(f"in {method} of the PythonFunction Square" in note for note in caught.value.__notes__)
    assert "fail" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_after_an_error_the_graph_works_again(backend):
    class Sometimes(Square):
        fails = True

        def backward_impl(self, *arguments):
            if self.fails:
                raise ValueError("not now")
            super().backward_impl(*arguments)

    x = leaf([3.0])
    function = Sometimes()
    y = function(x)
    y.forward()
    with pytest.raises(ValueError, match="not now"):
        y.backward()
    function.fails = False
    x.grad.zero()
    y.backward()
    assert x.g == 6


@pytest.mark.parametrize("method", ["setup_impl", "forward_impl", "backward_impl"])
def test_a_missing_method_is_named(method):
    class Incomplete(PythonFunction):
        pass

    for name in ("setup_impl", "forward_impl", "backward_impl"):
        if name != method:
            setattr(Incomplete, name, getattr(Square, name))
    Incomplete.setups = 0
    with pytest.raises(NotImplementedError, match=rf"Incomplete[\s\S]*{method}\(self, inputs"):
        y = Incomplete()(leaf([1.0]))
        y.forward()
        y.backward()


def test_a_shape_changed_after_setup_is_refused():
    class Changes(Square):
        def forward_impl(self, inputs, outputs):
            outputs[0].reset_shape((5,), True)

    y = Changes()(leaf([1.0]))
    with pytest.raises(ValueError, match=r"result of shape \(5,\) where setup_impl said \(1,\)"):
        y.forward()


@pytest.mark.parametrize("wrong", [(3.0,), (), (np.ones(2),)])
def test_other_inputs_are_refused(wrong):
    with pytest.raises(TypeError):
        Square()(*wrong)


def test_fewer_outputs_than_it_has_are_refused():
    with pytest.raises(ValueError, match="min_outputs"):
        Product()(leaf([1.0]), leaf([1.0]), n_outputs=1)


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_a_function_that_runs_the_graph_it_is_in_gets_told(mode):
    class Recursive(Square):
        def forward_impl(self, inputs, outputs):
            super().forward_impl(inputs, outputs)
            if self.again == "forward":
                graph[0].forward()

        def backward_impl(self, inputs, outputs, propagate_down, accum):
            super().backward_impl(inputs, outputs, propagate_down, accum)
            if self.again == "backward":
                graph[0].backward()

    x = nn.Variable.from_numpy_array(np.array([1.0, 2.0], np.float32), need_grad=True)
    function = Recursive()
    function.again = None
    y = function(x)
    graph = [F.sum(y)]
    graph[0].forward()
    graph[0].backward()
    function.again = mode
    with pytest.raises(RuntimeError, match="a PythonFunction in it, which is running now, asks for a run of that same"):
        getattr(graph[0], mode)()
    function.again = None
    x.grad.zero()
    graph[0].forward()
    graph[0].backward()
    assert graph[0].d == 5 and x.g.tolist() == [2, 4]
