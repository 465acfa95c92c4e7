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


class _Looks:
    """What all implementations are asked by before their own `accepts`; what describes a call need not have it."""

    __slots__ = ("channel_last", "has_integers", "op_version", "strided")

    def __init__(self, call: object) -> None:
        self.op_version: int | None = getattr(call, "op_version", None)
        self.channel_last: bool = getattr(call, "channel_last", False)
        self.has_integers: bool = getattr(call, "has_integers", False)
        self.strided: tuple[str, ...] = getattr(call, "strided", ())


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
        listed = self._context.backends
        offered = () if info is None else self._registry.type_configs(info)
        return next((type_config for _, type_config in listed if type_config in offered), listed[0][1])

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
        moved = self._why_fallback(status.info, listed)
        forbidden = self._why_forbidden(status.info, moved)
        answers = self._ask(backend, type_config, device_id, call, may_skip=not (forbidden or self._ask_all))
        return self._choose(answers, call, moved, forbidden)

    def _device_id(self, info: BackendInfo) -> str | None:
        """That of the Context if the backend has it; else "" for a host, which has one device, and None for others."""
        wanted = self._context.device_id
        if wanted in self._registry.devices(info.name):
            return wanted
        return "" if info.host else None

    def _ask(self, backend: str, type_config: str, device_id: str, call: C, *, may_skip: bool) -> list[Candidate]:
        """What the implementations of one backend answer.

        may_skip: whether those need not be asked that say once for all that they rank no higher than one that accepts.
        """
        try:
            found = self._registry.implementations(self._op, backend)
        except (Exception, SystemExit) as error:  # a provider of a family is third-party code; its failure is a reason
            if is_of_a_handler(error):
                raise
            reason = f"its family of implementations failed: {in_words(error)}"
            return [Candidate(backend, type_config, REFUSED, reason, device_id=device_id, exception=error)]
        if not found:
            return [Candidate(backend, type_config, MISSING, f"no implementation of {self._op}", device_id=device_id)]
        looks = _Looks(call)
        answers: list[Candidate] = []
        best = -math.inf  # of the ranks that do not depend on the call
        for made in found:
            if may_skip and made.prefers is not None and made.rank is not None and made.rank <= best:
                reason = "another one of its backend is preferred"
                answers.append(
                    Candidate(backend, type_config, NOT_ASKED, reason, device_id=device_id, implementation=made)
                )
                continue
            candidate = self._ask_one(made, type_config, device_id, call, looks)
            answers.append(candidate)
            if candidate.state == ACCEPTED and made.rank is not None:
                best = max(best, made.rank)
        return answers

    def _ask_one(self, made: Implementation, type_config: str, device_id: str, call: C, looks: _Looks) -> Candidate:
        other_version = self._why_incompatible(made, looks.op_version)
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
        answer: bool | str
        try:
            answer = _answer(made, call, looks)
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

    def _why_incompatible(self, made: Implementation, present: int | None) -> tuple[str, str] | None:
        """Reason and remedy where the implementation is for another version of the op spec than the call's."""
        if made.op_version is None or present is None or made.op_version == present:
            return None
        record = self._registry.record_of(made.backend)
        plugin = record.distribution or f"plugin {record.name!r}"
        older = plugin if made.op_version < present else "atled"
        return (
            f"{plugin} wrote it for version {made.op_version} of op spec {self._op}, here it is at version {present}",
            f"pip install --upgrade {older}",
        )

    def _choose(self, answers: list[Candidate], call: C, moved: str, forbidden: str) -> list[Candidate]:
        """Judge what one backend's implementations answered; the best accepting one may become the chosen one.

        moved: why computing there would be a fallback.  forbidden: why the Context does not allow it.
        """
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


# `object` as a call: only handed on to the implementation.
def accepts_surely(made: Implementation, call: object) -> bool:
    """Whether an implementation accepts a call; False also where it fails, which asking again is to find out."""
    looks = _Looks(call)
    if made.op_version is not None and looks.op_version is not None and made.op_version != looks.op_version:
        return False
    try:
        return _answer(made, call, looks) is True
    except (Exception, SystemExit) as error:
        if is_of_a_handler(error):
            raise
        return False


def _answer(made: Implementation, call: object, looks: _Looks) -> bool | str:
    """True where an implementation accepts a call, else the reason in words."""
    if made.layout is None and looks.channel_last:
        return "it does not know channel_last"  # and would compute something else
    if not made.integers and looks.has_integers:
        return "it computes floating-point numbers only"
    if looks.strided and not made.takes_strides(looks.strided):
        return f"it takes no strides of {', '.join(looks.strided)}"
    return made.accepts(call) if made.accepts is not None else True


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
