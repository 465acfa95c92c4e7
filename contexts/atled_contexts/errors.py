"""The errors and warnings of contexts and plugins, with the wording that all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ContextError(ValueError):
    """A Context that cannot be made: malformed, unknown, or without a usable backend."""


class ContextScopeError(AssertionError):
    """`set_default_context` inside a `context_scope`; an AssertionError, as NNabla has it."""


class SettingError(ValueError):
    """An `ATLED_*` environment variable that is unknown or whose value does not parse."""


class PluginError(RuntimeError):
    """A plugin, or something that only a plugin brings, that is not there or breaks the contract."""


class SelectionError(RuntimeError):
    """No backend that the Context allows computes the call."""


class VerificationError(RuntimeError):
    """An op gave something else than its reference.

    op: its name.  backend, plugin: who computed it.  call: its description.
    error: the largest absolute difference; nan where it is not known.
    """

    # Defaults, because an unpickled exception is made from its text alone and gets its fields afterwards.
    def __init__(
        self,
        text: str,
        *,
        op: str = "",
        backend: str = "",
        plugin: str = "",
        call: str = "",
        error: float = float("nan"),
    ) -> None:
        super().__init__(text)
        self.op = op
        self.backend = backend
        self.plugin = plugin
        self.call = call
        self.error = error


class FallbackWarning(UserWarning):
    """An op ran somewhere that the Context did not name first; shown once per op and reason."""


class ReferenceWarning(UserWarning):
    """The default Context computes on the reference, for want of a faster backend; shown once per process."""


class PluginWarning(UserWarning):
    """A plugin failed beside an op call, which went on: in its observer, or when asked whether it computes the call."""


def message(asked: str, wrong: str, considered: str | Sequence[str] = "", remedy: str = "") -> str:
    """The text of an error in four parts: what was asked, what is wrong, what was considered, what to do.

    considered: one text, or one line per thing looked at. Empty parts are left out.
    """
    lines = [f"{asked}: {wrong}" if asked else wrong]
    if isinstance(considered, str):
        lines += [f"Considered: {considered}"] if considered else []
    elif considered:
        lines += ["Considered:", *(f"  {line}" for line in considered)]
    if remedy:
        lines.append(f"What to do: {remedy}")
    return "\n".join(lines)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None where none is like it."""
    import difflib  # only on the way to an error: keeps the import of the package quick

    names = sorted(set(known))
    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A remedy: the nearest known name, or `otherwise` where none is near."""
    match = nearest(name, known)
    return f"did you mean {match!r}?" if match is not None else otherwise


def listing(names: Iterable[str]) -> str:
    """Names for a message, in the order given; "none" for no names."""
    return ", ".join(names) or "none"


def in_words(error: BaseException) -> str:
    """An exception as `Type: text`, without the text where it has none."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
