"""Parameters of files as Variables, and their way into the current parameter scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atled.errors import four_parts
from atled.files.entry import Entry
from atled.parameter import LOCK, get_parameter, set_parameter
from atled.variable import Variable


def as_variables(found: Iterable[Entry]) -> dict[str, Variable]:
    """New Variables with the values of a file's parameters, by name."""
    made = {}
    for entry in found:
        variable = Variable(entry.values.shape, need_grad=entry.need_grad)
        variable.d = entry.values
        made[entry.key] = variable
    return made


def publish(asked: str, parameters: Mapping[str, Variable]) -> None:
    """Store Variables in the current scope, in place of those that have their names: all of them, or none."""
    with LOCK:
        for key in parameters:
            try:
                get_parameter(key)
            except ValueError as error:
                raise ValueError(
                    four_parts(
                        f"{asked}, parameter {key!r}",
                        "the name is in the way of others in the current scope",
                        str(error).splitlines(),
                        "use another scope: with parameter_scope(name): ...",
                    )
                ) from error
        for key, variable in parameters.items():
            set_parameter(key, variable)
