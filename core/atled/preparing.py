"""Preparing: asks an implementation how a call is launched, and checks what it answers."""

from __future__ import annotations

from atled.call import Call, Prepared
from atled.errors import did_you_mean, four_parts, listing, shortened
from atled_contexts import Implementation, backend_status


def prepare(made: Implementation, call: Call) -> Prepared:
    """What an implementation makes of a call; what it raises gets a note that names plugin, backend and call.

    TypeError: it answers something else than a Prepared, or omits or attaches what the op does not have.
    """
    # A formula has other names where it is made of several calls, and takes no other one.
    if (made.omits or made.attaches) and call.spec.program is None and call.spec.name == made.op:
        _require_names(made, call)
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


def _require_names(made: Implementation, call: Call) -> None:
    spec = call.spec
    arrays = (*spec.input_names, *spec.outputs)
    for field, names, known, kind in (
        ("omits", made.omits, tuple(spec.auxiliary), "auxiliary output"),
        ("attaches", made.attaches, arrays, "input or output"),
    ):
        wrong = next((name for name in names if name not in known), None)
        if wrong is not None:
            raise TypeError(
                four_parts(
                    f"{field}={names!r} of the implementation of {made.op} by {who(made)}",
                    f"{wrong!r} is no {kind} of the op",
                    f"it has {listing(known)}",
                    did_you_mean(wrong, known, "name one of them, or leave it out"),
                )
            )


def who(made: Implementation) -> str:
    """Backend and plugin of an implementation, for errors."""
    plugin = backend_status(made.backend).plugin
    return f"backend {made.backend!r}" + (f" of plugin {plugin!r}" if plugin else "")
