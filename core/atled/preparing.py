"""Preparing: asks an implementation how a call is launched, and checks what it answers."""

from __future__ import annotations

from atled.call import Call, Prepared
from atled.errors import four_parts, shortened
from atled_contexts import Implementation, backend_status


def prepare(made: Implementation, call: Call) -> Prepared:
    """What an implementation makes of a call; what it raises gets a note that names plugin, backend and call.

    TypeError: it answers something else than a Prepared.
    """
    try:
        answer = made.prepare(call)
    except Exception as error:
        error.add_note(f"while {who(made)} prepared {call}")
        raise
    if isinstance(answer, Prepared):
        return answer
    raise TypeError(
        four_parts(
            f"prepare of {call} by {who(made)}",
            f"it returned {shortened(answer)}, not a Prepared",
            "",
            "have prepare(call) end in `return Prepared(run, ...)`",
        )
    )


def who(made: Implementation) -> str:
    """Backend and plugin of an implementation, for errors."""
    plugin = backend_status(made.backend).plugin
    return f"backend {made.backend!r}" + (f" of plugin {plugin!r}" if plugin else "")
