"""Bodies as plans: their inputs are outside arrays, their results targets, their parameters floats."""

from __future__ import annotations

from atled.graph.compile.loops import body_plan
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.nodes.body import Body
from atled_contexts import Context


def plan_of(body: Body, context: Context) -> Plan:
    """The plan of a body: outside array k is input k; its floats come from ("parameter", number) or are constants."""
    return body_plan(body, context, lower)
