"""Selection: which implementation computes a call under a Context, decided once and cached."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from atled_contexts import discovery
from atled_contexts.candidate import ACCEPTED, FORBIDDEN, NEVER_LEAVES, NOT_ASKED, Candidate, Inquiry, accepts_surely
from atled_contexts.context import Context
from atled_contexts.errors import SelectionError, message
from atled_contexts.fallback import count_fallback, notify, warn_of_set_aside, warn_once
from atled_contexts.forks import lock_across_forks
from atled_contexts.plugin import FallbackEvent
from atled_contexts.registrar import Implementation, Prepare
from atled_contexts.registry import Registry

C = TypeVar("C")

CACHE_LIMIT = 4096  # decisions; a training run has some hundreds


class Decision(Generic[C]):
    """Who computes one call, and why.

    backend, type_config, device_id: where.  plugin: name of the plugin.  call: the description made for that place.
    candidates: everything that was considered, in order.
    fallback: whether it is one.  reason: why it is, or "" for a first choice.
    """

    __slots__ = (
        "backend",
        "call",
        "candidates",
        "context",
        "device_id",
        "fallback",
        "generation",
        "implementation",
        "op",
        "plugin",
        "reason",
        "type_config",
    )

    def __init__(
        self,
        op: str,
        context: Context,
        chosen: Candidate,
        implementation: Implementation,
        call: C,
        *,
        plugin: str,
        candidates: tuple[Candidate, ...],
        generation: int,
    ) -> None:
        self.op = op
        self.context = context
        self.backend = chosen.backend
        self.type_config = chosen.type_config
        self.device_id = chosen.device_id
        self.plugin = plugin
        self.implementation = implementation
        self.call = call
        self.candidates = candidates
        self.fallback = chosen.fallback
        self.reason = _reason(chosen, candidates)
        self.generation = generation

    def made_for(self, op: str, call: C, prepare: Prepare | None = None) -> Decision[C]:
        """The same decision for another call, one that fuses several calls which were decided alike.

        prepare: what prepares it, where the implementation has something else than `prepare` for that.
        """
        other: Decision[C] = Decision.__new__(Decision)
        other.context = self.context
        other.backend = self.backend
        other.type_config = self.type_config
        other.device_id = self.device_id
        other.plugin = self.plugin
        other.implementation = self.implementation
        other.candidates = self.candidates
        other.fallback = self.fallback
        other.reason = self.reason
        other.generation = self.generation
        other.op = op
        other.call = call
        if prepare is not None:
            note = self.implementation.note
            other.implementation = Implementation(op, self.backend, prepare, note=note, op_version=None)
        return other

    def __repr__(self) -> str:
        fallback = ", fallback" if self.fallback else ""
        return f"Decision({self.op!r} on {self.backend}:{self.type_config} by plugin {self.plugin!r}{fallback})"


# `Any`: decisions about calls of any type; `select` gives each back under the type that it was made with.
_cache: dict[tuple[str, Context, Hashable], Decision[Any]] = {}
_plain: dict[tuple[str, Context], Decision[Any]] = {}
"""By op and Context a decision for which only the first implementation was asked, as it is if that accepts a call."""
_lock = lock_across_forks()


def select(
    op: str, context: Context, key: Hashable, make_call: Callable[[str, str], C], *, count: bool = True
) -> Decision[C]:
    """The implementation that computes one call of `op` under `context`.

    key: all that the decision depends on besides op and Context (shapes, dtypes, attributes); equal keys share one.
    make_call: `make_call(type_config, device_id)` describes the call for `accepts`, `prefers` and `prepare`. Asked
        only where the decision is not cached; what it raises passes through. If the description has an `op_version`,
        implementations written for another version of the op spec are refused.
    count: whether to count a fallback; False for a caller who counts what it runs by `count_fallback`.

    Asked are the backends of the Context in order, then the reference. A fallback is counted at every call and
    reported as `context.fallback` says. SelectionError: no backend that the Context allows computes it. Thread-safe.
    """
    context = context.frozen
    decision = _cache.get((op, context, key))
    if decision is None or decision.generation != discovery.current.generation:
        decision = _decide(op, context, key, make_call)
    if decision.fallback:
        if count:
            count_fallback(decision.op, decision.backend)
        _tell(decision)
    return decision


def consider(op: str, context: Context, make_call: Callable[[str, str], C]) -> tuple[Candidate, ...]:
    """All candidates for one call, each asked, without choosing for good: nothing is counted, reported or cached.

    Where none is chosen, `select` would raise. What `make_call` raises passes through.
    """
    return Inquiry(discovery.registry(), op, context.frozen, make_call, ask_all=True).candidates


def best_candidate(op: str, context: Context, make_call: Callable[[str, str], C]) -> Candidate | None:
    """The one of `consider` that is chosen, without asking those behind it; None where there is none."""
    return Inquiry(discovery.registry(), op, context.frozen, make_call, ask_all=False).chosen


def selection_count() -> int:
    """How many decisions are cached."""
    return len(_cache)


def clear_selection_cache() -> None:
    """Forget all decisions; the next calls select again."""
    with _lock:
        _cache.clear()
        _plain.clear()


def _decide(op: str, context: Context, key: Hashable, make_call: Callable[[str, str], C]) -> Decision[C]:
    registry = discovery.registry()
    plain = _plain.get((op, context))
    if plain is not None and plain.generation == registry.generation:
        call = make_call(plain.type_config, plain.device_id)
        if accepts_surely(plain.implementation, call):
            return _kept(key, plain.made_for(op, call))
    inquiry = Inquiry(registry, op, context, make_call, ask_all=False)
    if any(_set_aside(registry, op, candidate) for candidate in inquiry.candidates if candidate.broke):
        return _decide(op, context, key, make_call)
    chosen = inquiry.chosen
    if chosen is None or chosen.implementation is None:
        raise _nobody(op, context, inquiry)
    decision = Decision(
        op,
        context,
        chosen,
        chosen.implementation,
        inquiry.call(chosen.type_config, chosen.device_id),
        plugin=registry.record_of(chosen.backend).name,
        candidates=inquiry.candidates,
        generation=registry.generation,
    )
    if decision.fallback:
        notify(registry, FallbackEvent(op, context, decision.backend, decision.reason))
    elif chosen is decision.candidates[0] and all(other.state == NOT_ASKED for other in decision.candidates[1:]):
        with _lock:
            if len(_plain) >= CACHE_LIMIT:
                _plain.clear()
            _plain[op, context] = decision
    return _kept(key, decision)


def _kept(key: Hashable, decision: Decision[C]) -> Decision[C]:
    with _lock:
        while len(_cache) >= CACHE_LIMIT:
            del _cache[next(iter(_cache))]  # the oldest
        _cache[decision.op, decision.context, key] = decision
    return decision


def _set_aside(registry: Registry, op: str, candidate: Candidate) -> bool:
    """Ask the plugin of a candidate no more; whether that was possible: the built-in one stays."""
    assert candidate.exception is not None
    record = registry.record_of(candidate.backend)
    if not discovery.current.set_aside(record.name, f"asked for {op}, {candidate.reason}", candidate.exception):
        return False
    warn_of_set_aside(record, op, candidate.reason)
    return True


def _tell(decision: Decision[Any]) -> None:
    if decision.context.fallback == "warn":
        entry = f"{decision.backend}:{decision.type_config}"
        warn_once(decision.op, _asked(decision.op, decision.context, decision.call), entry, decision.reason)


def _reason(chosen: Candidate, candidates: tuple[Candidate, ...]) -> str:
    """Why it is not the first that computes the call: what those before it said, then what makes it a fallback."""
    before = candidates[: candidates.index(chosen)]
    said = [f"{other.entry}: {other.reason}" for other in before if other.state != ACCEPTED]
    return "; ".join([*said, *([f"{chosen.entry}: {chosen.reason}"] if chosen.reason else [])])


def _nobody(op: str, context: Context, inquiry: Inquiry[C]) -> SelectionError:
    from atled_contexts.explain import candidates_table  # lazy: for people to read

    candidates = inquiry.candidates
    remedies = [_permit(context, [other for other in candidates if other.state == FORBIDDEN])]
    remedies += [other.remedy for other in candidates if other.remedy]
    remedies = [remedy for remedy in dict.fromkeys(remedies) if remedy]
    remedies = remedies or ["change the call as the reasons say, or add a backend that implements the op"]
    call = inquiry.calls[0] if inquiry.calls else None
    error = SelectionError(
        message(
            _asked(op, context, call),
            "no backend that the Context allows computes it",
            candidates_table(candidates).splitlines(),
            "; ".join(remedies),
        )
    )
    error.__cause__ = next((other.exception for other in candidates if other.exception is not None), None)
    return error


def _permit(context: Context, forbidden: list[Candidate]) -> str:
    """How to allow what would do but is forbidden."""
    if not forbidden:
        return ""
    entry, never_leaves = forbidden[0].entry, forbidden[0].reason == NEVER_LEAVES
    # On another device an entry of the list alone would not do: there it is a fallback even when listed.
    allow = " with fallback='warn'" if never_leaves and context.fallback == "raise" else ""
    if entry not in context.backend:
        return f"add {entry!r} to the Context's list{allow}, if running there is fine"
    if never_leaves:
        return f"put {entry!r} first, or add a backend of the host to the Context's list{allow}"
    return f"allow it with fallback='warn' or 'quiet', or put {entry!r} first"


def _asked(op: str, context: Context, call: object) -> str:
    return f"{op if call is None else repr(call)} under {context!r}"
