"""atled: a deep-learning library whose every op can run on any device that somebody wrote a plugin for."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

from atled import functions
from atled.apply import auto_forward, get_auto_forward, set_auto_forward
from atled.array import NdArray
from atled.function import Function
from atled.variable import Variable
from atled_contexts import (
    Context,
    add_builtin,
    context_scope,
    get_current_context,
    get_extension_context,
    set_default_context,
    trace,
)


def _reference_plugin() -> object:
    # Lazy: the plugin's hooks need pluggy, which nothing needs before the first Context is made.
    from atled.reference import ReferencePlugin

    return ReferencePlugin()


add_builtin("reference", _reference_plugin)
