"""The kit as a pytest plugin: its options, its cases, expected failures, the report."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from atled.conformance.expected_failures import ExpectedFailures, read_expected_failures
from atled.conformance.report import Report
from atled.conformance.subject import Subject, SubjectError, find_subject
from atled.errors import four_parts

PACKAGE = "atled.conformance"

_SUBJECT = pytest.StashKey[Subject]()
_RUN = pytest.StashKey["Run"]()
_CASE = "atled_case"  # key of the property that carries (check, name, id) to the report, between processes too


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("atled conformance kit")
    group.addoption(
        "--atled-plugin",
        metavar="NAME",
        help="plugin to check: its entry point, distribution or backend, or module:OBJECT",
    )
    group.addoption("--device", metavar="ID", help="device to run on (default: the first that the plugin lists)")
    group.addoption(
        "--atled-ops", metavar="NAMES", default="", help="check these ops only, such as Affine,*Pooling (default: all)"
    )
    group.addoption("--atled-xfail", metavar="FILE", help="expected failures, lines check::op::reason")
    group.addoption(
        "--max-examples", type=int, default=20, metavar="N", help="random shapes per op (default: 20; 0: none)"
    )
    group.addoption("--atled-report", metavar="FILE", help="write what was found as JSON")
    group.addoption("--atled-badge", metavar="FILE", help="write a badge as SVG")


def pytest_configure(config: pytest.Config) -> None:
    """Find the plugin and read the files; a mistake ends the run before it starts."""
    asked = config.getoption("--atled-plugin")
    if not asked:
        raise pytest.UsageError(
            four_parts("the conformance kit", "no plugin is named", "", "add --atled-plugin NAME to the command line")
        )
    try:
        xfail = config.getoption("--atled-xfail")
        expected = read_expected_failures(Path(xfail)) if xfail else ExpectedFailures()
        files = {name: _file(config, f"--atled-{name}") for name in ("report", "badge")}
        ops = [name.strip() for name in config.getoption("--atled-ops").split(",") if name.strip()]
        subject = find_subject(asked, config.getoption("--device"), ops)
    except (SubjectError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_SUBJECT] = subject
    config.stash[_RUN] = Run(subject, expected, files)
    config.pluginmanager.register(config.stash[_RUN], "atled_conformance_run")


def _file(config: pytest.Config, option: str) -> Path | None:
    text = config.getoption(option)
    if not text:
        return None
    path = Path(text).absolute()
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ValueError(four_parts(f"{option} {text}", f"{path.parent} is no folder to write to", "", "make it first"))
    return path


def pytest_unconfigure(config: pytest.Config) -> None:
    """Unregister what the run registered."""
    subject = config.stash.get(_SUBJECT, None)
    if subject is not None:
        subject.release()


def pytest_report_header(config: pytest.Config) -> str:
    """Who is checked."""
    subject = config.stash[_SUBJECT]
    return f"atled conformance: {subject.record.title}, plugin {subject.name}, device {subject.device!r}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a check the cases that it asks for."""
    make = getattr(metafunc.function, "atled_cases", None)
    if make is not None:
        cases = make(metafunc.config.stash[_SUBJECT])
        metafunc.parametrize("case", cases, ids=[case.id for case in cases])


@pytest.fixture
def subject(pytestconfig: pytest.Config) -> Subject:
    """The plugin under test."""
    return pytestconfig.stash[_SUBJECT]


@pytest.fixture
def max_examples(pytestconfig: pytest.Config) -> int:
    """How many random shapes to try per op."""
    count: int = pytestconfig.getoption("--max-examples")
    if count <= 0:
        pytest.skip("--max-examples is 0")
    return count


class Run:
    """The state of one run: expected failures, outcomes, files to write."""

    def __init__(self, subject: Subject, expected: ExpectedFailures, files: dict[str, Path | None]) -> None:
        self.expected = expected
        self.report = Report(subject)
        self.files = files
        self.problems: list[str] = []
        self.start = time.monotonic()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Say what each case is about, and mark those that are expected to fail."""
        known = []
        for item in items:
            if not _is_ours(item):
                continue
            about = _about(item)
            known.append(about)
            item.user_properties.append((_CASE, about))
            entry = self.expected.about(*about)
            if entry is not None:
                item.add_marker(pytest.mark.xfail(reason=entry.reason, strict=False))
        narrowed = any("::" in argument or argument.startswith(f"{PACKAGE}.") for argument in config.args)
        if narrowed or self.report.subject.ops or config.getoption("--max-examples") <= 0:
            self.report.complete = False
        else:
            self.problems += self.expected.unknown(known)

    def pytest_runtest_teardown(self) -> None:
        """Have the next case ask the plugin again, even if this one made it fail."""
        self.report.subject.revive()

    def pytest_deselected(self) -> None:
        """A run with deselected cases is not complete."""
        self.report.complete = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one case."""
        about = dict(report.user_properties).get(_CASE)
        if about is None or (report.when != "call" and report.passed):
            return
        check, name, identity = _words(about)
        expects_failure = hasattr(report, "wasxfail")
        if expects_failure:
            self.expected.note(check, name, identity, failed=report.skipped)
        outcome = "xfailed" if expects_failure and report.skipped else report.outcome
        self.report.add(check, name, identity, outcome, _last_words(report) if report.failed else "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run for stale expectations; write the files."""
        if hasattr(session.config, "workerinput"):
            return  # a worker of pytest-xdist: its master counts for all
        self.problems += self.expected.stale()
        for problem in self.problems:
            self.report.fail(problem)
        if self.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if session.shouldfail or session.shouldstop or session.exitstatus not in (0, 1):
            self.report.complete = False
        self.report.seconds = time.monotonic() - self.start
        if self.files["report"] is not None:
            self.report.write(self.files["report"])
        if self.files["badge"] is not None:
            self.report.write_badge(self.files["badge"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # Any: pytest's reporter is not public
        """Print what is wrong with the expected failures, and the paths of the files."""
        if self.problems:
            terminalreporter.section("expected failures", red=True)
            for problem in self.problems:
                terminalreporter.write_line(problem)
        for name, path in self.files.items():
            if path is not None:
                terminalreporter.write_line(f"atled {name}: {path}")


def _is_ours(item: pytest.Item) -> bool:
    module = getattr(item, "module", None)
    return module is not None and module.__name__.startswith(PACKAGE)


def _about(item: pytest.Item) -> tuple[str, str, str]:
    """(check, name, id) of a case."""
    check = getattr(item, "originalname", item.name).removeprefix("test_")
    callspec = getattr(item, "callspec", None)
    case: Any = callspec.params.get("case") if callspec is not None else None
    # Without cases to give, pytest makes an item of its own that it skips.
    return (check, case.name, case.id) if hasattr(case, "id") else (check, "-", "-")


def _words(about: Any) -> tuple[str, str, str]:
    """What a property holds: a list, where it came from another process."""
    check, name, identity = about
    return check, name, identity


def _last_words(report: pytest.TestReport) -> str:
    """The message of the error, without the traceback."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:500]
