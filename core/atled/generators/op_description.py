"""What there is to know of one op, as values for JSON: `python -m atled op` shows them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from atled.call import Call
from atled.calling.function_text import FUNCTIONS, source
from atled.errors import in_words
from atled.generators.catalogue import SampleCalls
from atled.generators.manifest import offers_for
from atled.generators.op_gradients import gradients_of
from atled.ops.spec import REQUIRED, Attribute, OpSpec
from atled.type_configs import computable
from atled_contexts import Context, PluginRecord, backend_status, consider, plugins

_COMMON = ("n_outputs", "outputs", "using")

# Any: values of JSON, throughout this module.
Description = dict[str, Any]


def describe_op(spec: OpSpec, parts: Iterable[str]) -> Description:
    """Name, function and category of an op, and per part (a name of `PARTS`) what there is to know of it."""
    head = {"op": spec.name, "function": spec.function, "category": spec.category, "module": spec.module}
    return {**head, **{part: PARTS[part](spec) for part in parts}}


def signature_of(function: Callable[..., Any]) -> str:
    """The arguments of a function of `atled.functions`, without those that all have."""
    signature = inspect.signature(function)
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in _COMMON]
    return str(inspect.Signature([parameter.replace(annotation=inspect.Parameter.empty) for parameter in kept]))


def _declared(spec: OpSpec) -> Description:
    properties = {
        name: getattr(spec, name) for name in ("random", "views", "copies", "recomputable", "opaque", "variadic")
    }
    return {
        "version": spec.version,
        "signature": f"F.{spec.function}{signature_of(FUNCTIONS[spec.name])}" if spec.function else "",
        "inputs": [
            {"name": x.name, "kind": x.kind, "optional": x.optional, "variadic": x.variadic, "gradient": x.gradient}
            for x in spec.inputs
        ],
        "attributes": [_attribute(item) for item in spec.attributes],
        "outputs": list(spec.outputs),
        "auxiliary": list(spec.auxiliary),
        "saved": list(spec.saved),
        "mutates": list(spec.mutates),
        "inplace": {spec.outputs[output]: spec.input_names[position] for output, position in spec.inplace.items()},
        **properties,
        "dtypes": [dtype.name for dtype in spec.dtypes],
        "tolerance": dict(spec.tolerance),
    }


def _attribute(item: Attribute) -> Description:
    is_required = item.default is REQUIRED
    return {
        "name": item.name,
        "argument": item.argument,
        "kind": item.kind,
        "required": is_required,
        "default": None if is_required else _plain(item.default),
        "choices": list(item.choices),
        "hidden": item.hidden,
    }


def _plain(value: Any) -> Any:
    """A default as a value that JSON has."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return value if value is None or isinstance(value, str | bool) or is_number else str(value)


def _formula(spec: OpSpec) -> dict[str, str] | None:
    """Of an op with a scalar formula, that of each output."""
    return None if spec.program is None else {name: str(formula) for name, formula in spec.program.outputs}


def _backends(spec: OpSpec) -> list[Description]:
    """Per backend, who computes the op's samples under which type config; those of plugins that do not work here too.

    "state": of the plugin.  "error": what the plugin raised when it was asked, or null; the backend is not known then.
    "type_configs": as in the plugin's manifest, the notes of the implementations.  "refused": by type config why one of
    the samples is not computed, where the backend can be asked.
    """
    calls = SampleCalls(spec)
    return [entry for record in plugins() for entry in _offered(record, calls)]


def _offered(record: PluginRecord, calls: SampleCalls) -> Iterator[Description]:
    head = {"plugin": record.name, "state": record.state}
    try:
        offered = offers_for(record.name, calls)
    except Exception as error:  # third-party code, or a library that it lacks here: said, beside what others offer
        yield {**head, "backend": None, "error": in_words(error), "type_configs": {}, "refused": {}}
        return
    for backend, (type_configs, entry) in sorted(offered.items()):
        found = {name: entry[name] for name in type_configs if name in entry}
        doubtful = [name for name in type_configs if name not in found or name in entry.get("partial", ())]
        refused = {}
        for name in doubtful if backend_status(backend).usable else ():
            reason = _refusal(calls, backend, name)
            if reason:
                refused[name] = reason
        yield {**head, "backend": backend, "error": None, "type_configs": found, "refused": refused}


def _refusal(calls: SampleCalls, backend: str, type_config: str) -> str:
    """Why the first sample that a backend does not compute is refused, as `nn.explain` says it."""
    if not computable([type_config]):
        return "its dtypes cannot be had here"
    context = Context([f"{backend}:{type_config}"], fallback="raise")
    for call in calls.of(type_config):

        def made(type_config: str, device_id: str, call: Call = call) -> Call:
            return call

        asked = [one for one in consider(calls.spec.name, context, made) if one.backend == backend]
        if all(one.state != "chosen" for one in asked):
            return f"{call!r}: {'; '.join(one.reason for one in asked) or 'missing'}"
    return ""


PARTS: dict[str, Callable[[OpSpec], Any]] = {
    "spec": _declared,
    "doc": lambda spec: spec.doc,
    "formula": _formula,
    "gradients": gradients_of,
    "text": lambda spec: source(spec) if spec.function else None,
    "backends": _backends,
}
"""The parts of a description, in the order in which they are shown: what makes each."""
