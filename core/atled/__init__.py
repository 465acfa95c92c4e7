"""atled: a deep-learning library whose every op can run on any device for which there is a plugin.

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
"""

from __future__ import annotations

import importlib as _importlib  # not of the API
from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING

from atled._version import __version__ as __version__
from atled.arrays.array import NdArray
from atled.arrays.operators import Calls as _Calls
from atled.calling.auto_mode import auto_forward, get_auto_forward, set_auto_forward
from atled.errors import no_such as _no_such
from atled.files import unpacking as _unpacking  # noqa: F401  # declares a setting, before settings are read
from atled.function import Function
from atled.parameter import (
    clear_parameters,
    get_parameter,
    get_parameter_or_create,
    get_parameters,
    parameter_scope,
    pop_parameter,
    set_parameter,
)
from atled.random import seed
from atled.variable import Variable
from atled_contexts import (
    Context,
    FallbackWarning,
    ReferenceWarning,
    VerificationError,
    add_builtin,
    bind,
    context_scope,
    fallback_counts,
    get_current_context,
    get_extension_context,
    reset_fallback_counts,
    set_default_context,
    using,
    verify,
)

# What type checkers are told of `_LATER`; all but the names of `ext_utils`, which stands above this file.
if _TYPE_CHECKING:
    from atled.arrays.memory import clear_memory_cache as clear_memory_cache
    from atled.arrays.memory import memory_statistics as memory_statistics
    from atled.arrays.memory import set_constants_limit as set_constants_limit
    from atled.arrays.memory import set_memory_cache_limit as set_memory_cache_limit
    from atled.arrays.preference import array_classes as array_classes
    from atled.arrays.preference import prefer_cached_array as prefer_cached_array
    from atled.arrays.preference import reset_array_preference as reset_array_preference
    from atled.compiled_step import compile_step as compile_step
    from atled.derivatives import grad
    from atled.explanation import explain
    from atled.files.parameters import load_parameters, save_parameters
    from atled.inferring import inference as inference
    from atled.logger import logger as logger
    from atled.several import backward_all, forward_all
    from atled_contexts import trace

__all__ = [
    "Context",
    "FallbackWarning",
    "Function",
    "NdArray",
    "ReferenceWarning",
    "Variable",
    "VerificationError",
    "auto_forward",
    "backward_all",
    "bind",
    "clear_parameters",
    "context_scope",
    "explain",
    "fallback_counts",
    "forward_all",
    "get_auto_forward",
    "get_current_context",
    "get_extension_context",
    "get_parameter",
    "get_parameter_or_create",
    "get_parameters",
    "grad",
    "load_parameters",
    "parameter_scope",
    "pop_parameter",
    "reset_fallback_counts",
    "save_parameters",
    "seed",
    "set_auto_forward",
    "set_default_context",
    "set_parameter",
    "trace",
    "using",
    "verify",
]


def _reference_plugin() -> object:
    # Lazy: the plugin's hooks need pluggy, which nothing needs before the first Context is made.
    from atled.reference_plugin import ReferencePlugin

    return ReferencePlugin()


add_builtin("reference", _reference_plugin)


def _connect() -> None:
    """Import what makes the functions of ops; it puts them in the place of what does so at the first call of one."""
    _importlib.import_module("atled.calling.function_text")


class _LaterFunctions(dict[str, _Callable[..., object]]):
    """Stands for the functions until the first one is asked for: what they need is half of `import atled`."""

    def __missing__(self, op: str) -> _Callable[..., object]:
        _connect()
        return _Calls.functions[op]


def _later_apply(*arguments: object, **named: object) -> object:
    """Stands for `atled.calling.apply.apply`, likewise."""
    _connect()
    return _Calls.apply(*arguments, **named)


def _later_put_into_itself(*arguments: object) -> None:
    """Stands for `atled.calling.in_place.put_into_itself`, likewise."""
    _importlib.import_module("atled.calling.in_place")
    _Calls.put_into_itself(*arguments)


_Calls.functions = _LaterFunctions()
_Calls.apply = staticmethod(_later_apply)
_Calls.put_into_itself = staticmethod(_later_put_into_itself)

# Parts of the API that few programs use, with the modules they are in: imported when they are first asked for.
_LATER = {
    "add_available_context": "atled.ext_utils",
    "array_classes": "atled.arrays.preference",
    "available_contexts": "atled.ext_utils",
    "backward_all": "atled.several",
    "clear_memory_cache": "atled.arrays.memory",
    "compile_step": "atled.compiled_step",
    "explain": "atled.explanation",
    "forward_all": "atled.several",
    "grad": "atled.derivatives",
    "inference": "atled.inferring",
    "load_parameters": "atled.files.parameters",
    "logger": "atled.logger",
    "memory_statistics": "atled.arrays.memory",
    "prefer_cached_array": "atled.arrays.preference",
    "reset_array_preference": "atled.arrays.preference",
    "save_parameters": "atled.files.parameters",
    "set_constants_limit": "atled.arrays.memory",
    "set_memory_cache_limit": "atled.arrays.memory",
    "trace": "atled_contexts",
}


# Modules that programs import by name; `atled.functions` finds them too.
_MODULES = (
    "experimental",
    "ext_utils",
    "functions",
    "initializer",
    "monitor",
    "parametric_functions",
    "plugin",
    "solvers",
    "utils",
)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name not in _LATER:
        if name.startswith("__"):  # Python itself asks for such ones
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise _no_such(__name__, "name", name, __dir__())
    return getattr(_importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *_MODULES, "__version__"})
