"""What plans need only while they run is in arenas, which they share."""

import gc
import os
import sys
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
import atled_sim
from atled.arrays.arena import arenas_on
from atled.arrays.place import place_on
from atled.calling.python_function import PythonFunction
from atled.errors import DeviceLostError
from atled_contexts import context_scope, reload_plugins
from atled_sim import faults
from atled_sim.plugin import ARRAY_CLASS

sys.path.append(os.path.dirname(__file__))  # for network: pytest's importlib mode leaves this folder off the path

from network import Training, assert_same_bits

REFERENCE = nn.Context("reference")
PLACE = place_on(ARRAY_CLASS, "0")


@pytest.fixture(autouse=True)
def no_arenas():
    """What earlier tests left is gone."""
    gc.collect()
    nn.clear_memory_cache()
    assert not arenas_on(PLACE)


def chain(context, size=100, seed=0):
    """Several steps whose values stay within the plan; the array, and the graph's end."""
    rng = np.random.default_rng(seed)
    x = nn.Variable.from_numpy_array(rng.standard_normal((2, size), "f"))
    with context_scope(context):
        h = F.softmax(F.flip(x, (1,)) * 2)
        y = F.flip(F.softmax(h + F.flip(h, (0,))), (1,))
    return x, y


def expected(x):
    """What a chain gives for the values that its array has now."""
    copy, y = chain(REFERENCE, x.shape[1])
    copy.d = x.d
    return forward(y)


def forward(y):
    y.forward()
    return y.d.copy()


def arenas_of(y):
    return y.value.details.roots.forward.binding._arenas


def poison(device):
    """Overwrite all arenas."""
    found = arenas_on(PLACE)
    for arena in found:
        device.fill(arena.storage.buffer, 0xFF)
    return found


