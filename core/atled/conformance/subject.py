"""The plugin under test: found by name, with its backends, device and ops."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from atled.arrays.place import ArrayClass
from atled.conformance.cases import Case, samples_of
from atled.conformance.running import spec_named
from atled.errors import did_you_mean, four_parts, in_words, listing
from atled.generators.catalogue import all_specs
from atled.ops.spec import OpSpec
from atled.type_configs import computable
from atled_contexts import (
    BackendInfo,
    Context,
    Implementation,
    PluginError,
    PluginInfo,
    PluginRecord,
    array_class,
    backend_status,
    devices,
    implementations,
    plugins,
    register_plugin,
    reload_plugins,
    unregister_plugin,
)


class SubjectError(Exception):
    """The plugin that was asked for cannot be tested."""


class Subject:
    """One usable plugin on one device.

    origin: "module:OBJECT" where the plugin was given as one, else "".
    record, info: what discovery made of it, and what it says of itself.
    device: device id that everything runs on.
    ops: patterns of the names of the ops to check; none for all.
    provider_errors: per (backend, op) what the plugin raised when it was asked for implementations.
    """

    def __init__(self, record: PluginRecord, device: str, origin: str = "", ops: Sequence[str] = ()) -> None:
        assert record.info is not None
        self.record = record
        self.origin = origin
        self.info: PluginInfo = record.info
        self.backends: tuple[BackendInfo, ...] = self.info.backends
        self.device = device
        self.ops = tuple(ops)
        self.provider_errors: dict[tuple[str, str], Exception] = {}

    @property
    def name(self) -> str:
        """Name of the plugin's entry point."""
        return self.record.name

    def release(self) -> None:
        """Take back what finding it registered."""
        if self.origin:
            unregister_plugin(self.name)

    def revive(self) -> None:
        """Have the plugin asked again, if it was set aside: one op that it fails to answer for must not hide others."""
        if not all(backend_status(info.name).usable for info in self.backends):
            reload_plugins()

    def backend(self, name: str) -> BackendInfo:
        """One of its backends."""
        return next(info for info in self.backends if info.name == name)

    def type_configs(self, backend: str) -> tuple[str, ...]:
        """Those whose dtypes can be had here, `float` first where it is offered."""
        offered = computable(self.backend(backend).type_configs)
        return tuple(sorted(offered, key=lambda name: name != "float"))

    def context(self, backend: str, type_config: str) -> Context:
        """A Context that allows this backend alone."""
        return Context([f"{backend}:{type_config}"], device_id=self.device, fallback="raise")

    def mixed(self, backend: str, type_config: str = "") -> Context:
        """A Context that prefers this backend and lets the reference compute the rest."""
        wanted = type_config or self.type_configs(backend)[0]
        return Context([f"{backend}:{wanted}", f"reference:{wanted}"], device_id=self.device, fallback="quiet")

    @staticmethod
    def reference(type_config: str) -> Context:
        """The reference alone."""
        return Context([f"reference:{type_config}"], fallback="raise")

    def implementations(self, op: str, backend: str) -> tuple[Implementation, ...]:
        """What the plugin offers for an op in its present version; nothing, with the error kept, where asking fails."""
        try:
            offered = implementations(op, backend)
            return tuple(made for made in offered if made.op_version in (None, spec_named(op).version))
        except Exception as error:  # the plugin's own code; the check `registration` reports it
            self.provider_errors[backend, op] = error
            return ()

    @functools.cache  # noqa: B019  # there is one subject in a run, and it lives as long as the run
    def implemented(self) -> tuple[tuple[str, OpSpec], ...]:
        """(backend, op spec) for every op that the plugin offers and the engine asks for."""
        return tuple(
            (info.name, spec)
            for info in self.backends
            if self.type_configs(info.name)
            for spec in all_specs()
            if not spec.views and samples_of(spec) and self._is_wanted(spec.name)
            if self.implementations(spec.name, info.name)
        )

    def _is_wanted(self, op: str) -> bool:
        return not self.ops or any(fnmatchcase(op, pattern) for pattern in self.ops)

    def missing(self) -> dict[str, list[str]]:
        """Per backend the ops that it leaves to others."""
        offered = set(self.implemented())
        return {
            info.name: [spec.name for spec in all_specs() if not spec.views and (info.name, spec) not in offered]
            for info in self.backends
        }

    def accepting(self, case: Case) -> list[Implementation]:
        """The implementations that say yes to a call; one whose `accepts` fails counts as a no here."""
        return [made for made in self.implementations(case.name, case.backend) if _says_yes(made, case)]

    def why_refused(self, case: Case) -> str:
        """Why the plugin does not compute a call; empty where it does."""
        if self.accepting(case):
            return ""
        reasons = [_answer(made, case) for made in self.implementations(case.name, case.backend)]
        return f"refused: {listing(dict.fromkeys(str(reason) for reason in reasons))}"

    def device_array_classes(self) -> dict[str, ArrayClass]:
        """By name the array classes of the plugin's device backends."""
        found: dict[str, ArrayClass] = {}
        for info in self.backends:
            if not info.host:
                name = self.context(info.name, self.type_configs(info.name)[0]).array_class
                found[name] = self.array_class(name)
        return found

    def array_class_of(self, backend: str) -> ArrayClass | None:
        """The array class that a backend computes on by default; None for host memory."""
        if self.backend(backend).host:
            return None
        return self.array_class(self.context(backend, self.type_configs(backend)[0]).array_class)

    @staticmethod
    def array_class(name: str) -> ArrayClass:
        """A registered array class."""
        found: Any = array_class(name)  # the registry of plugins knows no types of the core
        return found


