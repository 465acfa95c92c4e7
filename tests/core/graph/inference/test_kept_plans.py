"""Plans of an inference stay for many shapes, run in the same memory, and are bounded, counted and cleared."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled import inferring
from atled.graph.inference.kept_plans import KeptPlans
from atled.inferring import Inference
from atled_contexts import Context

WIDTH = 16


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(Context(["cpu:float", "reference:float"])):
        yield
    nn.clear_parameters()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The descs that plans were made for."""
    made = []
    compile_inference = inferring.compile_inference

    def noted(recorded: Any, descs: Any, *given: Any) -> Any:
        made.append(descs)
        return compile_inference(recorded, descs, *given)

    monkeypatch.setattr(inferring, "compile_inference", noted)
    return made


def affine() -> Inference:
    x = nn.Variable((2, WIDTH))
    return nn.inference(F.relu(PF.affine(F.tanh(x), 3, name="a")), x)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, WIDTH)).astype(np.float32)


def caches() -> dict[str, int]:
    found: dict[str, int] = nn.memory_statistics()["caches"]
    return found


def test_forty_shapes_in_turn_are_planned_once_each(compiled):
    infer = affine()
    for _ in range(2):
        for count in range(1, 41):
            infer(rows(count))
    assert len(compiled) == 40


def test_what_was_computed_in_the_same_memory_before_is_not_seen():
    infer = affine()
    wanted = {count: affine()(rows(count)) for count in range(5)}
    for count in (1, 4, 2, 0, 3, 4, 1):
        np.testing.assert_array_equal(infer(rows(count)), wanted[count])


def test_all_plans_run_in_the_memory_of_the_largest():
    nn.clear_memory_cache()
    infer = affine()
    infer(rows(400))
    largest = caches()["bytes of working memory of inferences"]
    for count in range(1, 50):
        infer(rows(count))
    assert caches()["bytes of working memory of inferences"] == largest > 0


def test_what_plans_keep_is_counted_and_cleared():
    nn.clear_memory_cache()
    infer = affine()
    for count in (1, 2, 3):
        infer(rows(count))
    assert caches()["plans of inferences"] == 3
    first = infer(rows(1))
    nn.clear_memory_cache()
    assert caches()["plans of inferences"] == caches()["bytes of working memory of inferences"] == 0
    np.testing.assert_array_equal(infer(rows(1)), first)


def test_threads_of_many_shapes_get_what_each_asked_for():
    infer = affine()
    wanted = {count: affine()(rows(count)) for count in range(1, 30)}
    wrong = []

    def serve(first: int) -> None:
        for turn in range(60):
            count = 1 + (first + 7 * turn) % 29
            if not np.array_equal(infer(rows(count)), wanted[count]):
                wrong.append(count)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        nn.clear_memory_cache()
    for thread in threads:
        thread.join()
    assert not wrong


def test_plans_that_rest_keep_no_values_of_parameters_that_were_written_since():
    x = nn.Variable((1, 3, 8, 8))
    h = PF.convolution(x, 8, (3, 3), name="c")
    infer = nn.inference(F.relu(PF.batch_normalization(h, batch_stat=False, name="n")), x)
    weight = nn.get_parameters()["c/conv/W"]
    infer(np.ones((1, 3, 8, 8), np.float32))
    resting = next(iter(infer._plans._plans.values())).runner
    given = resting._known
    assert given is not None
    kept = [weakref.ref(storage) for storage in (*given.storages, *given.packed) if storage is not None]
    del given
    weight.d = 2
    infer(np.ones((2, 3, 8, 8), np.float32))
    gc.collect()
    assert resting._known is None and any(reference() is None for reference in kept)


def test_plans_that_rest_keep_no_arrays_that_were_replaced():
    infer = affine()
    weight = nn.get_parameters()["a/affine/W"]
    infer(rows(1))
    infer(rows(2))
    former = weakref.ref(weight.data.cell)
    weight.data = nn.NdArray.from_numpy_array(np.ones((WIDTH, 3), np.float32))
    infer(rows(3))
    gc.collect()
    assert former() is None and caches()["plans of inferences"] >= 1


class Sized:
    """Something like a plan."""

    def __init__(self, step_count: int) -> None:
        self.step_count = step_count
        self.is_let_go = False

    def let_go(self) -> None:
        self.is_let_go = True


def test_the_plans_that_were_not_used_lately_are_dropped_by_their_steps():
    plans: KeptPlans[Sized] = KeptPlans(steps_limit=30)
    first, second = Sized(9), Sized(9)
    plans.keep("a", first)
    plans.keep("b", second)
    plans.keep("c", Sized(9))
    plans.note_use("a", first)
    plans.keep("c", Sized(9))  # in the place of the other one
    plans.keep("d", Sized(9))
    assert plans.get("a") is first and plans.get("b") is None and second.is_let_go and len(plans) == 3


def test_a_plan_that_a_finalizer_makes_while_plans_are_dropped_is_used_from_then_on():
    class Finalized(Sized):
        def __del__(self) -> None:
            plans.keep("a", made)

    plans: KeptPlans[Sized] = KeptPlans(steps_limit=30)
    made = Sized(1)
    plans.keep("a", Finalized(1))
    plans.keep("b", Sized(1))
    plans.clear()
    assert plans.get("a") is made
    plans.note_use("a", made)
    assert plans.latest is made and len(plans) == 1


def test_a_plan_beyond_the_limit_is_kept_alone():
    plans: KeptPlans[Sized] = KeptPlans(steps_limit=3)
    plans.keep("a", Sized(1))
    plans.keep("b", Sized(100))
    assert plans.get("a") is None and plans.get("b") is not None


def test_one_thread_needs_one_memory():
    infer = affine()
    for count in (1, 3, 2):
        infer(rows(count))
    assert len(infer._plans.memories.idle) == 1