def words(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def test_inner_values_are_dead_between_runs(sim, device):
    wanted = Training(REFERENCE).run(4)
    training = Training(sim)
    step = training.step

    def poisoned_step():
        poison(device)
        return step()

    training.step = poisoned_step
    assert_same_bits(training.run(4), wanted)
    assert poison(device)


@pytest.mark.parametrize("dynamic", [False, True])
def test_training_in_arenas_gives_the_bits_of_the_reference(sim, dynamic):
    assert_same_bits(Training(sim).run(3, dynamic), Training(REFERENCE).run(3, dynamic))


def test_graphs_of_a_thread_share_one_arena(sim):
    graphs = [chain(sim, seed=seed) for seed in range(3)]
    for _ in range(2):
        for x, y in graphs:
            np.testing.assert_array_equal(forward(y), expected(x))
    assert len({id(arena) for _, y in graphs for arena in arenas_of(y)}) == 1


def test_graphs_move_to_a_larger_arena_once_there_is_one(sim):
    small, large = chain(sim, 100), chain(sim, 5000)
    np.testing.assert_array_equal(forward(small[1]), expected(small[0]))
    np.testing.assert_array_equal(forward(large[1]), expected(large[0]))
    assert arenas_of(small[1]) != arenas_of(large[1])
    np.testing.assert_array_equal(forward(small[1]), expected(small[0]))
    assert arenas_of(small[1]) == arenas_of(large[1])
    assert arenas_on(PLACE) == arenas_of(large[1])


def test_a_program_is_made_anew_where_its_arrays_moved(sim, device):
    small, large = chain(sim, 100), chain(sim, 5000)
    wanted = expected(small[0])
    device.reset_counts()
    for _ in range(4):
        forward(small[1])
    assert (device.counts.programs, device.counts.replays) == (1, 3)
    forward(large[1])
    for _ in range(4):
        poison(device)
        np.testing.assert_array_equal(forward(small[1]), wanted)
    assert (device.counts.programs, device.counts.replays) == (2, 6)


def test_an_arena_goes_with_the_last_graph(sim, device):
    gc.collect()
    before = device.memory.bytes_in_use
    graphs = [chain(sim, seed=seed) for seed in range(2)]
    for _, y in graphs:
        y.forward()
    assert len(arenas_on(PLACE)) == 1
    del graphs[0]
    gc.collect()
    assert len(arenas_on(PLACE)) == 1
    del graphs, y, _
    gc.collect()
    assert not arenas_on(PLACE)
    assert device.memory.bytes_in_use == before


def test_a_graph_that_another_thread_runs_meanwhile_takes_another_arena(sim):
    (x, y), (other_x, other_y) = chain(sim, seed=0), chain(sim, seed=1)
    forward(y)
    forward(other_y)
    (arena,) = arenas_of(y)
    assert arenas_of(other_y) == [arena]
    found = []
    arena.free.pop()  # as if the first one were running
    thread = threading.Thread(target=lambda: found.append(forward(other_y)))
    thread.start()
    thread.join()
    arena.free.append(True)
    np.testing.assert_array_equal(found[0], expected(other_x))
    assert arenas_of(other_y) != [arena]
    np.testing.assert_array_equal(forward(y), expected(x))
    assert arenas_of(y) == [arena]


def test_a_graph_that_finds_no_memory_to_move_to_runs_later_where_it_was(sim):
    x, y = chain(sim)
    for _ in range(4):
        wanted = forward(y)
    (arena,) = arenas_of(y)
    x.d = x.d * 2
    arena.free.pop()  # as if another thread were running a graph there
    with faults.fail("allocation"), pytest.raises(atled_sim.SimFault) as caught:
        y.forward()
    assert "memory on SimArray:0 for a plan of 6 steps" in words(caught.value)
    np.testing.assert_array_equal(y.d, wanted)
    arena.free.append(True)
    np.testing.assert_array_equal(forward(y), expected(x))
    assert arenas_of(y) == [arena]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_threads_that_train_at_once_compute_what_each_does_alone(sim, is_compiled):
    """All graphs are planned in one thread, so that they begin with one arena."""

    def made(context, size):
        rng = np.random.default_rng(size)
        x = nn.Variable.from_numpy_array(rng.standard_normal((4, size), "f"))
        w = nn.Variable.from_numpy_array(rng.standard_normal((size, size), "f"), need_grad=True)
        solver = S.Adam(0.01)
        solver.set_parameters({"w": w})
        with context_scope(context):
            loss = F.mean(F.flip(F.softmax(F.affine(F.softmax(x), w)), (1,)) ** 2 * x)
            step = nn.compile_step(loss, solver) if is_compiled else None
        return context, w, loss, solver, step

    def train(training, count):
        context, _, loss, solver, step = training
        with context_scope(context):
            for _ in range(count):
                if step is not None:
                    step()
                    continue
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.update()

    sizes = (8, 40, 20)
    trainings = [made(sim, size) for size in sizes]
    for training in trainings:
        train(training, 4)
    threads = [threading.Thread(target=train, args=(training, 20)) for training in trainings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for training, size in zip(trainings, sizes, strict=True):
        alone = made(REFERENCE, size)
        train(alone, 24)
        np.testing.assert_array_equal(training[1].d, alone[1].d)


def test_threads_that_run_the_same_graphs_in_turn_compute_the_same(sim):
    graphs = [chain(sim, 300, seed) for seed in range(4)]
    wanted = [expected(x) for x, _ in graphs]
    for _, y in graphs:
        y.forward()
    failures = []

    def run(start):
        for turn in range(40):
            number = (start + turn) % len(graphs)
            graphs[number][1].forward()
            found = graphs[number][1].d
            if not np.array_equal(found, wanted[number]):
                failures.append(number)

    threads = [threading.Thread(target=run, args=(start,)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class RunsAnother(PythonFunction):
    """The identity, which runs a graph amid its own and keeps what it was given."""

    def __init__(self, other):
        super().__init__()
        self.other = other
        self.kept = []

    @property
    def name(self):
        return "RunsAnother"

    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        self.other.forward()
        self.kept.append(inputs[0].data)
        outputs[0].data.copy_from(inputs[0].data)

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        raise NotImplementedError


def test_a_graph_that_runs_amid_another_one_leaves_its_values_alone(sim, device):
    other_x, other_y = chain(sim, seed=1)
    forward(other_y)
    x = nn.Variable.from_numpy_array(np.random.default_rng(3).standard_normal((2, 100), "f"))
    function = RunsAnother(other_y)
    with context_scope(sim):
        h = F.flip(x, (1,))
        y = F.flip(h, (0,)) + F.flip(function(F.flip(h, (1,))), (0,))
    for _ in range(3):
        y.forward()
        np.testing.assert_array_equal(y.d, x.d[::-1, ::-1] + x.d[::-1])
        np.testing.assert_array_equal(other_y.d, expected(other_x))
    poison(device)
    np.testing.assert_array_equal(function.kept[0].data, x.d)  # what user code keeps is in no arena


def test_under_a_trace_and_a_verification_values_are_the_same(sim):
    x, y = chain(sim)
    wanted = expected(x)
    with nn.trace():
        np.testing.assert_array_equal(forward(y), wanted)
    with nn.verify():
        np.testing.assert_array_equal(forward(y), wanted)


def test_a_graph_on_two_devices_has_an_arena_on_each(sim):
    x = nn.Variable.from_numpy_array(np.random.default_rng(3).standard_normal((2, 100), "f"))
    with context_scope(sim):
        h = F.softmax(F.flip(x, (1,)) * 2)
    with context_scope(nn.get_extension_context("sim", device_id="1", fallback="raise")):
        y = F.flip(F.softmax(h + F.flip(h, (0,))), (1,))
    for _ in range(3):
        np.testing.assert_array_equal(forward(y), expected(x))
        x.d = x.d[::-1].copy()
    assert [arena.storage.place.device_id for arena in arenas_of(y)] == ["0", "1"]


def test_memory_does_not_grow_over_a_thousand_steps(sim, device):
    training = Training(sim)
    with atled_sim.empty():
        training.run(3)
        gc.collect()
        before = device.memory.bytes_in_use, device.memory.block_count
        device.memory.reset_peak()
        peak = device.memory.peak_bytes
        training.run(1000)
        gc.collect()
        assert (device.memory.bytes_in_use, device.memory.block_count) == before
        assert device.memory.peak_bytes == peak


def test_without_memory_for_an_arena_arrays_are_as_they_were(sim):
    """Every allocation fails once, in forward and in backward; then all is computed as if none had."""
    wanted = Training(REFERENCE).run(2)
    for nth in range(1, 200):
        training = Training(sim)
        training.feed()
        before = {name: v.d.copy() for name, v in nn.get_parameters(grad_only=False).items()}
        with faults.fail("allocation", nth) as fault:
            try:
                training.loss.forward()
                training.loss.backward()
            except atled_sim.SimFault as error:
                assert "device '0'" in words(error)
        if not fault.happened:
            break
        for name, v in nn.get_parameters().items():
            np.testing.assert_array_equal(v.d, before[name], err_msg=name)
    assert nth > 20
    assert_same_bits(Training(sim).run(2), wanted)


def test_the_error_names_the_plan_its_sizes_and_who_has_the_memory(sim, monkeypatch):
    _, held = chain(sim, 100)
    held.forward()
    _, y = chain(sim, 5000)
    allocate = type(ARRAY_CLASS).allocate

    def full(self, desc, device_id):
        if desc.dtype == np.uint8:
            raise MemoryError("the card is full")
        return allocate(self, desc, device_id)

    with monkeypatch.context() as patches:
        patches.setattr(type(ARRAY_CLASS), "allocate", full)
        with pytest.raises(RuntimeError) as caught:
            y.forward()
    text = str(caught.value)
    assert "memory on SimArray:0 for a plan of 6 steps, Flip to Flip" in text
    assert "there is none for" in text and "the card is full" in text
    assert "in memory shared by plans: " in text and "by a plan of 6 steps" in text
    assert "in use on SimArray:0: " in text
    assert np.isfinite(forward(y)).all()


@pytest.mark.parametrize(
    ("kind", "said", "is_for_want_of_memory"),
    [
        (DeviceLostError, ("SimArray:0", "it fell off the bus"), False),
        (RuntimeError, ("cudaErrorIllegalAddress",), False),
        (RuntimeError, ("cudaErrorMemoryAllocation",), True),
        (RuntimeError, ("CL_MEM_OBJECT_ALLOCATION_FAILURE",), True),
        (RuntimeError, ("out of memory",), True),
    ],
)
def test_only_want_of_memory_is_told_as_such(sim, monkeypatch, kind, said, is_for_want_of_memory):
    _, y = chain(sim, 5000)

    allocate = type(ARRAY_CLASS).allocate

    def broken(self, desc, device_id):
        if desc.dtype == np.uint8:
            raise kind(*said)
        return allocate(self, desc, device_id)

    with monkeypatch.context() as patches:
        patches.setattr(type(ARRAY_CLASS), "allocate", broken)
        with pytest.raises(kind) as caught:
            y.forward()
    text = words(caught.value)
    assert ("there is none for" in text and "smaller batches" in text) == is_for_want_of_memory
    assert "a plan of 6 steps, Flip to Flip" in text
    assert np.isfinite(forward(y)).all()


def test_statistics_and_plans_tell_what_arenas_take(sim):
    _, y = chain(sim)
    y.forward()
    assert "4 of them in 2048 bytes on SimArray:0" in str(y.plan)
    (arena,) = arenas_of(y)
    counted = nn.memory_statistics()["SimArray:0"]
    assert counted["arena_bytes"] == arena.storage.nbytes <= counted["bytes_in_use"]


@pytest.fixture
def without_parts():
    """Plans that are made in the test know of no parts."""
    reload_plugins()
    PLACE.has_parts = False
    yield
    PLACE.has_parts = True
    reload_plugins()


def test_a_class_without_parts_gets_separate_arrays(sim, without_parts):
    x, y = chain(sim)
    np.testing.assert_array_equal(forward(y), expected(x))
    assert not arenas_of(y)


def test_a_run_amid_another_of_the_same_binding_is_right(sim, monkeypatch):
    """As a finalizer or a signal handler may do it."""
    x, y = chain(sim)
    forward(y)
    launched = []
    start = atled_sim.device("0").start_launch

    def nested(words):
        start(words)
        launched.append(words)
        if len(launched) == 4:
            y.forward()

    monkeypatch.setattr(atled_sim.device("0"), "start_launch", nested)
    for observed in (False, True):
        launched.clear()
        if observed:
            with nn.trace():
                y.forward()
        else:
            y.forward()
        assert len(launched) > 6
        np.testing.assert_array_equal(y.d, expected(x))
