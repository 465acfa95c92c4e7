"""Who would compute an op or a graph, and why: every candidate with its reason, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, Protocol, runtime_checkable

from atled.array_desc import ArrayDesc
from atled.arrays.cell import FLOAT32
from atled.call import Call
from atled.calling.apply import input_value
from atled.calling.using import overridden
from atled.errors import four_parts, in_words
from atled.graph.nodes.dispatch import describe_call, engine_candidate, in_front, is_transposed
from atled.graph.record.traversal import functions_before
from atled.graph.record.value import RecordedCall
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec
from atled.preparing import prepare
from atled.type_configs import how_computed
from atled.variable import Variable
from atled_contexts import Candidate, Context, candidates_table, consider, get_current_context
from atled_contexts.signals import is_of_a_handler

__all__ = ["CallExplanation", "Explanation", "explain"]


class InPlan(NamedTuple):
    """What the plan of an inference makes of calls that were recorded.

    elsewhere: by the number of a call that it does not run as it was recorded what became of it, in words.
    loops: what it has of loops over samples, in words.
    note: what is to be told of all calls.
    """

    elsewhere: Mapping[int, str]
    loops: Sequence[str]
    note: str = ""


class CallExplanation:
    """One call: the Context asked for, and every candidate.

    candidates: in the order in which they are asked; `.state` is "chosen" for the one that would compute.
    is_view: whether the result shares the memory of the first input, so that nothing is computed.
    is_transposed: whether the call has channel_last and is computed without it, on arrays that are transposed before
        and behind; the candidates are those of the call without.
    """

    def __init__(
        self,
        spec: OpSpec,
        context: Context,
        call: str,
        candidates: Sequence[Candidate],
        make_call: Callable[[str, str], Call] | None = None,
        is_transposed: bool = False,
    ) -> None:
        self._make_call = make_call
        self.op = spec.name
        self._is_product = spec.products
        self.is_view = spec.views
        self.is_transposed = is_transposed
        self.context = context
        self.call = call
        self.candidates = tuple(candidates)
        self._find_elsewhere: Callable[[], str] | None = None

    @cached_property
    def elsewhere(self) -> str:
        """What became of the call in the plan of an inference, such as "in the bias of Affine, which is computed once".

        "" where that runs it as it was recorded, and for a call of no inference. It makes the plan for that, see
        `Explanation.loops`.
        """
        return "" if self._find_elsewhere is None else self._find_elsewhere()

    def of_inference(self, find_elsewhere: Callable[[], str]) -> CallExplanation:
        """The same of a call of an inference; find_elsewhere: asked when it is printed, see `elsewhere`."""
        found = copy(self)
        found._find_elsewhere = find_elsewhere
        return found

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that would compute the call; None where the call would raise."""
        return next((candidate for candidate in self.candidates if candidate.state == "chosen"), None)

    @property
    def types(self) -> str:
        """How the chosen type config computes, in words; "" where all is of one dtype."""
        return "" if self.chosen is None else how_computed(self.chosen.type_config, self._is_product)

    @cached_property
    def way(self) -> str:
        """How the chosen implementation would go about this call, such as "winograd 4x4"; "" where it does not say.

        It prepares the call for that, as the first run of a plan does, and so may compile a kernel.
        """
        chosen = self.chosen
        if chosen is None or chosen.implementation is None or self._make_call is None or self.is_view:
            return ""
        try:
            prepared = prepare(chosen.implementation, self._make_call(chosen.type_config, chosen.device_id))
        except Exception as error:  # third-party code; what it raises is what the user has to know
            if is_of_a_handler(error):
                raise
            return f"preparing it fails: {in_words(error)}"
        return prepared.note

    def to_json(self) -> dict[str, Any]:
        """The same as plain values for `json.dumps`."""
        return {
            "op": self.op,
            "way": self.way,
            "types": self.types,
            "call": self.call,
            "context": self.context.backend,
            "device_id": self.context.device_id,
            "is_view": self.is_view,
            "is_transposed": self.is_transposed,
            "elsewhere": self.elsewhere,
            "candidates": [
                {
                    "backend": candidate.backend,
                    "type_config": candidate.type_config,
                    "implementation": candidate.note,
                    "state": candidate.state,
                    "reason": candidate.reason,
                    "remedy": candidate.remedy,
                    "fallback": candidate.state == "chosen" and candidate.fallback,
                }
                for candidate in self.candidates
            ],
        }

    def __str__(self) -> str:
        lines = [self.call, f"under {self.context!r}"]
        if self.is_view:
            lines.append("a view of its input: nothing is computed")
        if self.is_transposed:
            lines.append("channel_last: the arrays are transposed before and behind, it is computed without")
        chosen = self.chosen
        if chosen is None:
            lines.append("no backend that the Context allows computes it: the call would raise SelectionError")
        elif chosen.fallback:
            lines.append(f"a fallback: {chosen.reason}")
        lines.append(candidates_table(self.candidates))
        lines += [self.types] if self.types else []
        lines += [f"the way: {self.way}"] if self.way else []
        return "\n".join([*lines, *([f"in the inference: {self.elsewhere}"] if self.elsewhere else [])])


