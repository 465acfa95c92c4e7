"""How an op is differentiated: in words, as formulas, and as the ops that its rule composes for a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.errors import in_words
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue
from atled.ops.elementwise import Elementwise
from atled.ops.samples import Sample
from atled.ops.spec import OpSpec
from atled_contexts import Context

_SINGLE = np.dtype(np.float32)
_RANDOM_STATE = ArrayDesc((2,), "int64")

# Any: values of JSON, throughout this module.
Gradients = dict[str, Any]


def gradient_in_words(spec: OpSpec) -> str:
    """To which inputs the gradient flows, in a sentence."""
    if spec.no_gradient == "raises":
        return "Backward through it is an error."
    if spec.no_gradient == "stops" or not spec.user_inputs:
        return "Gradients stop here."
    by_flow: dict[str, list[str]] = {}
    for item in spec.user_inputs:
        by_flow.setdefault(item.gradient, []).append(f"`{item.name}`")
    words = {"flows": "The gradient flows to {}", "none": "none to {}", "raises": "asking for that of {} is an error"}
    text = "; ".join(phrase.format(", ".join(by_flow[flow])) for flow, phrase in words.items() if flow in by_flow)
    return f"{text[:1].upper()}{text[1:]}."


def gradients_of(spec: OpSpec) -> Gradients:
    """What is known of an op's gradients, as values for JSON.

    "rule": "formulas", "ops" (a composition of ops), "stops", "raises", or "none" (an op without a rule).
    "in words": a sentence.  "formulas": of an elementwise op, per input the derivative times the arriving gradient;
    null where nothing flows.  "nodes": the ops that the rule composes for the first sample, one text each, as a plan
    of the reference computes them.  "sample": that sample; null where there is none.  "error": why the rule fails on
    it; null where it does not.
    """
    gradients: Gradients = {"rule": _rule(spec), "in words": gradient_in_words(spec)}
    if gradients["rule"] not in ("formulas", "ops"):
        return gradients
    if isinstance(spec, Elementwise):
        formulas = {name: spec.gradient_formula(name) for name in spec.input_names}
        gradients["formulas"] = {name: None if text is None else str(text) for name, text in formulas.items()}
    samples = spec.samples()
    gradients.update(sample=None, nodes=[], error=None)
    if samples:
        gradients["sample"] = repr(samples[0])
        try:
            gradients["nodes"] = _composed(spec, samples[0])
        except Exception as error:  # an op of the user's own: what its rule raises is what they want to see
            gradients["error"] = in_words(error)
    return gradients


def _rule(spec: OpSpec) -> str:
    if spec.no_gradient:
        return spec.no_gradient
    if not any(item.gradient == "flows" for item in spec.user_inputs):
        return "stops"
    if isinstance(spec, Elementwise):
        return "formulas"
    return "none" if type(spec).gradient is OpSpec.gradient else "ops"


def _composed(spec: OpSpec, sample: Sample) -> list[str]:
    """The ops by which the reference pulls gradients of all outputs back through one call of float32."""
    graph = Graph(Context("reference:float", fallback="raise"))
    descs = [
        None if array is None else ArrayDesc(array.shape, _SINGLE if is_float(array.dtype) else array.dtype)
        for array in sample.draw()
    ]
    inputs = [
        None if desc is None else graph.external(number, desc)
        for number, desc in enumerate([*descs, *([_RANDOM_STATE] if spec.random else [])])
    ]
    attributes = spec.check_attributes(sample.attributes, descs)
    node = graph.add(spec, inputs, _with_slots(graph, spec, attributes), graph.context)
    names: dict[IRValue, str] = {}
    for position, value in enumerate(inputs):
        if value is not None:
            names[value] = _numbered(spec.input_names, position, spec.variadic)
    seeds = {}
    visible = spec.visible_count(len(node.outputs), attributes)
    for position, output in enumerate(node.outputs):
        names[output] = _numbered(spec.outputs, position, spec.outputs[-1].endswith("..."))
        if position < visible and is_float(output.dtype):
            seeds[output] = graph.external(len(inputs) + position, output.desc)
            names[seeds[output]] = f"g{names[output]}"
    wanted = [
        value
        for position, value in enumerate(inputs)
        if value is not None and is_float(value.dtype) and spec.input_at(position).gradient == "flows"
    ]
    start = len(graph.nodes)
    found = backpropagate(graph, list(graph.nodes), seeds, wanted)
    lines = [_line(graph, made, names) for made in graph.nodes[start:]]
    return lines + [f"gradient of {names[value]}: {names[found[value]]}" for value in wanted if value in found]


def _with_slots(graph: Graph, spec: OpSpec, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with floats as the rule sees them: known when a plan runs."""
    return {name: graph.constant(value) if name in spec.float_names else value for name, value in attributes.items()}


def _numbered(names: Sequence[str], position: int, is_variadic: bool) -> str:
    """The name of an input or output; those of the last, variadic one are counted."""
    last = len(names) - 1
    if is_variadic and position >= last:
        return f"{names[last].removesuffix('...')}{position - last}"
    return names[position]


def _line(graph: Graph, node: IRNode, names: dict[IRValue, str]) -> str:
    """A node as text; its outputs get names."""
    for output in node.outputs:
        names[output] = f"v{sum(name.startswith('v') and name[1:].isdigit() for name in names.values())}"
    words = ["None" if value is None else names.get(value, f"{value.desc}") for value in node.inputs]
    words += [f"{name}={_value(graph, value)}" for name, value in node.attributes.items()]
    made = ", ".join(f"{names[output]}{list(output.shape)}" for output in node.outputs)
    return f"{made} = {node.name}({', '.join(words)})"


def _value(graph: Graph, value: Any) -> Any:
    return graph.floats[value.index][1] if isinstance(value, FloatSlot) else value
