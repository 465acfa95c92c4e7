"""The examination: everything that doctor reports, as plain values for `json.dumps`."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import atled
from atled.arrays.spares import places_without_spares
from atled.doctor.hardware import hardware_hints
from atled.doctor.self_test import self_test
from atled.errors import in_words
from atled_contexts import (
    API_VERSION,
    Context,
    PluginRecord,
    SettingError,
    backend_status,
    backends,
    declared_settings,
    devices,
    entry_points,
    get_current_context,
    plugin_facts,
    plugins,
    setting,
    setting_source,
)
from atled_contexts.extras import how_to_install
from atled_contexts.scopes import why_slow
from atled_contexts.settings import idle_settings

Report = dict[str, Any]
"""Strings, numbers, booleans, None, and lists and dicts of these."""


def examine(names: Sequence[str] = (), *, with_self_tests: bool = True) -> Report:
    """Look at everything.

    names: plugins or backends that must be usable, besides those that settings ask for.

    The report is "ok" if nothing that was asked for is unusable and the settings can be read; "problems" says in words
    what is not.
    """
    problems: list[str] = []
    try:
        records = plugins()
    except SettingError as error:
        records = ()
        problems.append(str(error))
    context = _default_context(problems) if not problems else None
    usable = backends() if not problems or records else ()
    tests = [self_test(name, device) for name in usable for device in _own_devices(name)] if with_self_tests else []
    report: Report = {
        "versions": _versions(),
        "plugins": [_plugin(record) for record in records],
        "devices": [_devices(name) for name in usable],
        "context": None if context is None else _context(context),
        "settings": [_setting(one.name, one.default, one.help) for one in declared_settings()],
        "self_tests": tests,
        "hints": [*_idle_settings(), *hardware_hints(records), *_spares_hints()],
        "slow": "" if context is None else why_slow(context),
        "asked": _asked(names),
    }
    problems += [one["error"] for one in report["settings"] if one["error"] and one["error"] not in problems]
    problems += [text for text in map(_asked_problem(records), report["asked"]) if text]
    problems += [_failed(test) for test in tests if not test["passed"] and _matters(test, report)]
    return {"ok": not problems, "problems": problems, **report}


def _versions() -> dict[str, str]:
    return {
        "atled": atled.__version__,
        "plugin API": API_VERSION,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "executable": sys.executable,
    }


def _plugin(record: PluginRecord) -> Report:
    needed = entry_points.requirements_of(record.distribution) if record.distribution else ()
    libraries = [name for name in needed if name not in ("atled", record.distribution)]
    return {
        "name": record.name,
        "source": record.source,
        "state": record.state,
        "reason": record.reason,
        "remedy": record.remedy,
        "exception": in_words(record.exception) if record.exception is not None else "",
        "distribution": record.distribution,
        "version": record.version,
        "file": record.file,
        "api_version": record.info.api_version if record.info is not None else "",
        "backends": list(record.backends),
        "facts": _facts(record),
        "libraries": {name: entry_points.version_of(name) for name in libraries},
    }


def _facts(record: PluginRecord) -> dict[str, str]:
    """What a usable plugin says of itself, or the error that its hook raised."""
    try:
        return {str(name): str(text) for name, text in plugin_facts(record.name).items()} if record.usable else {}
    except Exception as error:  # a plugin's own: the examination goes on
        return {"atled_facts": in_words(error)}


def _spares_hints() -> list[str]:
    """A hint where memory of small results cannot be reused, because reference counts do not show what is in use."""
    places = places_without_spares()
    if not places:
        return []
    hint = (
        f"{len(places)} places make a new array for each small result, which takes longer, since the reference "
        f"counts of this interpreter do not show whether one is in use ({', '.join(places[:3])}): use a released "
        "CPython with the interpreter lock and without its just-in-time compiler"
    )
    return [hint]


def _own_devices(backend: str) -> list[str]:
    """The device ids of a backend, host memory once; none where they cannot be listed, which `_devices` reports."""
    listed = _devices(backend)["devices"]
    info = backend_status(backend).info
    return listed[:1] if info is not None and info.host else listed


def _devices(backend: str) -> Report:
    try:
        found = [device for device in devices(backend) if device]
        return {"backend": backend, "devices": found, "error": ""}
    except Exception as error:  # a plugin's own; it is reported
        return {"backend": backend, "devices": [], "error": str(error)}


def _default_context(problems: list[str]) -> Context | None:
    try:
        return get_current_context()
    except ValueError as error:  # ContextError, SettingError: what the environment asks for cannot be
        problems.append(str(error))
        return None


def _context(context: Context) -> Report:
    return {
        "backends": context.backend,
        "array_class": context.array_class,
        "device_id": context.device_id,
        "fallback": context.fallback,
        "deterministic": context.deterministic,
        "local_errors": context.local_errors,
    }


def _setting(name: str, default: Any, help: str) -> Report:
    entry = {"name": name, "source": setting_source(name), "default": _plain(default), "help": help, "error": ""}
    try:
        return {**entry, "value": _plain(setting(name))}
    except SettingError as error:
        return {**entry, "value": None, "error": str(error)}


def _idle_settings() -> list[str]:
    return [
        f"{name} is set, but no plugin that reads it is loaded: {extra.install}"
        for name, extra in idle_settings().items()
    ]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _asked(names: Sequence[str]) -> list[str]:
    """Names of plugins and backends that must be usable: those given, and those that settings ask for."""
    asked = [*names]
    for variable in ("ATLED_BACKENDS", "ATLED_PLUGINS_ONLY"):
        try:
            asked += [entry.partition(":")[0] for entry in setting(variable)]
        except SettingError:
            continue  # discovery raised it already, and that is among the problems
    return list(dict.fromkeys(asked))


def _asked_problem(records: Sequence[PluginRecord]) -> Any:
    by_name = {name: record for record in records for name in (record.name, record.distribution) if name}

    def problem(name: str) -> str:
        record = by_name.get(name)
        if record is not None:
            return "" if record.usable else f"plugin {name} is {record.state}: {record.reason}"
        if not records:
            return ""
        status = backend_status(name)
        if status.usable:
            return ""
        if status.state != "absent":
            return f"backend {name} is {status.state}: {status.reason}"
        known = (*by_name, *(backend for record in records for backend in record.backends))
        return f"{name} is no plugin or backend that is known here; {how_to_install(name, known)}"

    return problem


def _matters(test: Report, report: Report) -> bool:
    """Whether a failed test is of something that is asked for, or that the default Context uses."""
    owners = [one["name"] for one in report["plugins"] if test["backend"] in one["backends"]]
    chosen = [entry.partition(":")[0] for entry in (report["context"] or {}).get("backends", ())]
    return bool({test["backend"], *owners} & {*report["asked"], *chosen})


def _failed(test: Report) -> str:
    return f"the self-test of backend {test['backend']} on device {test['device']} failed: {test['error']}"