def _says_yes(made: Implementation, case: Case) -> bool:
    return _answer(made, case) is True


def _answer(made: Implementation, case: Case) -> bool | str:
    if made.layout is None and case.call.channel_last:
        return "it does not know channel_last"  # so it is never asked
    try:
        return True if made.accepts is None else made.accepts(case.call)
    except Exception as error:  # the plugin's own code; the check `accepts` reports it
        return in_words(error)


def find_subject(asked: str, device: str | None = None, ops: Sequence[str] = ()) -> Subject:
    """The plugin of a name: that of its entry point, distribution or backend, or "module:OBJECT".

    device: device id; None takes the first that the plugin lists.  ops: see Subject.
    SubjectError: there is no such plugin, it cannot be used, it has no such device, or there is no such op.
    """
    if ":" not in asked:
        return _find(asked, device, ops)
    name = _register(asked)
    try:
        return _find(name, device, ops, origin=asked)
    except SubjectError:
        unregister_plugin(name)
        raise


def _find(asked: str, device: str | None, ops: Sequence[str], origin: str = "") -> Subject:
    records = plugins()
    named = [record for record in records if asked in _words(record)]
    if not named:
        known = sorted(record.name for record in records)
        raise SubjectError(
            four_parts(
                f"--atled-plugin {asked}",
                "no plugin of that name is installed",
                f"installed are {listing(known)}",
                did_you_mean(asked, known, "install its distribution, or give module:OBJECT"),
            )
        )
    record = named[0]
    if not record.usable:
        raise SubjectError(
            four_parts(
                f"--atled-plugin {asked}", f"{record.title} is {record.state}: {record.reason}", "", record.remedy
            )
        ) from record.exception
    _check_ops(ops)  # once the plugins are loaded, which may bring ops of their own
    return Subject(record, _device(record, device), origin, ops)


def _check_ops(patterns: Sequence[str]) -> None:
    known = [spec.name for spec in all_specs()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            remedy = did_you_mean(pattern, known, "python -m atled support-matrix lists all")
            raise SubjectError(four_parts(f"--atled-ops {pattern}", "no op has such a name", "", remedy))


def _words(record: PluginRecord) -> set[str]:
    """What a plugin may be called."""
    backends = [info.name for info in record.info.backends] if record.info is not None else []
    return {record.name, record.distribution, *backends} - {""}


def _register(origin: str) -> str:
    """Import "module:OBJECT" and register it under the last word of the module's name."""
    module, _, attribute = origin.partition(":")
    try:
        plugin = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SubjectError(
            four_parts(f"--atled-plugin {origin}", in_words(error), "", "give a module on the path and an object in it")
        ) from error
    name = module.rpartition(".")[2]
    try:
        register_plugin(name, plugin)
    except PluginError as error:
        raise SubjectError(str(error)) from error
    return name


def _device(record: PluginRecord, asked: str | None) -> str:
    assert record.info is not None
    listed = [devices(info.name) for info in record.info.backends]
    if not listed or not all(listed):
        raise SubjectError(
            four_parts(f"{record.title}", "it has no backend with a device", "", "declare a BackendInfo in atled_info")
        )
    if asked is None:
        return listed[0][0]
    for ids in listed:
        if asked not in ids:
            remedy = did_you_mean(asked, ids, "use one of these")
            raise SubjectError(
                four_parts(f"--device {asked}", f"{record.title} has no such device", listing(ids), remedy)
            )
    return asked


def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array in another dtype; what is too large becomes infinite."""
    with np.errstate(all="ignore"):
        return array.astype(dtype)
