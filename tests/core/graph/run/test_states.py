"""A run that fails leaves running statistics, and what else steps move beside parameters, as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.random
import atled.solvers as S
from atled.arrays.epoch import WRITES
from atled.function import PythonFunction
from atled.graph import rebuilt_forward
from atled.graph.run import binding
from atled_contexts import Context

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "half": Context(["cpu:half", "reference:half"]),
    "reference": Context(["reference:float"]),
}

LABELS = np.array([[0], [1], [2], [1]])
IMAGES = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


@pytest.fixture(params=CONTEXTS, autouse=True)
def context(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    monkeypatch.setattr(atled.random, "_SEEDS", atled.random._Seeds())
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(CONTEXTS[request.param]):
        yield CONTEXTS[request.param]
    nn.clear_parameters()


class Stops(PythonFunction):
    """The identity, until it is to raise something."""

    error: BaseException | None = None

    @property
    def name(self) -> str:
        return "Stops"

    def min_outputs(self) -> int:
        return 1

    def setup_impl(self, inputs: Any, outputs: Any) -> None:
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs: Any, outputs: Any) -> None:
        if self.error is not None:
            raise self.error
        outputs[0].data.copy_from(inputs[0].data)

    def backward_impl(self, inputs: Any, outputs: Any, propagate_down: Any, accum: Any) -> None:
        inputs[0].grad.copy_from(outputs[0].grad)


def normalized(x: nn.Variable) -> nn.Variable:
    h = PF.mean_subtraction(x, base_axis=1, name="m")
    h = PF.batch_normalization(PF.affine(h, 5, name="a"), name="a")
    return PF.affine(PF.batch_normalization(F.dropout(F.relu(h), 0.4), name="b"), 3, name="c")


def network(is_stopped: bool = False) -> tuple[nn.Variable, nn.Variable, nn.Variable]:
    nn.seed(3)
    x, t = nn.Variable((4, 6)), nn.Variable((4, 1))
    h = normalized(x)
    return x, t, F.mean(F.softmax_cross_entropy(Stops()(h) if is_stopped else h, t))


def values() -> dict[str, np.ndarray]:
    return {name: variable.d.copy() for name, variable in nn.get_parameters(grad_only=False).items()}


def check_unmoved(run: Callable[[np.ndarray], object], labels: np.ndarray, error: type[BaseException]) -> None:
    before = values()
    with pytest.raises(error):
        run(labels)
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def compiled(is_stopped: bool = False) -> Callable[[np.ndarray], object]:
    x, t, loss = network(is_stopped)
    solver = S.Adam(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    return lambda labels: step(IMAGES, labels).d.copy()


def separate(is_stopped: bool = False) -> Callable[[np.ndarray], object]:
    x, t, loss = network(is_stopped)
    x.d = IMAGES

    def run(labels: np.ndarray) -> np.ndarray:
        t.d = labels
        loss.forward()
        return loss.d.copy()

    return run


def rebuilt() -> Callable[[np.ndarray], object]:
    """Graphs recorded anew at each step, without numbers drawn, whose later ones run by the plan of the first."""
    x, t = nn.Variable((4, 6)), nn.Variable((4, 1))
    x.d = IMAGES

    def run(labels: np.ndarray) -> np.ndarray:
        t.d = labels
        h = PF.batch_normalization(PF.affine(x, 5, name="a"), name="a")
        loss = F.mean(F.softmax_cross_entropy(PF.affine(F.relu(h), 3, name="c"), t))
        loss.forward()
        return loss.d.copy()

    return run


@pytest.mark.parametrize("make", [compiled, separate, rebuilt])
def test_a_label_out_of_range_moves_nothing(make: Callable[[], Callable[[np.ndarray], object]]) -> None:
    run = make()
    for _ in range(4):
        run(LABELS)
    for _ in range(2):
        check_unmoved(run, LABELS + 1, IndexError)
    before = values()
    run(LABELS)
    assert any((value != before[name]).any() for name, value in values().items() if name.endswith("mean"))


@pytest.mark.parametrize("make", [compiled, separate])
def test_a_run_after_one_that_failed_is_as_if_that_had_not_been(
    make: Callable[[], Callable[[np.ndarray], Any]],
) -> None:
    found = []
    for fails in (False, True):
        nn.clear_parameters()
        np.random.seed(5)
        run = make()
        run(LABELS)
        if fails:
            check_unmoved(run, LABELS + 7, IndexError)
        found.append((run(LABELS), values()))
    (loss, wanted), (other, moved) = found
    assert loss == other
    for name, value in wanted.items():
        np.testing.assert_array_equal(moved[name], value, err_msg=name)


@pytest.mark.parametrize("make", [compiled, separate])
@pytest.mark.parametrize("error", [ArithmeticError(), KeyboardInterrupt()])
def test_what_code_of_the_user_raises_moves_nothing(
    make: Callable[[bool], Callable[[np.ndarray], object]], error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(True)
    run(LABELS)
    monkeypatch.setattr(Stops, "error", error)
    check_unmoved(run, LABELS, type(error))


@pytest.mark.parametrize("make", [compiled, separate, rebuilt])
def test_an_interrupt_as_a_run_begins_leaves_no_array_that_is_being_written(
    make: Callable[[], Callable[[np.ndarray], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an inference in another thread would wait for the end of that write."""

    class Interrupted:
        def __init__(self) -> None:
            self.is_due = True

        def __next__(self) -> int:
            if self.is_due:
                self.is_due = False
                raise KeyboardInterrupt
            return next(WRITES)

    found = []
    for is_interrupted in (False, True):
        nn.clear_parameters()
        np.random.seed(5)
        run = make()
        for _ in range(4):
            run(LABELS)
        if is_interrupted:
            for module in (binding, rebuilt_forward):
                monkeypatch.setattr(module, "WRITES", Interrupted())
            check_unmoved(run, LABELS, KeyboardInterrupt)
            cells = [variable.data.cell for variable in nn.get_parameters(grad_only=False).values()]
            assert not [cell for cell in cells if cell.writer]
            monkeypatch.undo()
            monkeypatch.setattr(atled.random, "_SEEDS", atled.random._Seeds())
        found.append(run(LABELS))
    assert found[0] == found[1], "the same numbers were drawn"


def test_nothing_is_saved_where_nothing_can_fail(context: Context) -> None:
    h = PF.batch_normalization(PF.affine(nn.Variable((4, 6)), 5, name="d"), name="d")
    if context is CONTEXTS["cpu"]:
        assert not F.mean(h).plan.states
    _, _, loss = network()
    assert len(loss.plan.states) == 6  # means and variances, and the mean and the count of mean subtraction


def test_weights_that_a_layer_only_writes_are_not_saved() -> None:
    t = nn.Variable((4, 1))
    h = PF.binary_connect_affine(nn.Variable((4, 6)), 3, name="e")
    assert not F.mean(F.softmax_cross_entropy(h, t)).plan.states
