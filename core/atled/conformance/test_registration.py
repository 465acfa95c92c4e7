"""What the plugin says of itself and hands over."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from atled.conformance.cases import Topic, backends, over
from atled.conformance.subject import Subject
from atled.errors import did_you_mean, in_words, listing
from atled.generators.catalogue import all_specs
from atled_contexts import Context, context_scope, get_current_context, get_extension_context, handed_over

_OWN = "atled atled_contexts atled_pytest numpy pluggy"  # what the core itself has imported by then

# Prints the top-level modules beyond the standard library that importing the plugin object, and asking who it is, load.
_IMPORT = """
import sys
import numpy, pluggy, atled, atled_contexts
from atled_contexts.hooks import PluginHooks
import importlib, importlib.metadata
before = set(sys.modules)
{load}
PluginHooks("subject", plugin).call("atled_info")
own = plugin.__name__ if isinstance(plugin, type(sys)) else type(plugin).__module__
packages = {{own.partition(".")[0], "{package}"}} | set("{core}".split())
new = {{name.partition(".")[0] for name in set(sys.modules) - before}} - packages
made_by_installing = ("__editable__", "_sysconfigdata")
print(*sorted(name for name in new - set(sys.stdlib_module_names) if not name.startswith(made_by_installing)))
"""

_LOAD_ENTRY = """
import importlib.metadata
(entry, *_) = importlib.metadata.entry_points(group="atled.plugins", name={name!r})
plugin = entry.load()
"""

_LOAD_OBJECT = """
import importlib
plugin = getattr(importlib.import_module({module!r}), {attribute!r})
"""


def test_info(subject: Subject) -> None:
    """Distribution and version are its own, and every backend has a type config that the core has a dtype for."""
    named, found = (
        re.sub(r"[-_.]+", "-", one).lower() for one in (subject.info.distribution, subject.record.distribution)
    )
    assert named == found, f"it names {named!r} as its distribution, and is installed by {found!r}"
    assert re.match(r"\d", subject.info.version), f"version {subject.info.version!r} does not begin with a number"
    for info in subject.backends:
        assert subject.type_configs(info.name), (
            f"{info.name}: none of {info.type_configs} has dtypes that can be had here"
        )


def test_registration(subject: Subject) -> None:
    """What is handed over by name is for ops that there are, in their present version, and providers raise nothing."""
    versions = {spec.name: spec.version for spec in all_specs()}
    subject.implemented()
    for (backend, op), error in subject.provider_errors.items():
        pytest.fail(f"{backend}: the provider raised for {op}: {in_words(error)}")
    _, registrar, _ = handed_over(subject.name)
    for (op, backend), offered in sorted(registrar.implementations.items()):
        remedy = did_you_mean(op, versions, "take it out")
        assert op in versions, f"{backend}: there is no op {op!r}; {remedy}"
        written = {made.op_version for made in offered} - {None, versions[op]}
        assert not written, f"{backend}: {op} is written for version {written} of its spec, which is at {versions[op]}"


def test_lazy_import(subject: Subject) -> None:
    """Importing the plugin object loads no library beyond what atled itself needs; seen in a fresh process."""
    if subject.record.source == "built-in":
        pytest.skip("built in: it has no import of its own")
    if subject.origin:
        module, _, attribute = subject.origin.partition(":")
        load = _LOAD_OBJECT.format(module=module, attribute=attribute)
    else:
        load = _LOAD_ENTRY.format(name=subject.name)
    package = subject.name.replace("-", "_")
    script = _IMPORT.format(load=load, package=package, core=_OWN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    libraries = done.stdout.split()
    assert not libraries, f"importing the plugin object also imports {listing(libraries)}"


@over(backends)
def test_implements_something(subject: Subject, case: Topic) -> None:
    """Each backend implements at least one op."""
    assert any(backend == case.name for backend, _ in subject.implemented()), f"{case.name} implements no op"


@over(backends)
def test_scopes(subject: Subject, case: Topic) -> None:
    """A Context of the backend is in force within its scope, with its device, and not beyond."""
    before = get_current_context()
    for type_config in subject.type_configs(case.name):
        with context_scope(subject.context(case.name, type_config)) as context:
            assert get_current_context() is context
            assert context.backends[0] == (case.name, type_config)
            assert context.device_id == subject.device
            assert context.array_class
    assert get_current_context() is before


def test_presets(subject: Subject) -> None:
    """`get_extension_context` gives a Context that names a backend of the plugin first, and what was asked for."""
    if not subject.info.extension_names:
        pytest.skip("the plugin has no preset")
    own = {info.name for info in subject.backends}
    for name in subject.info.extension_names:
        type_config = next(iter(subject.type_configs(subject.backends[0].name)))
        context = get_extension_context(name, type_config=type_config, device_id=subject.device)
        assert isinstance(context, Context)
        first, given = context.backends[0]
        assert first in own, f"the preset {name!r} names backend {first!r} first"
        assert given == type_config, f"the preset {name!r} for {type_config!r} gives {given!r}"
        assert context.device_id == subject.device, f"the preset {name!r} gives device {context.device_id!r}"
