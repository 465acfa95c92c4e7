"""Candidates: every way to compute one call under a Context, each with its state and the reason for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from atled_contexts.context import Context
from atled_contexts.errors import in_words
from atled_contexts.plugin import REFERENCE, BackendInfo
from atled_contexts.record import INCOMPATIBLE
from atled_contexts.registrar import Implementation
from atled_contexts.registry import Registry
from atled_contexts.signals import is_of_a_handler

# What describes a call is the core's; selection only passes it on.
C = TypeVar("C")

CHOSEN = "chosen"
ACCEPTED = "accepted"
REFUSED = "refused"
MISSING = "missing"
FORBIDDEN = "forbidden"
NOT_ASKED = "not asked"

NEVER_LEAVES = "the Context lists no usable host backend, so it never leaves its device"


class Candidate:
    """One way to compute the call.

    state: "chosen"; "accepted" (would do, but another is preferred); "refused" (its own `accepts` said no);
        "incompatible" (written for another version of the op spec);
        "missing" (the backend does not implement the op); "forbidden" (would do, but the Context does not allow it);
        "not asked" (an earlier one was chosen); or the state of a backend that cannot be asked: "absent", "unusable",
        "blocked", "incompatible".
    reason: in words; empty for "chosen" on the first backend.  remedy: what the user can do, where that is known.
    note: that of the implementation.  implementation: None for a state of the whole backend.
    exception: what `accepts`, `prefers` or the provider of a family raised, if they did (`select` then sets the plugin
        aside and asks again), or what made the plugin unusable.
    """

    __slots__ = (
        "backend",
        "device_id",
        "exception",
        "fallback",
        "implementation",
        "note",
        "reason",
        "remedy",
        "state",
        "type_config",
    )

    def __init__(
        self,
        backend: str,
        type_config: str,
        state: str,
        reason: str = "",
        *,
        remedy: str = "",
        device_id: str = "",
        implementation: Implementation | None = None,
        exception: BaseException | None = None,
        fallback: bool = False,
    ) -> None:
        self.backend = backend
        self.type_config = type_config
        self.state = state
        self.reason = reason
        self.remedy = remedy
        self.device_id = device_id
        self.implementation = implementation
        self.note = implementation.note if implementation is not None else ""
        self.exception = exception
        self.fallback = fallback

    @property
    def entry(self) -> str:
        """Backend and type config as a Context writes them."""
        return f"{self.backend}:{self.type_config}"

    @property
    def broke(self) -> bool:
        """Whether the plugin failed when it was asked, and not for want of memory or stack, which passes."""
        failed = self.state == REFUSED and self.exception is not None
        return failed and not isinstance(self.exception, MemoryError | RecursionError)

    def __repr__(self) -> str:
        return f"Candidate({self.entry!r}, {self.state}{': ' + self.reason if self.reason else ''})"


class Inquiry(Generic[C]):
    """Asks all that a Context names, in order, who computes one call; decides nothing beyond the rules of placement.

    make_call: `make_call(type_config, device_id)` describes the call; what it raises passes through.
    ask_all: ask the rest as well once one is chosen, as `explain` wants it.
    """

    def __init__(
        self, registry: Registry, op: str, context: Context, make_call: Callable[[str, str], C], *, ask_all: bool
    ) -> None:
        self._registry = registry
        self._op = op
        self._context = context
        self._make_call = make_call
        self._ask_all = ask_all
        self._calls: dict[tuple[str, str], C] = {}
        infos = [status.info for name, _ in context.backends if (status := registry.status(name)).info]
        usable = [info for info in infos if info is not None and info.name in registry.backends]
        # Where the Context is at home: the device of its first backend that can be asked.
        self._home = usable[0].device_family if usable else ""
        self._lists_host = any(info.host for info in usable)
        self.chosen: Candidate | None = None
        self.candidates = tuple(self._all())

    def call(self, type_config: str, device_id: str) -> C:
        """The description of the call there; made once for all backends that share it."""
        key = (type_config, device_id)
        if key not in self._calls:
            self._calls[key] = self._make_call(type_config, device_id)
        return self._calls[key]

    @property
    def calls(self) -> tuple[C, ...]:
        """The descriptions made so far."""
        return tuple(self._calls.values())

    def _all(self) -> Iterator[Candidate]:
        listed = self._context.backends
        for backend, type_config in listed:
            yield from self._backend(backend, type_config, listed=True)
        if all(backend != REFERENCE for backend, _ in listed):
            yield from self._backend(REFERENCE, self._reference_type_config(), listed=False)

    def _reference_type_config(self) -> str:
        # That of the first entry; where the reference does not know it, since only a backend that is absent could say
        # what it means, of the next one that it knows.
        info = self._registry.status(REFERENCE).info
        wanted = [type_config for _, type_config in self._context.backends]
        offered = () if info is None else self._registry.type_configs(info)
        known = [type_config for type_config in wanted if type_config in offered]
        return known[0] if known else wanted[0]

    def _backend(self, backend: str, type_config: str, *, listed: bool) -> list[Candidate]:
        status = self._registry.status(backend)
        if not status.usable or status.info is None:
            return [
                Candidate(
                    backend,
                    type_config,
                    status.state,
                    status.reason,
                    remedy=status.remedy,
                    exception=status.exception,
                )
            ]
        if self.chosen is not None and not self._ask_all:
            return [Candidate(backend, type_config, NOT_ASKED, f"{self.chosen.entry} was chosen before")]
        if type_config not in self._registry.type_configs(status.info):
            return [Candidate(backend, type_config, REFUSED, f"backend {backend!r} offers no {type_config!r}")]
        device_id = self._device_id(status.info)
        if device_id is None:
            return [Candidate(backend, type_config, REFUSED, f"it has no device {self._context.device_id!r}")]
        call = self.call(type_config, device_id)
        answers = self._ask(backend, type_config, device_id, call)
        return self._choose(answers, status.info, call, listed)

    def _device_id(self, info: BackendInfo) -> str | None:
        """That of the Context if the backend has it; else "" for a host, which has one device, and None for others."""
        wanted = self._context.device_id
        if wanted in self._registry.devices(info.name):
            return wanted
        return "" if info.host else None

    def _ask(self, backend: str, type_config: str, device_id: str, call: C) -> list[Candidate]:
        try:
            found = self._registry.implementations(self._op, backend)
        except (Exception, SystemExit) as error:  # a provider of a family is third-party code; its failure is a reason
            if is_of_a_handler(error):
                raise
            reason = f"its family of implementations failed: {in_words(error)}"
            return [Candidate(backend, type_config, REFUSED, reason, device_id=device_id, exception=error)]
        if not found:
            return [Candidate(backend, type_config, MISSING, f"no implementation of {self._op}", device_id=device_id)]
        return [self._ask_one(made, type_config, device_id, call) for made in found]

    def _ask_one(self, made: Implementation, type_config: str, device_id: str, call: C) -> Candidate:
        other_version = self._why_incompatible(made, call)
        if other_version:
            reason, remedy = other_version
            return Candidate(
                made.backend,
                type_config,
                INCOMPATIBLE,
                reason,
                remedy=remedy,
                device_id=device_id,
                implementation=made,
            )
        exception: BaseException | None = None
        strided: tuple[str, ...] = getattr(call, "strided", ())  # what describes a call need not have arrays
        answer: bool | str
        try:
            if made.layout is None and getattr(call, "channel_last", False):
                answer = "it does not know channel_last"  # and would compute something else
            elif not made.integers and getattr(call, "has_integers", False):
                answer = "it computes floating-point numbers only"
            elif strided and not made.takes_strides(strided):
                answer = f"it takes no strides of {', '.join(strided)}"
            else:
                answer = made.accepts(call) if made.accepts is not None else True
        except (Exception, SystemExit) as error:  # third-party code; its failure is a reason, and the next one is asked
            if is_of_a_handler(error):
                raise
            answer, exception = f"accepts failed: {in_words(error)}", error
        if answer is True:
            state, reason = ACCEPTED, ""
        elif isinstance(answer, str):
            state, reason = REFUSED, answer or "it gave no reason"
        else:
            state, reason = REFUSED, f"accepts gave {answer!r} instead of True or a reason in words"
        return Candidate(
            made.backend, type_config, state, reason, device_id=device_id, implementation=made, exception=exception
        )

    def _why_incompatible(self, made: Implementation, call: C) -> tuple[str, str] | None:
        """Reason and remedy where the implementation is for another version of the op spec than the call's."""
        present = getattr(call, "op_version", None)  # what describes a call need not have versions
        if made.op_version is None or present is None or made.op_version == present:
            return None
        record = self._registry.record_of(made.backend)
        plugin = record.distribution or f"plugin {record.name!r}"
        older = plugin if made.op_version < present else "atled"
        return (
            f"{plugin} wrote it for version {made.op_version} of op spec {self._op}, here it is at version {present}",
            f"pip install --upgrade {older}",
        )

    def _choose(self, answers: list[Candidate], info: BackendInfo, call: C, listed: bool) -> list[Candidate]:
        """Judge what one backend's implementations answered; the best accepting one may become the chosen one."""
        moved = self._why_fallback(info, listed)
        forbidden = self._why_forbidden(info, moved)
        best: tuple[float, Candidate] | None = None
        for candidate in answers:
            if candidate.state != ACCEPTED:
                continue
            candidate.fallback = bool(moved)
            if forbidden:
                candidate.state, candidate.reason = FORBIDDEN, forbidden
                continue
            rank = _rank(candidate, call)
            if rank is not None and (best is None or rank > best[0]):
                best = (rank, candidate)
        if best is not None and self.chosen is None:
            self.chosen = best[1]
            self.chosen.state, self.chosen.reason = CHOSEN, moved
        for candidate in answers:
            if candidate.state == ACCEPTED and self.chosen is not None:
                same = candidate.backend == self.chosen.backend and candidate.type_config == self.chosen.type_config
                candidate.reason = "another one of its backend is preferred" if same else "asked later"
        return answers

    def _why_fallback(self, info: BackendInfo, listed: bool) -> str:
        """Why computing there would be a fallback; empty where it is placement."""
        if info.device_family != self._home:
            return f"on another device than the Context's first backend ({info.device_family}, not {self._home})"
        return "" if listed else f"backend {info.name!r} is not listed"

    def _why_forbidden(self, info: BackendInfo, moved: str) -> str:
        if not moved:
            return ""
        if info.device_family != self._home and not self._lists_host:
            return NEVER_LEAVES
        return f"fallback='raise', and this is one: {moved}" if self._context.fallback == "raise" else ""


# `object`: only handed on to the implementation.
def _rank(candidate: Candidate, call: object) -> float | None:
    """What `prefers` says of an accepting candidate; None, and the candidate refused, where that fails."""
    made = candidate.implementation
    if made is None or made.prefers is None:
        return 0.0
    try:
        rank = float(made.prefers(call))
        if math.isnan(rank):
            raise ValueError("it gave nan")
    except (Exception, SystemExit) as error:  # third-party code; its failure is a reason, and the next one is asked
        if is_of_a_handler(error):
            raise
        candidate.state, candidate.reason = REFUSED, f"prefers failed: {in_words(error)}"
        candidate.exception = error
        return None
    return rank
