"""Each deliberately broken plugin fails the check that is there for its fault, with the words that name it."""

import importlib
import json
import pkgutil

import pytest

import atled.conformance
from atled.conformance import broken
from atled.conformance.broken import FAULTS
from atled.generators.catalogue import all_specs

pytest_plugins = "pytester"


def _kit_modules():
    """The kit's modules, imported once: pytester forgets those that a run imports, and the next would do it anew."""
    importlib.import_module("atled.conformance.pytest_hooks")
    names = [found.name for found in pkgutil.iter_modules(atled.conformance.__path__) if found.name.startswith("test_")]
    return [importlib.import_module(f"atled.conformance.{name}") for name in names]


MODULES = _kit_modules()
OPS = {spec.name for spec in all_specs()}


def _module_of(check):
    """The module of the kit that holds a check."""
    return next(module.__name__ for module in MODULES if hasattr(module, f"test_{check}"))


def run_check(pytester, plugin, check, ops):
    """One check of the kit on one plugin; its report."""
    off = [word for name in ("cacheprovider", "hypothesispytest") for word in ("-p", f"no:{name}")]
    what = ["--atled-plugin", f"atled.conformance.broken.{plugin}:PLUGIN", "--atled-ops", ops]
    kit = ["-p", "atled_pytest", "--pyargs", f"{_module_of(check)}::test_{check}", "--atled-report", "report.json"]
    pytester.runpytest_inprocess("-q", *off, *kit, *what)
    return json.loads((pytester.path / "report.json").read_text())


def test_a_plugin_that_is_set_aside_in_one_case_is_there_for_the_next(pytester):
    off = [word for name in ("cacheprovider", "hypothesispytest") for word in ("-p", f"no:{name}")]
    what = ["--atled-plugin", "atled.conformance.broken.raises_in_accepts:PLUGIN", "--atled-ops", "Add2,Sum"]
    cases = ["-k", "training or scopes or presets", "--atled-report", "report.json"]
    pytester.runpytest_inprocess("-q", *off, "-p", "atled_pytest", "--pyargs", "atled.conformance", *what, *cases)
    report = json.loads((pytester.path / "report.json").read_text())
    (failure,) = report["failures"]  # in our tests warnings are errors
    assert failure["check"] == "training" and "asked for Sum: accepts failed" in failure["message"]
    assert report["passed"] == 2


def test_every_broken_plugin_has_its_fault_listed():
    modules = {found.name for found in pkgutil.iter_modules(broken.__path__)}
    assert modules - {"shelf", "shelf_queue"} == set(FAULTS)


def ops_of(fault):
    """The op of a fault, and one that is right; any op where the fault is the plugin's or its array class's."""
    return f"Add2,{fault.op if fault.op in OPS else 'Tanh'}"


@pytest.mark.parametrize("plugin", FAULTS)
def test_a_broken_plugin_fails_for_the_right_reason(pytester, monkeypatch, plugin):
    monkeypatch.setenv("CI", "true")  # as where device makers test: there pytest explains in full what differs
    fault = FAULTS[plugin]
    report = run_check(pytester, plugin, fault.check, ops_of(fault))
    assert report["failed"] > 0
    assert not report["conformant"]
    failures = [failure for failure in report["failures"] if failure["op"] == fault.op]
    assert any(fault.words in failure["message"] for failure in failures), report["failures"][:5]
    assert not [failure for failure in report["failures"] if failure["op"] == "Add2"]


@pytest.mark.parametrize("fault", sorted({(fault.check, ops_of(fault)) for fault in FAULTS.values()}))
def test_the_right_plugin_passes_what_a_broken_one_fails(pytester, fault):
    check, ops = fault
    report = run_check(pytester, "shelf", check, ops)
    assert report["failed"] == 0, report["failures"][:5]
    assert report["passed"] > 0


@pytest.mark.parametrize("check", ["round_trip", "words", "queue_order", "runs", "memory_returned", "memory_of_graphs"])
def test_a_right_plugin_may_do_its_work_late(pytester, check):
    report = run_check(pytester, "shelf_queue", check, "Add2,Rand,Tanh")
    assert report["failed"] == 0, report["failures"][:5]
    assert report["passed"] > 0
