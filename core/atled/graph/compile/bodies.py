"""Bodies as plans: their inputs are outside arrays, their results targets, their parameters floats."""

from __future__ import annotations

from atled.graph.compile.loops import graph_of
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.nodes.body import Body
from atled_contexts import Context, plugin_generation


def plan_of(body: Body, context: Context) -> Plan:
    """The plan of a body: outside array k is input k; its floats come from ("parameter", number) or are constants."""

    def make() -> Plan:
        return lower(*graph_of(body, context))

    plan: Plan = PLANS.get(("body", body, context, plugin_generation()), make)
    return plan
