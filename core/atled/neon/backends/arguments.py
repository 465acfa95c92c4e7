"""Which arguments the constructors of backends declare: `gen_backend` has more than some of them take."""

from __future__ import annotations

import inspect
from typing import Any

HANDED_ON = (
    "rng_seed",
    "default_dtype",
    "stochastic_round",
    "device_id",
    "num_devices",
    "compat_mode",
    "deterministic",
)
"""What `gen_backend` gives every class that declares it."""


def declared_arguments(registered: type, given: dict[str, Any]) -> dict[str, Any]:
    """Of some arguments those that a class's constructor takes; what `gen_backend` does not hand on stays anyway."""
    names = _declared(registered)
    return {name: value for name, value in given.items() if name in names or name not in HANDED_ON}


def _declared(registered: type) -> set[str]:
    """Names of the arguments; where `**kwargs` go to the constructors of the parents, theirs as well."""
    found: set[str] = set()
    for each in registered.__mro__:
        if "__init__" in each.__dict__:
            parameters = inspect.signature(each.__dict__["__init__"]).parameters
            found.update(parameters)
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
                break
    return found
