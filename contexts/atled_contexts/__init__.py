"""Context, scopes, plugins and selection: who may compute, who can, and who does.

Standard library and pluggy only; knows no op and computes nothing. Importing it discovers nothing: plugins are looked
for when the first Context is made.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

from atled_contexts.candidate import Candidate
from atled_contexts.context import Context
from atled_contexts.discovery import (
    add_builtin,
    check_array_classes,
    handed_over,
    plugin_generation,
    plugins,
    register_plugin,
    reload_plugins,
    unregister_plugin,
    when_plugins_change,
)
from atled_contexts.errors import (
    ContextError,
    ContextScopeError,
    FallbackWarning,
    PluginError,
    PluginWarning,
    ReferenceWarning,
    SelectionError,
    SettingError,
    VerificationError,
)
from atled_contexts.fallback import FallbackCount, count_fallback, fallback_counts, reset_fallback_counts
from atled_contexts.forks import await_imports, lock_across_forks
from atled_contexts.lookup import (
    array_class,
    array_class_names,
    backend_info,
    backend_status,
    backends,
    devices,
    extension_names,
    implementations,
    native_executor,
    native_executors,
    plugin_facts,
    type_config,
    warmings,
)
from atled_contexts.observation import active_trace, active_verification, is_observed
from atled_contexts.package_files import CONFORMANCE, MANIFEST, package_folder, read_package_file
from atled_contexts.plugin import (
    API_VERSION,
    BackendInfo,
    FallbackEvent,
    PluginInfo,
    Unusable,
    Usable,
    Warming,
)
from atled_contexts.preparation import (
    Preparation,
    is_preparation_watched,
    report_preparation,
    watch_preparation,
)
from atled_contexts.record import PluginRecord
from atled_contexts.registrar import Implementation, Registrar
from atled_contexts.registry import BackendStatus
from atled_contexts.scopes import (
    bind,
    context_in_force,
    context_scope,
    get_current_context,
    get_extension_context,
    reset_default_context,
    set_default_context,
    using,
)
from atled_contexts.selection import (
    Decision,
    best_candidate,
    clear_selection_cache,
    consider,
    select,
    selection_count,
)
from atled_contexts.settings import (
    Setting,
    declare_setting,
    declared_settings,
    parse_bool,
    parse_choice,
    parse_int,
    parse_names,
    parse_share,
    parse_text,
    setting,
    setting_source,
)
from atled_contexts.type_configs import TypeConfig, check_type_configs
from atled_contexts.verification import Verification, verify

if TYPE_CHECKING:
    from atled_contexts.explain import candidates_table, explain_decision
    from atled_contexts.hooks import hookimpl
    from atled_contexts.kinds import best_backend, best_context
    from atled_contexts.tracing import Trace, TraceEvent, TraceRow, TransferRow, trace

# What few programs use, with the modules it is in: imported when it is first asked for.
_LATER = {
    "Trace": "tracing",
    "TraceEvent": "tracing",
    "TraceRow": "tracing",
    "TransferRow": "tracing",
    "best_backend": "kinds",
    "best_context": "kinds",
    "candidates_table": "explain",
    "explain_decision": "explain",
    "hookimpl": "hooks",  # needs pluggy
    "trace": "tracing",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    return found


__all__ = [
    "API_VERSION",
    "CONFORMANCE",
    "MANIFEST",
    "BackendInfo",
    "BackendStatus",
    "Candidate",
    "Context",
    "ContextError",
    "ContextScopeError",
    "Decision",
    "FallbackCount",
    "FallbackEvent",
    "FallbackWarning",
    "Implementation",
    "PluginError",
    "PluginInfo",
    "PluginRecord",
    "PluginWarning",
    "Preparation",
    "ReferenceWarning",
    "Registrar",
    "SelectionError",
    "Setting",
    "SettingError",
    "Trace",
    "TraceEvent",
    "TraceRow",
    "TransferRow",
    "TypeConfig",
    "Unusable",
    "Usable",
    "Verification",
    "VerificationError",
    "Warming",
    "active_trace",
    "active_verification",
    "add_builtin",
    "array_class",
    "array_class_names",
    "await_imports",
    "backend_info",
    "backend_status",
    "backends",
    "best_backend",
    "best_candidate",
    "best_context",
    "bind",
    "candidates_table",
    "check_array_classes",
    "check_type_configs",
    "clear_selection_cache",
    "consider",
    "context_in_force",
    "context_scope",
    "count_fallback",
    "declare_setting",
    "declared_settings",
    "devices",
    "explain_decision",
    "extension_names",
    "fallback_counts",
    "get_current_context",
    "get_extension_context",
    "handed_over",
    "hookimpl",
    "implementations",
    "is_observed",
    "is_preparation_watched",
    "lock_across_forks",
    "native_executor",
    "native_executors",
    "package_folder",
    "parse_bool",
    "parse_choice",
    "parse_int",
    "parse_names",
    "parse_share",
    "parse_text",
    "plugin_facts",
    "plugin_generation",
    "plugins",
    "read_package_file",
    "register_plugin",
    "reload_plugins",
    "report_preparation",
    "reset_default_context",
    "reset_fallback_counts",
    "select",
    "selection_count",
    "set_default_context",
    "setting",
    "setting_source",
    "trace",
    "type_config",
    "unregister_plugin",
    "using",
    "verify",
    "warmings",
    "watch_preparation",
    "when_plugins_change",
]


def __dir__() -> list[str]:
    return sorted(__all__)
