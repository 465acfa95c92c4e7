"""Graphs that describe: no implementation is chosen for their nodes, so places do not matter, and views are nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atled.arrays.place import Place
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.ops.spec import SPECS, OpSpec
from atled_contexts import Context


class DescribingGraph(Graph):
    """What `add` of a subclass makes may be differentiated once more."""

    is_recorded = True

    def _add_view(
        self,
        spec: OpSpec,
        source: IRValue,
        attributes: Mapping[str, Any],
        context: Context,
        computed: bool,
        known_as: IRValue | None = None,
    ) -> IRNode:
        return self.add(spec, (source,), attributes, context)

    def coerce(self, value: IRValue, place: Place | None, dtype: np.dtype, context: Context) -> IRValue:
        """The value with a dtype."""
        if value.dtype == dtype:
            return value
        return self.add(SPECS["Cast"], (value,), {"dtype": dtype}, context).outputs[0]
