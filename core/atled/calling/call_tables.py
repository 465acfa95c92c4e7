"""The tables of calls that were made before, found by the surroundings, and what of a call is in its key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from atled.calling.auto_mode import get_auto_forward
from atled.graph.keyed.kept import Kept
from atled.graph.record.value import RecordedCall
from atled.limits.alive import WeakRegister
from atled.limits.caches import register_cache
from atled.ops.spec import Attribute, OpSpec
from atled_contexts import Context, context_in_force, discovery, is_observed
from atled_contexts.scopes import tell_if_slow
from atled_contexts.surroundings import Surroundings, change_everywhere, here, latest_change

_LIMIT = 2048  # calls of all surroundings together, each of which keeps a plan and spare arrays; as many to record from
_STEPS_LIMIT = 50_000  # of programs, about 10 KB each
_TABLES_LIMIT = 128

_tables: dict[tuple[Context, int], dict[Hashable, Any]] = {}
"""The cached calls and programs by frozen Context and generation of plugins: equal ones share them.

In the place of a generation, `_RECORDED` has what calls are recorded from: no plugin is asked before they are computed.
"""

_RECORDED = -1

INLINE_CACHES: WeakRegister[Any] = WeakRegister()
"""Those that have had a call; they know calls of all tables."""


class _Observed(dict[Hashable, Any]):
    """The table where something observes calls: they are made the general way, and nothing is kept in it."""


def in_force() -> Surroundings:
    """The surroundings here and now, worked out."""
    surroundings = here()
    while surroundings.arrays is None:
        change = latest_change()  # read before what it stands for: after a change meanwhile this is done again
        generation = discovery.current.generation
        tell_if_slow()
        context = context_in_force()
        table = table_of(context, generation)
        calls = _Observed() if is_observed() else table
        surroundings.note(change, context, get_auto_forward(), calls, table_of(context, _RECORDED))
    return surroundings


def table_of(context: Context, generation: int | None = None) -> dict[Hashable, Any]:
    """The table for a frozen Context and a generation of plugins; None: the present one."""
    if generation is None:
        generation = discovery.current.generation
    key = (context, generation)
    table = _tables.get(key)
    if table is None:
        if len(_tables) >= _TABLES_LIMIT:
            forget_calls()
        table = _tables.setdefault(key, {})
    return table


def is_found(table: object, context: Context) -> bool:
    """Whether a table is the present one for a frozen Context: a change for the whole process drops all."""
    return _tables.get((context, discovery.current.generation)) is table


def keep(table: dict[Hashable, Any], key: Hashable, made: object) -> None:
    """Have a table hold what was made for a key."""
    alike = _tables_of(recorded=isinstance(made, RecordedCall))
    is_full = sum(map(len, alike)) >= _LIMIT
    if isinstance(made, Kept):
        is_full = is_full or sum(len(each.plan.steps) for each in (*_programs(), made)) > _STEPS_LIMIT
    if is_full:
        for each in alike:
            each.clear()
    table[key] = made


def _tables_of(*, recorded: bool) -> list[dict[Hashable, Any]]:
    """The tables of what calls are recorded from, or those of calls that compute and of programs."""
    return [table for (_, kind), table in list(_tables.items()) if (kind == _RECORDED) is recorded]


def forget_calls() -> None:
    """Know no call any more."""
    for table in list(_tables.values()):
        table.clear()  # descriptions that are kept know which table was theirs
    _tables.clear()
    for cache in INLINE_CACHES.alive():
        cache.forget()
    change_everywhere()


def _kept() -> list[object]:
    return [made for table in _tables_of(recorded=False) for made in list(table.values())]


def _programs() -> list[Kept]:
    return [made for made in _kept() if isinstance(made, Kept)]


register_cache("cached calls", lambda: len(_kept()) - len(_programs()), forget_calls)
register_cache("calls to record from", lambda: sum(map(len, _tables_of(recorded=True))), forget_calls)
register_cache("programs by key", lambda: len(_programs()), forget_calls)


def is_memorable(spec: OpSpec) -> bool:
    """Whether calls of an op can be cached: not those of code of the user."""
    return not spec.opaque


def has_fixed_floats(spec: OpSpec) -> bool:
    """Whether calls with the same key have the same floats: some follow from other attributes, which the key has."""
    return any(item.hidden and item.kind == "float" for item in spec.attributes)


def in_key(spec: OpSpec, item: Attribute) -> bool:
    """Whether an attribute belongs to the key.

    Floats only where the op refuses some values, which were checked then, or where others follow from them.
    """
    return not item.hidden and (item.kind != "float" or spec.checks_values or has_fixed_floats(spec))
