"""From a call and its graph to what the engine runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from atled.plugin import ArrayDesc, Call, Prepared
from atled_cudnn import plans
from atled_cudnn.constants import DATA_TYPES, Note
from atled_cudnn.descriptors import Node
from atled_cudnn.plans import Packs, Plan, Refusal, Wanted

_ROUNDING = frozenset({Note.DOWN_CONVERT_INPUTS, Note.REDUCED_PRECISION_REDUCTION})
"""What no type config allows: factors rounded to a narrower dtype than they have, sums in one."""
_NOT_LOCAL = frozenset(
    {Note.FFT, Note.WINOGRAD, Note.WINOGRAD_TILE_4X4, Note.WINOGRAD_TILE_6X6, Note.WINOGRAD_TILE_13X13}
)


class Problem(NamedTuple):
    """A call as cuDNN computes it: a graph, and which of the arrays that `run` gets (by place) is which tensor."""

    graph: Node
    places: dict[int, int]  # by unique id


def forbidden(call: Call) -> frozenset[Note]:
    """The numerical notes that an engine for a call must not have."""
    notes = _ROUNDING
    if _dtype_name(call) == "float32" and call.precision != "tf32":
        notes |= {Note.TENSOR_CORE}
    if call.deterministic:
        notes |= {Note.NONDETERMINISTIC}
    if call.local_errors:
        notes |= _NOT_LOCAL
    return notes


def _dtype_name(call: Call) -> str:
    return call.outputs[0].dtype.name


def unfit(call: Call) -> str:
    """Why no graph can be for a call, by dtypes and sizes; empty where one can."""
    wanted = [desc for desc in (*call.inputs, call.outputs[0], *call.reads, *call.writes) if desc is not None]
    dtypes = sorted({desc.dtype.name for desc in wanted})
    if dtypes[0] not in DATA_TYPES:
        return f"cuDNN computes in float16, bfloat16, float32 and float64, not in {dtypes[0]}"
    if len(dtypes) > 1:
        return f"cuDNN computes with arrays of one dtype, not with {' and '.join(dtypes)}"
    return "" if all(desc.size for desc in wanted) else "cuDNN takes no empty arrays"


def answer(call: Call, describe: Callable[[Call], Problem | str]) -> bool | str:
    """What `accepts` says: whether there is a graph for the call, and an engine for the graph.

    A call without a device, such as those of a manifest, is taken to have an engine.
    """
    reason = unfit(call)
    if reason:
        return reason
    problem = describe(call)
    if isinstance(problem, str):
        return problem
    if not call.device_id:
        return True
    plan = plans.find(_wanted(call, problem))
    return plan.reason if isinstance(plan, Refusal) else True


def prepared(call: Call, describe: Callable[[Call], Problem | str]) -> Prepared:
    """The call as one execution of a plan."""
    problem = describe(call)
    assert not isinstance(problem, str)  # `accepts` was asked
    plan = plans.find(_wanted(call, problem))
    if isinstance(plan, Refusal):
        raise RuntimeError(plan.reason)  # accepted, and forgotten since: another version of cuDNN was put in its place
    return _prepared(plan, problem, len(call.reads) + len(call.writes))


def _prepared(plan: Plan, problem: Problem, arrays: int) -> Prepared:
    ids = tuple(problem.places)
    places = (*problem.places.values(), *((arrays,) if plan.workspace else ()))
    absent = () if plan.workspace else (0,)
    packs, execute = Packs(plan, ids), plan.execute

    def addresses(given: Sequence[Any]) -> tuple[int, ...]:  # Any: cupy.ndarrays
        return (*[given[place].data.ptr for place in places], *absent)

    def run(*given: Any) -> None:  # Any: as above
        execute(packs.find(addresses(given)))

    def bind(given: Sequence[Any], table: Any, first: int) -> Callable[[], object]:  # Any: as above
        *own, workspace = addresses(given)
        return functools.partial(execute, plan.bind(ids, own, workspace))

    return Prepared(run, queued=True, bind=bind, workspace=plan.workspace, note=plan.note)


def _wanted(call: Call, problem: Problem) -> Wanted:
    descs: list[ArrayDesc | None] = [*call.reads, *call.writes]
    sizes = []
    for number, place in problem.places.items():
        desc = descs[place]
        assert desc is not None  # a tensor that is stored is an array of the call
        sizes.append((number, desc.nbytes))
    return Wanted(problem.graph, tuple(sizes), int(call.device_id), forbidden(call))