class Explanation:
    """One or several calls, in the order in which they would run.

    find_plan: asked when it is printed: what the plan of an inference makes of the calls.
    """

    def __init__(self, calls: Sequence[CallExplanation], find_plan: Callable[[], InPlan] | None = None) -> None:
        self._find_plan = find_plan
        self.calls = tuple(calls)
        if find_plan is not None:
            self.calls = tuple(call.of_inference(partial(self._elsewhere, number)) for number, call in enumerate(calls))

    @cached_property
    def loops(self) -> tuple[str, ...]:
        """The calls that the plan of an inference runs for some samples before it runs them for others, in words.

        It makes the plan for that, as the first call of the inference does, and so may compile kernels.
        """
        return tuple(self._in_plan.loops)

    @property
    def note(self) -> str:
        """Whether an inference computes nothing once because its parameters change at nearly every call; "" if not."""
        return self._in_plan.note

    @cached_property
    def _in_plan(self) -> InPlan:
        if self._find_plan is None:
            return InPlan({}, ())
        try:
            return self._find_plan()
        except Exception as error:  # what the calls raise, or third-party code; what is told of them stays true
            if is_of_a_handler(error):
                raise
            return InPlan({}, (f"planning it fails: {in_words(error)}",))

    def _elsewhere(self, number: int) -> str:
        return self._in_plan.elsewhere.get(number, "")

    def to_json(self) -> list[dict[str, Any]]:
        """The same as plain values for `json.dumps`."""
        return [call.to_json() for call in self.calls]

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.calls), *self.loops, *([self.note] if self.note else [])])


@runtime_checkable
class Explained(Protocol):
    """What knows its calls by itself, as a description of a program does."""

    def explain(self) -> Explanation:
        """Who would compute each of them, and why."""


def explain(target: Variable | Explained | Callable[..., Any], *inputs: Any, **attributes: Any) -> Explanation:
    """Who would compute `explain(F.convolution, x, w, pad=(1, 1))`, or every op of a graph: `explain(y)`.

    target: a function of `atled.functions`, with the arguments it would get, `using` included, a Variable that a
        graph computes, or a description of a program.

    Nothing is computed or counted; printing it prepares the calls, see `CallExplanation.way`, and plans an inference,
    see `CallExplanation.elsewhere` and `Explanation.loops`. Raises what the call itself would raise for wrong shapes or
    attributes, TypeError for another target.
    """
    if isinstance(target, Explained):
        return target.explain()
    if isinstance(target, Variable):
        return explain_calls(functions_before(target.value))
    spec = getattr(target, "spec", None)
    if not isinstance(spec, OpSpec):
        raise TypeError(
            four_parts(
                f"explain({target!r})",
                "not a function of atled.functions and not a Variable",
                "",
                "pass a function with its arguments, such as explain(F.affine, x, w), or a Variable",
            )
        )
    using = attributes.pop("using", None)
    context = (get_current_context() if using is None else overridden(using)).frozen
    given, named = _split(spec, inputs, {k: v for k, v in attributes.items() if k not in ("outputs", "n_outputs")})
    descs = [_desc(spec, position, item) for position, item in enumerate(given)]
    descs += [ArrayDesc(spec.first_state(name, *descs).shape) for name in spec.states]
    checked = spec.check_attributes(named, descs)
    spec.check_values(checked)
    return Explanation([_explain(spec, descs, checked, context)])


def _split(spec: OpSpec, inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as inputs and attributes, as the function's own signature sorts them."""
    if spec.variadic:
        given = list(inputs)
        rest: Sequence[Any] = ()
    else:
        names = [item.name for item in spec.user_inputs]
        given = list(inputs[: len(names)])
        given += [attributes.pop(name, None) for name in names[len(given) :]]
        rest = inputs[len(names) :]
    arguments = {item.argument: item.name for item in spec.attributes if not item.hidden}
    named = dict(zip(arguments.values(), rest, strict=False))
    named.update({arguments.get(name, name): value for name, value in attributes.items()})
    return given, named


def _desc(spec: OpSpec, position: int, item: Any) -> ArrayDesc | None:
    value = input_value(spec, position, item)
    return None if value is None else ArrayDesc(value.shape, value.data.cell.dtype or FLOAT32)


def explain_calls(functions: Sequence[RecordedCall], find_plan: Callable[[], InPlan] | None = None) -> Explanation:
    """Who would compute recorded calls, and why; find_plan: see `Explanation`."""
    return Explanation([_explain_function(function) for function in functions], find_plan)


def _explain_function(function: RecordedCall) -> CallExplanation:
    descs = [
        None if value is None else ArrayDesc(value.shape, value.data.cell.dtype or FLOAT32) for value in function.inputs
    ]
    return _explain(function.spec, descs, function.attributes, function.context)


def _explain(
    spec: OpSpec, descs: Sequence[ArrayDesc | None], attributes: dict[str, Any], context: Context
) -> CallExplanation:
    given = [*descs, ArrayDesc((2,), "int64")] if spec.random else list(descs)
    call = describe_call(spec, given, attributes, context, context.backends[0][1], context.device_id)
    if spec.by_engine:
        return CallExplanation(spec, context, repr(call), [engine_candidate(spec, context)])
    transposed = is_transposed(spec, given, attributes, context)
    inputs, checked = in_front(spec, given, attributes) if transposed else (given, attributes)

    def make_call(type_config: str, device_id: str) -> Call:
        return describe_call(spec, inputs, checked, context, type_config, device_id)

    candidates = consider(spec.name, context, make_call)
    return CallExplanation(spec, context, repr(call), candidates, make_call, transposed)


def __dir__() -> list[str]:
    return sorted(__all__)
