"""Forward of recorded graphs: find the plan, run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.arrays.watches import WATCHES, announce
from atled.graph.record.roots import Roots, roots_of
from atled.graph.record.value import Value
from atled_contexts import is_observed

if TYPE_CHECKING:
    from atled.graph.forward_plan import Forward


def forward(root: Value, clears: bool = False) -> None:
    """Compute a value from the leaves; nothing to do for a leaf.

    clears: whether no backward is to follow.
    """
    # A graph that was recorded and neither run nor looked at is made of patterns.
    found = _run_known(root) if root.pattern is not None and not is_observed() else False
    if found is True:
        return
    roots = root.details.roots
    if roots is None:
        if root.is_leaf:
            return
        roots = roots_of((root,))
    _run(roots, clears)
    if found:
        _remember(found, roots.forward)


def _run_known(root: Value) -> Any:
    """See `rebuilt_forward.run_known`, which takes this name's place when it is first called."""
    global _run_known, _remember  # so that later calls take no detour
    from atled.graph.rebuilt_forward import remember, run_known  # `import atled` need not

    _run_known, _remember = run_known, remember
    return run_known(root)


_remember: Any = None


def forward_all(values: Sequence[Value], clears: bool = False) -> None:
    """Compute values from the leaves in one plan, what several need once; clears: as in `forward`."""
    computed = tuple(dict.fromkeys(value for value in values if not value.is_leaf))
    if computed:
        _run(roots_of(computed), clears)


def _run(roots: Roots, clears: bool) -> None:
    if clears or roots.stores_less:
        roots.count(clears)
    before: Forward | None = roots.forward
    trust = None if before is None else before.trust
    if trust is not None:
        trust.forward_begins()
    planned = plan_forward(roots)
    if WATCHES or planned.trust is not None:
        if planned.trust is not None and planned.trust is not trust:
            planned.trust.forward_begins()
        # Announce before planning: a watch may now store values that this plan would leave out.
        if WATCHES:
            announce(planned.binding.writes)
        planned = plan_forward(roots)
    planned.run()
    if planned.trust is not None:
        planned.trust.forward_ran()


def plan_forward(roots: Roots, whole: bool = False) -> Forward:
    """What computes some roots; that of last time where nothing changed since.

    whole: not in parts, as the first run may be.
    """
    planned: Forward | None = roots.forward
    if planned is not None and planned.is_current(whole):
        return planned
    # A fifth of what `import atled` would take, and nothing is planned before.
    from atled.graph.compile.plans import PLANNING
    from atled.graph.forward_plan import planned_forward

    with PLANNING:
        return planned_forward(roots, whole)
