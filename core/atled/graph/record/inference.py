"""Output shapes of a call, and its kind, cached."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.graph.nodes.dispatch import cast_desc, infer
from atled.limits.caches import Generations
from atled.ops.spec import OpSpec
from atled.type_configs import compute_dtype
from atled_contexts import Context

# A call that comes back after its number was forgotten gets another one: plans of both are right.
_KINDS: Generations[int] = Generations("kinds of calls", 4096)


_kind_numbers = itertools.count()


def kind_of(spec: OpSpec, shapes: tuple[Any, ...], attributes: tuple[Any, ...], context: Context) -> int:
    """One small number for everything about a call that a plan depends on but dtypes and places."""
    key = (spec.name, shapes, attributes, context)
    kind = _KINDS.get(key)
    if kind is None:
        kind = _KINDS.find_old(key)
    return _KINDS.add(key, next(_kind_numbers)) if kind is None else kind


_INFERRED: Generations[tuple[tuple[ArrayDesc, ...], int]] = Generations("inferred shapes", 4096)


def infer_shapes(
    spec: OpSpec, shapes: Sequence[tuple[int, ...] | None], attributes: Mapping[str, Any], context: Context
) -> tuple[tuple[ArrayDesc, ...], int]:
    """Output descriptions and kind of a call with checked attributes; dtypes are those of the first type config."""
    static = tuple((name, value) for name, value in attributes.items() if name not in spec.float_names)
    key = (spec.name, tuple(shapes), static, context)
    found = _INFERRED.get(key)
    if found is None:
        found = _INFERRED.find_old(key)
    if found is None:
        type_config = context.backends[0][1]
        dtype = compute_dtype(type_config)
        inputs = [None if shape is None else ArrayDesc(shape, dtype) for shape in shapes]
        # Once more: where an input took another shape, the attributes need not fit any longer.
        if spec.normalizes:
            spec.normalize(dict(attributes), *inputs)
        cast = [cast_desc(spec.input_at(i), desc, type_config) for i, desc in enumerate(inputs)]
        if spec.random:
            cast.append(ArrayDesc((2,), np.int64))
        outputs = infer(spec, cast, dict(static))
        found = (outputs, kind_of(spec, tuple(shapes), static, context))
        _INFERRED.add(key, found)
    return found
