"""Calls of any op: as in one of its samples, on arrays that depend on one that a program has."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.conformance.cases import samples_of
from atled.generators.catalogue import all_specs
from atled.ops.spec import OpSpec
from fuzzing_programs.expressions import Expression, Shape, Source

_MOST_ELEMENTS = 5000  # of all arrays of a call


def sampled_op(p: Source, x: str, shape: Shape) -> Expression:
    """A call of an op that is drawn, on arrays of one of its samples; those of floats depend on x, or may."""
    spec, number, sample = p.random.choice(_calls())
    seed, given, is_joined = p.number(), [], False
    for position, array in enumerate(sample.draw()):
        if array is None:
            given.append("None")
            continue
        declared = spec.input_at(position)
        flows = array.dtype.kind == "f" and declared.kind in ("compute", "precise") and declared.gradient != "raises"
        leaf = p.sampled(f"sampled({spec.name!r}, {number}, {seed}, {position})", flows)
        joins = flows and (not is_joined or p.random.random() < 0.4)
        is_joined |= joins
        # Near what the sample has, so that logarithms stay those of positive numbers.
        given.append(f"{leaf} * (1.0 + 0.1 * F.tanh({_fitted(x, shape, array.shape)}))" if joins else leaf)
    while given and given[-1] == "None":
        given.pop()
    names = {attribute.name: attribute.argument for attribute in spec.attributes}
    given += [f"{names[name]}={value!r}" for name, value in sample.attributes.items()]
    return Expression(f"F.{spec.function}({', '.join(given)})", "op of a sample", _output_count(spec, sample))


@functools.cache
def _calls() -> list[tuple[OpSpec, int, Any]]:
    """Ops with the numbers of samples, and these, that every program may call at any place."""
    return [
        (spec, number, sample)
        for spec in all_specs()
        if spec.function and not _is_special(spec)
        for number, sample in enumerate(samples_of(spec))
        if _is_small(sample) and _are_literals(sample.attributes) and _output_count(spec, sample)
    ]


def _is_special(spec: OpSpec) -> bool:
    """Whether it changes arrays, now or backward, draws numbers, or ends a graph."""
    if spec.random or spec.mutates or spec.states or spec.views or spec.may_resume:
        return True
    return spec.by_engine or spec.opaque or spec.no_gradient == "raises" or spec.name == "VATNoise"


def _is_small(sample: Any) -> bool:
    sizes = [array.size for array in sample.draw() if array is not None]
    return bool(sizes) and min(sizes) > 0 and sum(sizes) <= _MOST_ELEMENTS


def _are_literals(attributes: Mapping[str, Any]) -> bool:
    """Whether a script can say what they are."""
    try:
        return all(ast.literal_eval(repr(value)) == value for value in attributes.values())
    except (ValueError, SyntaxError):
        return False


def _output_count(spec: OpSpec, sample: Any) -> int:
    """How many names a call assigns; 0 for what a program cannot go on with, and where front ends refuse the sample."""
    arrays = sample.draw()
    descs = [None if a is None else ArrayDesc(a.shape, np.float32 if a.dtype.kind == "f" else a.dtype) for a in arrays]
    if spec.program is not None and len({desc.ndim for desc in descs if desc is not None}) > 1:
        return 0
    attributes = spec.check_attributes(sample.attributes, descs)
    made = spec.infer_outputs(descs, attributes)
    count = spec.visible_count(len(made), attributes)
    if any(0 in desc.shape for desc in made) or (spec.outputs[-1].endswith("...") and count == 1):
        return 0
    return count


def _fitted(x: str, shape: Shape, wanted: Shape) -> str:
    """Elements of x under another shape, or its mean in all of them."""
    size, count = math.prod(shape), math.prod(wanted)
    if size < count or not wanted:
        mean = f"F.mean({x}, axis={tuple(range(len(shape)))})" if shape else x
        return f"F.broadcast(F.reshape({mean}, shape={(1,) * len(wanted)}), shape={wanted})" if wanted else mean
    flat = f"F.reshape({x}, shape=({size},))"
    return f"F.reshape(F.slice({flat}, start=(0,), stop=({count},), step=(1,)), shape={wanted})"
