"""The file of expected failures: lines `check::op::reason`; a line whose cases pass is stale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from atled.errors import did_you_mean, four_parts, in_words


class ExpectedFailure:
    """One line: a check that fails for an op, and the reason.

    check: name of the check, such as "values".
    op: what it is about, as the report names it: an op, or one case of it, such as "Affine-0-float".
    place: file and line.
    """

    def __init__(self, check: str, op: str, reason: str, place: str) -> None:
        self.check = check
        self.op = op
        self.reason = reason
        self.place = place
        self.failed = False
        self.passed = 0

    def covers(self, check: str, name: str, identity: str) -> bool:
        """Whether it is about one case."""
        return self.check == check and self.op in (name, identity)

    def __str__(self) -> str:
        return f"{self.place}: {self.check}::{self.op}"


class ExpectedFailures:
    """All lines of a file."""

    def __init__(self, entries: Sequence[ExpectedFailure] = ()) -> None:
        self.entries = list(entries)

    def about(self, check: str, name: str, identity: str) -> ExpectedFailure | None:
        """The first line about one case."""
        return next((entry for entry in self.entries if entry.covers(check, name, identity)), None)

    def note(self, check: str, name: str, identity: str, failed: bool) -> None:
        """Take down whether a case that a line is about failed, as expected, or passed."""
        for entry in self.entries:
            if entry.covers(check, name, identity):
                entry.failed = entry.failed or failed
                entry.passed += not failed

    def stale(self) -> list[str]:
        """In words the lines whose cases all passed; lines about cases that did not run are left alone."""
        return [
            f"{entry} expects a failure ({entry.reason}), but all {entry.passed} cases pass: take the line out"
            for entry in self.entries
            if entry.passed and not entry.failed
        ]

    def unknown(self, known: Iterable[tuple[str, str, str]]) -> list[str]:
        """In words the lines that are about nothing that the kit checks for this plugin.

        known: (check, name, id) of all cases.
        """
        cases = list(known)
        checks = {check for check, _, _ in cases}
        problems = []
        for entry in self.entries:
            if entry.check not in checks:
                remedy = did_you_mean(entry.check, checks, "take the line out")
                problems.append(f"{entry}: there is no check {entry.check!r} for this plugin; {remedy}")
            elif not any(entry.covers(*case) for case in cases):
                names = {name for check, name, _ in cases if check == entry.check}
                remedy = did_you_mean(entry.op, names, "take the line out")
                problems.append(f"{entry}: the check has no case {entry.op!r} for this plugin; {remedy}")
        return problems


def read_expected_failures(path: Path) -> ExpectedFailures:
    """Read a file; empty lines and lines that begin with # are comments. ValueError for any other form."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(four_parts(f"--atled-xfail {path}", in_words(error), "", "give a text file")) from error
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [part.strip() for part in line.split("::", 2)]
        if len(parts) != 3 or not all(parts):
            raise ValueError(
                four_parts(
                    f"{path}, line {number}: {line.strip()!r}",
                    "not an expected failure",
                    "",
                    "write check::op::reason, such as values::Affine::no empty matrices yet",
                )
            )
        check, op, reason = parts
        entries.append(ExpectedFailure(check, op, reason, f"{path}:{number}"))
    return ExpectedFailures(entries)
