"""Where parameters are written at nearly every call, an inference computes nothing of them once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.graph.inference.restlessness import Restlessness
from atled.inferring import Inference
from atled_contexts import Context

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"], fallback="quiet"),
    "reference": Context(["reference:float"]),
}

A_FEW = 4  # calls, each after a write, behind which an inference has seen enough


@pytest.fixture(params=CONTEXTS, autouse=True)
def context(request: pytest.FixtureRequest) -> Iterator[str]:
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(CONTEXTS[request.param]):
        yield request.param
    nn.clear_parameters()


def network() -> tuple[nn.Variable, nn.Variable]:
    x = nn.Variable((2, 3, 8, 8))
    h = PF.convolution(x, 16, (3, 3), pad=(1, 1), name="c")
    h = F.max_pooling(F.relu(PF.batch_normalization(h, batch_stat=False, name="c")), (2, 2))
    h = PF.batch_normalization(F.tanh(h), batch_stat=False, name="alone")
    shift = nn.parameter.get_parameter_or_create("shift", (1, 40), np.ones((1, 40)))
    weight = nn.parameter.get_parameter_or_create("weight", (256, 40), np.ones((256, 40)) / 256)
    return x, F.affine(h, F.tanh(weight)) + shift


def inputs(count: int = 2) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 3, 8, 8)).astype(np.float32)


def write(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name, variable in nn.get_parameters(grad_only=False).items():
        values = rng.standard_normal(variable.shape) * 0.3
        variable.d = abs(values) + 0.5 if name.endswith(("gamma", "var")) else values


def forward_of(x: nn.Variable, y: nn.Variable, values: np.ndarray) -> np.ndarray:
    x.d = values
    y.forward()
    return y.d.copy()


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def is_restless(infer: Inference) -> bool:
    return bool(nn.explain(infer).note)


def restless() -> tuple[nn.Variable, nn.Variable, Inference]:
    x, y = network()
    infer = nn.inference(y, x)
    for seed in range(A_FEW):
        write(seed)
        infer(inputs())
    return x, y, infer


def test_what_is_written_before_each_call_is_computed_by_the_calls():
    x, y = network()
    infer = nn.inference(y, x)
    for seed in range(2 * A_FEW):
        write(seed)
        assert is_restless(infer) == (seed > A_FEW)
        assert_close(infer(inputs()), forward_of(x, y, inputs()))
    assert nn.memory_statistics()["caches"]["bytes of values of inferences"] == 0
    explained = str(nn.explain(infer))
    assert "computed once\n" not in explained and explained.endswith("find them as they were.")


def test_it_is_folded_again_where_parameters_rest():
    x, y, infer = restless()
    wanted = nn.inference(y, x)(inputs())
    assert_close(infer(inputs()), wanted)
    assert is_restless(infer)
    assert np.array_equal(infer(inputs()), wanted)
    assert not is_restless(infer)
    assert np.array_equal(infer(inputs()), wanted)


def test_inputs_of_all_shapes_have_learnt_it():
    x, y, infer = restless()
    write(1)
    for count in (1, 3):
        write(count)
        assert_close(infer(inputs(count))[:1], nn.inference(y, x)(inputs(count))[:1])
        assert is_restless(infer)


def test_a_trace_sees_the_plan_that_calls_run():
    _, _, infer = restless()
    write(8)
    with nn.trace() as trace:
        seen = infer(inputs())
    assert is_restless(infer) and trace.rows()
    write(8)
    assert np.array_equal(infer(inputs()), seen)


def test_what_serves_enough_calls_is_folded_at_each_write():
    x, y = network()
    infer = nn.inference(y, x)
    for seed in range(A_FEW + 2):
        write(seed)
        for _ in range(8):
            infer(inputs())
        assert not is_restless(infer)


def test_only_what_rests_is_packed(context):
    if context != "cpu":
        pytest.skip("only kernels of backend cpu have packs")
    before = nn.memory_statistics()["caches"]["bytes of constants"]
    x = nn.Variable((64, 256))
    infer = nn.inference(PF.affine(F.relu(PF.affine(x, 256, name="rests")), 256, name="written"), x)
    values = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    written = nn.get_parameters()["written/affine/W"]
    wanted = infer(values)
    both = nn.memory_statistics()["caches"]["bytes of constants"] - before
    for _ in range(2 * A_FEW):
        written.d = written.d
        assert np.array_equal(infer(values), wanted), "with and without packs"
    assert is_restless(infer)
    assert 0 < nn.memory_statistics()["caches"]["bytes of constants"] - before <= both // 2


def test_a_plan_that_reads_parameters_themselves_needs_no_other_one():
    x = nn.Variable((1, 4))
    scale = nn.parameter.get_parameter_or_create("scale", (1, 4), np.ones((1, 4)))
    infer = nn.inference(F.tanh(x * scale), x)
    for seed in range(3 * A_FEW):
        scale.d = seed
        assert_close(infer(np.ones((1, 4), np.float32)), np.full((1, 4), np.tanh(seed, dtype=np.float32)))
    assert not is_restless(infer)


def test_threads_beside_a_writer_get_what_the_parameters_give():
    x, y = network()
    infer = nn.inference(y, x)
    write(0)
    wanted = nn.inference(y, x)(inputs())
    shift = nn.get_parameters()["shift"].d.copy()
    wrong: list[np.ndarray] = []

    def serve() -> None:
        for _ in range(60):
            found = infer(inputs())
            if np.abs(found - wanted).max() > 2e-5 * np.abs(wanted).max():
                wrong.append(found)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        nn.get_parameters()["shift"].d = shift
    for thread in threads:
        thread.join()
    assert not wrong


def quiet() -> bool:
    return True


def noisy() -> bool:
    return False


def patience(seen: Restlessness, is_quiet: Callable[[], bool] = quiet) -> int:
    """How many runs do without."""
    count = 0
    while seen.lasts(is_quiet):
        count += 1
    return count


def test_three_times_in_vain_are_enough():
    seen = Restlessness()
    for _ in range(2):
        seen.note_end(1)
        assert not seen.is_seen
    seen.note_end(7)
    assert seen.is_seen


def test_what_was_worth_it_ends_the_row():
    seen = Restlessness()
    for runs in (1, 1, 8, 1, 1):
        seen.note_end(runs)
    assert not seen.is_seen


def test_patience_doubles_up_to_a_bound():
    seen = Restlessness()
    found = []
    for _ in range(12):
        seen.note_end(0)
        if seen.is_seen:
            found.append(patience(seen))
    assert found == [0, 1, 3, 7, 15, 31, 63, 63, 63, 63]


def test_a_write_begins_the_count_anew():
    seen = Restlessness()
    for _ in range(4):
        seen.note_end(0)
        if seen.is_seen:
            patience(seen)
    seen.note_end(0)
    assert seen.lasts(quiet) and seen.lasts(quiet) and seen.lasts(noisy)
    assert patience(seen) == 3
