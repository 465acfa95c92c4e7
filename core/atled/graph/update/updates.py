"""Programs of update ops: one run moves all parameters of a solver."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.errors import four_parts, listing
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANNING, PLANS
from atled.graph.nodes.ir import Graph
from atled.graph.record.structure import aliases_of, repeats
from atled.graph.run.binding import Binding, Progress
from atled.named_tuple import NamedTuple
from atled.ops.spec import SPECS
from atled.type_configs import computable, compute_dtype
from atled_contexts import Context, ContextError, backend_status, plugin_generation

_MOST_PLANS = 32


class Updated(NamedTuple):
    """The arrays of one parameter, of one shape: its values, its gradient and what a solver keeps for it."""

    shape: tuple[int, ...]
    cells: Sequence[ArrayCell]


class UpdatePlans(dict[Hashable, Binding]):
    """The bound programs of a solver by op names, Context and parameters; and what else is known of its parameters.

    parameters: the record of those whose gradients were changed last (`waiting_changes.Parameters`).
    gradients: the epoch, the parameters by name, and the gradients of all of them then.
    moved: those that moved last, and their identities.
    """

    __slots__ = ("__weakref__", "gradients", "moved", "parameters")

    def __init__(self) -> None:
        super().__init__()
        self._know_nothing()

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._know_nothing()

    def _know_nothing(self) -> None:
        self.parameters: object = None
        self.gradients: tuple[int, object, Sequence[ArrayCell]] = -1, None, ()
        self.moved: tuple[Sequence[object], tuple[int, ...]] = (), ()

    def identities(self, moved: Sequence[object]) -> tuple[int, ...]:
        """Those of parameters, which are in a list that does not change."""
        known, found = self.moved
        if known != moved:
            found = tuple(map(id, moved))
            self.moved = moved, found
        return found


def run_updates(
    ops: Sequence[str],
    key: Hashable,
    parameters: Callable[[], Sequence[Updated]],
    floats: Sequence[float],
    context: Context,
    plans: UpdatePlans,
    progress: Progress | None = None,
) -> None:
    """Run update ops, one after the other, on every parameter.

    Per parameter they are fused where the backend fuses: one pass over its arrays does it all.

    ops: names; the inputs "w" and "g" are values and gradient, others the states.
    key: which parameters these are.  parameters: called for their arrays where the program is not known.
    floats: the float attributes, per parameter and op; those of one parameter where they are the same for all.
    progress: is told whether all have run.
    """
    whole_key = (tuple(ops), context, key)
    bound = plans.get(whole_key)
    if bound is None or bound.epoch != EPOCH.but_need_grad:
        with PLANNING:
            epoch = EPOCH.but_need_grad
            if bound is None and len(plans) >= _MOST_PLANS:
                plans.clear()  # the parameters were replaced many times
            bound = plans[whole_key] = _bind(ops, parameters(), context, epoch, bound)
    bound.run(floats, progress)


def _bind(
    ops: Sequence[str],
    parameters: Sequence[Updated],
    context: Context,
    epoch: int,
    before: Binding | None,
) -> Binding:
    cells = [cell for parameter in parameters for cell in parameter.cells]
    descs = []
    for parameter in parameters:
        for cell in parameter.cells:
            cell.settle()
            assert cell.dtype is not None
            descs.append(ArrayDesc(parameter.shape, cell.dtype))
    aliases = aliases_of(cells)
    key = ("updates", tuple(ops), context, plugin_generation(), tuple(descs), repeats(aliases))
    if before is not None and before.holds(key, cells, epoch):
        return before
    width = len(cells) // len(parameters)
    plan = PLANS.get(key, lambda: _compile(ops, width, descs, aliases, context))
    return Binding(plan, cells, [], [0.0] * len(plan.floats), key=key, epoch=epoch)


def _compile(
    ops: Sequence[str], width: int, descs: Sequence[ArrayDesc], aliases: Sequence[int], context: Context
) -> Plan:
    """The plan for parameters of so many arrays each."""
    graph = Graph(context, aliases)
    for first in range(0, len(descs), width):
        # Half keeps fp32 master weights: the update runs in the precision of the parameter.
        wide = descs[first].dtype == np.float64
        graph.context = in_full_precision(context, "double" if wide else "float")
        arrays = [graph.external(first + i, descs[first + i]) for i in range(width)]
        for op in ops:
            spec = SPECS[op]
            attributes = {name: graph.float_from("solver", first // width, name) for name in spec.float_names}
            by_name = {"w": arrays[0], "g": arrays[1]}
            states = iter(arrays[2:])
            inputs = [by_name[name] if name in by_name else next(states) for name in spec.input_names]
            graph.op(op, *inputs, **attributes)
    return lower(graph, [])


def in_full_precision(context: Context, type_config: str) -> Context:
    """The Context with another type config, or with one of the same dtype for a backend that offers no such one."""
    if all(own == type_config for _, own in context.backends):
        return context
    names = list(dict.fromkeys(name for name, _ in context.backends))
    return context.replace(backend=[f"{name}:{_offered(name, type_config)}" for name in names])


def _offered(backend: str, type_config: str) -> str:
    info = backend_status(backend).info
    if info is None or type_config in info.type_configs:
        return type_config
    dtype = compute_dtype(type_config)
    found = next((name for name in computable(info.type_configs) if compute_dtype(name) == dtype), None)
    if found is None:
        raise ContextError(
            four_parts(
                f"updates of parameters in {dtype} by backend {backend!r}",
                "it offers no type config of that dtype",
                f"it offers {listing(info.type_configs)}",
                f"update in a Context of another backend, or have the plugin offer {type_config!r}",
            )
        )
    return found
