"""Programs that read and write views of arrays, against NumPy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atled as nn
import atled_sim
from atled import Context
from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST, DeviceStorage, Place
from atled.errors import RefusedError
from atled.graph.compile.lowering import lower
from atled.graph.nodes.ir import Graph
from atled.graph.run.binding import Binding
from atled.graph.run.on_device import PlanOnDevice
from atled.strides import Window, broadcast_to, index, is_injective, transpose, whole
from atled_contexts import Implementation, reload_plugins

CONTEXTS = ["reference", "cpu", "sim"]


@pytest.fixture
def without_windows(monkeypatch):
    """Backend sim, as a device that has no strided arrays."""
    takes = Implementation.takes_strides
    monkeypatch.setattr(
        Implementation, "takes_strides", lambda self, names: self.backend != "sim" and takes(self, names)
    )
    monkeypatch.setattr(Place, "has_windows", property(lambda self: self.is_host, lambda self, value: None))
    reload_plugins()
    yield Context(["sim", "reference"], fallback="quiet")
    monkeypatch.undo()
    reload_plugins()


class Program:
    """Statements on views of arrays, done by the engine and by NumPy.

    wanted: what the arrays hold then.  results: values of the graph, with what NumPy has.
    """

    def __init__(self, context, *arrays, aliases=()):
        if isinstance(context, str):
            context = Context([context], fallback="raise")
        self.graph = Graph(context, aliases)
        self.cells = []
        self.wanted = [array.copy() for array in arrays]
        self._bases = []
        for number, array in enumerate(arrays):
            cell = ArrayCell(array.size)
            cell.output(HOST, array.dtype).array(array.shape, array.dtype)[...] = array
            self.cells.append(cell)
            self._bases.append(self.graph.external(number, ArrayDesc(array.shape, array.dtype)))
        self.results = []

    def value(self, number, window):
        return self.graph.window(self._bases[number], window)

    def array(self, number, window):
        base = self.wanted[number]
        steps = tuple(step * base.itemsize for step in window.strides)
        return np.ndarray(window.shape, base.dtype, base, window.offset * base.itemsize, steps)

    def assign(self, target, op, *operands):
        """target, operands: number of an array and window."""
        read = [self.array(*operand).copy() for operand in operands]
        value = self.graph.op(op, *(self.value(*operand) for operand in operands), **ATTRIBUTES.get(op, {}))
        self.array(*target)[...] = OPS[op](*read)
        self.graph.assign(self.value(*target), value)

    def result(self, op, *operands):
        wanted = OPS[op](*(self.array(*operand).copy() for operand in operands))
        self.results.append(
            (self.graph.op(op, *(self.value(*operand) for operand in operands), **ATTRIBUTES.get(op, {})), wanted)
        )

    def run(self):
        plan = lower(self.graph, [value for value, _ in self.results])
        made = [ArrayCell(value.size) for value, _ in self.results]
        Binding(plan, self.cells, made, [source[1] for source in plan.floats]).run()
        for cell, wanted in zip(self.cells, self.wanted, strict=True):
            np.testing.assert_allclose(cell.host().array(wanted.shape, wanted.dtype), wanted, rtol=1e-5, atol=1e-6)
        for cell, (_, wanted) in zip(made, self.results, strict=True):
            np.testing.assert_allclose(cell.host().array(wanted.shape, wanted.dtype), wanted, rtol=1e-5, atol=1e-6)
        return plan


OPS = {
    "Identity": lambda x: x,
    "MulScalar": lambda x: 2 * x,
    "Abs": np.abs,
    "Add2": np.add,
    "Maximum2": np.maximum,
    "BatchMatmul": np.matmul,
}
ATTRIBUTES = {"MulScalar": {"val": 2.0}}
SHAPES = (3, 4), (4, 3)


def parts(shape):
    bound = st.one_of(st.none(), st.integers(-4, 4))
    one = st.one_of(st.just(slice(None)), st.builds(slice, bound, bound, st.sampled_from([1, 2, -1, -2])))
    return st.tuples(*(st.one_of(one, st.integers(0, n - 1)) if n else one for n in shape))


@st.composite
def windows(draw):
    """Number of an array, and a view of a view of it."""
    number = draw(st.integers(0, 1))
    window = whole(SHAPES[number])
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            window = index(window, draw(parts(window.shape)))
        else:
            window = transpose(window, draw(st.permutations(range(len(window.shape)))))
    return number, window


@st.composite
def statements(draw):
    """Target and operands, whose shapes broadcast to its shape."""
    target = draw(windows())
    shape = target[1].shape
    operands = []
    for _ in range(2):
        number, window = draw(windows())
        while not fits(window.shape, shape):
            window = index(window, 0) if window.shape and window.shape[0] else index(whole(SHAPES[number]), (0, 0))
        if draw(st.booleans()):
            window = broadcast_to(window, shape)
        operands.append((number, window))
    return target, operands


def fits(shape, wanted):
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


@pytest.mark.parametrize("backend", CONTEXTS)
@settings(max_examples=60, deadline=None)
@given(st.lists(statements(), min_size=1, max_size=4), st.lists(st.sampled_from(["Add2", "Maximum2"]), min_size=4))
def test_views_of_views_are_operands_and_targets_as_in_numpy(backend, program, ops):
    run = Program(backend, *(np.arange(12, dtype=np.float32).reshape(shape) - 5 for shape in SHAPES))
    for (target, operands), op in zip(program, ops, strict=False):
        run.result("MulScalar", operands[1])
        if is_injective(target[1]):
            run.assign(target, op, *operands)
        run.result("Abs", target)
    run.run()


@pytest.mark.parametrize("backend", CONTEXTS)
def test_what_is_assigned_is_the_old_right_side(backend):
    run = Program(backend, np.arange(12, dtype=np.float32).reshape(3, 4))
    right, left = (index(whole((3, 4)), (slice(None), part)) for part in (slice(1, None), slice(None, -1)))
    run.assign((0, right), "Identity", (0, left))
    run.assign((0, left), "MulScalar", (0, right))
    run.run()


@pytest.mark.parametrize("backend", CONTEXTS)
def test_products_read_and_write_views(backend):
    rng = np.random.default_rng(0)
    run = Program(backend, *(rng.normal(size=shape).astype(np.float32) for shape in ((6, 8), (8, 5), (9, 12))))
    a, b = index(whole((6, 8)), (slice(None, None, -2),)), index(whole((8, 5)), (slice(None), slice(1, 4)))
    target = index(whole((9, 12)), (slice(2, 8, 2), slice(None, None, 4)))
    run.assign((2, target), "BatchMatmul", (0, a), (1, b))
    run.run()


@pytest.mark.parametrize("window", [Window((3, 4), (4, 1), 1), Window((2,), (-1,), 0), Window((5,), (3,), 0)])
def test_windows_that_leave_their_array_are_refused(window):
    run = Program("reference", np.zeros((3, 4), np.float32))
    with pytest.raises(RefusedError, match="names elements"):
        run.value(0, window)


def test_reads_of_other_elements_are_no_reason_for_a_copy():
    run = Program("sim", np.arange(12, dtype=np.float32).reshape(3, 4))
    even, odd = (index(whole((3, 4)), (slice(None), slice(first, None, 2))) for first in (0, 1))
    run.assign((0, even), "MulScalar", (0, odd))
    assert [step.name for step in run.run().steps] == ["MulScalar"]


@pytest.mark.parametrize("backend", ["reference", "sim"])
def test_what_is_only_assigned_is_made_in_its_target(backend):
    rng = np.random.default_rng(0)
    run = Program(backend, *(rng.normal(size=shape).astype(np.float32) for shape in ((4, 4), (4, 4), (9, 8))))
    target, other = (index(whole((9, 8)), (slice(first, first + 8, 2), slice(0, 4))) for first in (0, 1))
    run.assign((2, target), "BatchMatmul", (0, whole((4, 4))), (1, whole((4, 4))))
    run.assign((2, other), "BatchMatmul", (0, whole((4, 4))), (2, target))
    assert [step.name for step in run.run().steps] == ["BatchMatmul", "BatchMatmul"]


@pytest.mark.parametrize("backend", CONTEXTS)
def test_a_product_of_what_it_replaces_is_made_elsewhere(backend):
    rng = np.random.default_rng(0)
    run = Program(backend, *(rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)))
    all_of_it = whole((4, 4))
    run.assign((0, all_of_it), "BatchMatmul", (0, transpose(all_of_it)), (1, all_of_it))
    run.assign((1, all_of_it), "BatchMatmul", (0, all_of_it), (0, transpose(all_of_it)))
    assert len(run.run().steps) > 2


@pytest.mark.parametrize("backend", ["cpu", "sim"])
def test_steps_on_views_are_verified(backend):
    run = Program(backend, np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 4), np.float32))
    right, left = (index(whole((3, 4)), (slice(None), part)) for part in (slice(1, None), slice(None, -1)))
    run.assign((0, right), "Abs", (0, left))
    run.assign(
        (0, index(left, slice(None, None, -1))),
        "BatchMatmul",
        (0, right),
        (1, index(whole((4, 4)), (slice(3), slice(3)))),
    )
    with nn.verify() as checks:
        run.run()
    assert checks.checked


def test_plans_on_views_run_on_arrays_of_a_device():
    rng = np.random.default_rng(0)
    given = rng.normal(size=(6, 8)).astype(np.float32)
    graph = Graph(Context(["sim"], fallback="raise"))
    base = graph.external(0, ArrayDesc((6, 8)))
    x = graph.window(base, index(whole((6, 8)), (slice(None, None, -1), slice(1, None, 3))))
    plan = lower(graph, [graph.op("Tanh", graph.op("BatchMatmul", x, x, transpose_b=True))])
    assert PlanOnDevice.fits(plan)
    memories = [plan.slots[number].memory for number in (plan.requests[0][3], plan.targets[0])]
    place = plan.slots[0].place
    storages = [DeviceStorage(place, size, np.dtype(np.float32)) for size in (48, 36)]
    place.array_class.upload(given.reshape(-1), storages[0].buffer)
    PlanOnDevice(plan, memories).run([storage.address for storage in storages])
    got = np.empty(36, np.float32)
    place.download(storages[1].buffer, got)
    part = given[::-1, 1::3]
    np.testing.assert_allclose(got.reshape(6, 6), np.tanh(part @ part.T), rtol=1e-5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=st.lists(statements(), min_size=1, max_size=3))
def test_views_on_a_device_without_strides_are_copied_by_the_reference(without_windows, program):
    run = Program(without_windows, *(np.arange(12, dtype=np.float32).reshape(shape) - 5 for shape in SHAPES))
    for target, operands in program:
        # One that changes as a whole changes on the device, of which the host has only copies then.
        if is_injective(target[1]) and target[1] != whole(SHAPES[target[0]]):
            run.assign(target, "Add2", *operands)
        run.result("Abs", target)
    run.run()


@pytest.mark.parametrize("name", CONTEXTS)
def test_updates_in_place_change_windows(name):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 6)).astype(np.float32) for _ in range(2)]
    run = Program(name, *arrays)
    left, right = (index(whole((4, 6)), (slice(None, None, -1), part)) for part in (slice(0, 3), slice(2, 5)))
    for g in ((1, left), (0, right)):
        run.graph.op("SgdUpdate", run.value(0, left), run.value(*g), lr=0.5)
        run.array(0, left)[...] -= 0.5 * run.array(*g)
    run.run()


def test_updates_of_windows_are_made_on_copies_where_they_take_no_strides(without_windows):
    arrays = [np.arange(24, dtype=np.float32).reshape(4, 6) for _ in range(2)]
    run = Program(without_windows, *arrays)
    part = index(whole((4, 6)), (slice(None), slice(1, 3)))
    run.graph.op("SgdUpdate", run.value(0, part), run.value(1, part), lr=0.5)
    run.array(0, part)[...] *= 0.5
    plan = run.run()
    assert [(step.name, step.backend) for step in plan.steps if step.backend != "engine"] == [
        ("Identity", "reference"), ("Identity", "reference"), ("SgdUpdate", "sim"), ("Assign", "reference")
    ]  # fmt: skip


@pytest.mark.parametrize("backend", CONTEXTS)
@settings(max_examples=30, deadline=None)
@given(program=st.lists(statements(), min_size=1, max_size=3))
def test_views_of_one_array_under_two_names_are_of_one_array(backend, program):
    values = np.arange(12, dtype=np.float32) - 5
    run = Program(backend, *(values.reshape(shape) for shape in SHAPES), aliases=(0, 0))
    run.cells[1] = run.cells[0]
    run.wanted[1] = run.wanted[0].reshape(SHAPES[1])
    for target, operands in program:
        if is_injective(target[1]):
            run.assign(target, "Add2", *operands)
        run.result("Abs", target)
    run.run()


@settings(max_examples=30, deadline=None)
@given(program=st.lists(statements(), min_size=1, max_size=3))
def test_kernels_that_formulas_are_compiled_into_read_views(program):
    with atled_sim.compile_formulas():
        run = Program("sim", *(np.arange(12, dtype=np.float32).reshape(shape) - 5 for shape in SHAPES))
        for target, operands in program:
            run.result("MulScalar", operands[0])
            if is_injective(target[1]):
                run.assign(target, "Add2", *operands)
        run.run()


def test_a_window_that_repeats_elements_is_no_target():
    run = Program("reference", np.zeros((3, 4), np.float32))
    wide = run.value(0, broadcast_to(whole((3, 4)), (2, 3, 4)))
    with pytest.raises(RefusedError, match="some of its elements are one"):
        run.graph.assign(wide, run.value(0, whole((3, 4))))


def test_a_formula_that_is_assigned_to_a_whole_array_is_carried():
    pytest.importorskip("atled_cpu_numba")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(32, 32)).astype(np.float32) for _ in range(3)]
    run = Program("cpu", *arrays)
    graph, square = run.graph, whole((32, 32))
    product = graph.op("BatchMatmul", run.value(0, square), run.value(1, square))
    graph.assign(run.value(2, square), graph.op("ReLU", product))
    run.wanted[2][...] = np.maximum(arrays[0] @ arrays[1], 0)
    plan = run.run()
    assert [step.label for step in plan.steps if step.carried] == ["BatchMatmul+ReLU+Assign"]
    product_slot, target_slot = (plan.slots[step.arguments[-1]] for step in plan.steps)
    assert product_slot.memory == target_slot.memory


@pytest.mark.parametrize("order", ["channel_first", "channel_last"])
def test_views_of_images_are_those_of_the_order_they_have(order):
    rng = np.random.default_rng(0)
    shapes = (2, 3, 4, 4), (2, 3, 1, 1), (2, 2, 4, 4)
    with atled_sim.prefer_layout(order):
        run = Program("sim", *(rng.normal(size=shape).astype(np.float32) for shape in shapes))
        graph, (images, weight, target) = run.graph, run.wanted
        turned = run.value(0, index(whole(shapes[0]), (slice(None), slice(None), slice(None, None, -1))))
        made = graph.op("Convolution", turned, run.value(1, index(whole(shapes[1]), (slice(None, None, -1),))), None)
        graph.assign(run.value(2, index(whole(shapes[2]), (..., slice(None, None, -1)))), graph.op("Tanh", made))
        wanted = np.tanh(np.einsum("nchw,kc->nkhw", images[:, :, ::-1], weight[::-1, :, 0, 0]))
        run.results.append(
            (
                graph.op("Transpose", graph.window(made, index(made.window, (0, 0, ...))), axes=(1, 0)),
                np.arctanh(wanted)[0, 0].T,
            )
        )
        target[..., ::-1] = wanted
        run.run()
