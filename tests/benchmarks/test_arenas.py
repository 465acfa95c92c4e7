"""The memory of plans of the benchmarks' networks on a device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
import atled_sim
from atled.arrays.arena import arenas_on
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.run import binding
from bench_rows.networks import NETWORKS
from bench_rows.training import RecordedLayers


class _Api:
    F, PF = F, PF


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Plan]]:
    """All plans that are bound in the test, on a device that computes nothing."""
    bound: list[Plan] = []
    bind = binding.Binding._bind_arenas

    def noted(self: binding.Binding) -> None:
        bound.append(self.plan)
        bind(self)

    monkeypatch.setattr(binding.Binding, "_bind_arenas", noted)
    nn.clear_parameters()
    with atled_sim.empty():
        yield bound
    PLANS.clear()
    nn.clear_parameters()


def most_alive(plan: Plan) -> int:
    """The largest sum of bytes, each array rounded up to the alignment, that one step needs or waits for."""
    ((place, layout),) = plan.arenas.items()
    touched = [{plan.slots[slot].memory for slot in step.arguments if slot >= 0} for step in plan.steps]
    alive = [0] * len(plan.steps)
    for memory, (_, nbytes) in layout.memories.items():
        numbers = [number for number, memories in enumerate(touched) if memory in memories]
        for number in range(numbers[0], numbers[-1] + 1):
            alive[number] += -(-nbytes // place.alignment) * place.alignment
    return max(alive)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_an_arena_is_hardly_larger_than_what_is_alive_at_one_step(plans, name):
    network = NETWORKS[name]
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")):
        x, t = nn.Variable((network.batch, *network.shape)), nn.Variable((network.batch, 1))
        loss = F.mean(F.softmax_cross_entropy(network.scores(RecordedLayers(_Api), x), t))
        solver = S.Adam() if network.solver == "adam" else S.Momentum()
        solver.set_parameters(nn.get_parameters())
        loss.forward()
        loss.backward()
        step = nn.compile_step(loss, solver)
        step()
    laid_out = [plan for plan in plans if plan.arenas]
    assert len(laid_out) >= 3
    for plan in laid_out:
        ((place, layout),) = plan.arenas.items()
        assert layout.nbytes <= 1.05 * most_alive(plan), plan.title
    (largest, *_) = arenas_on(place)
    assert largest.storage.nbytes <= 1.05 * max(most_alive(plan) for plan in laid_out)
