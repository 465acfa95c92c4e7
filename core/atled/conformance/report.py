"""What a run of the kit found, as JSON and as a badge."""

from __future__ import annotations

import json
import platform
from collections import Counter
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import atled
from atled.conformance.subject import Subject
from atled.files.replacing import replace_text
from atled_contexts import plugin_facts

_GREEN, _AMBER, _RED = "#2e7d32", "#b26a00", "#b3261e"
_FAILURE_LIMIT = 200  # a plugin that fails everywhere needs no longer list


class Report:
    """Counts outcomes as they come.

    complete: whether everything was checked: nothing was deselected or left out.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.counts: Counter[str] = Counter()
        self.by_check: dict[str, Counter[str]] = {}
        self.failures: list[dict[str, str]] = []
        self.complete = True
        self.seconds = 0.0

    def add(self, check: str, op: str, identity: str, outcome: str, message: str = "") -> None:
        """One case: outcome is "passed", "failed", "skipped" or "xfailed"."""
        self.counts[outcome] += 1
        self.by_check.setdefault(check, Counter())[outcome] += 1
        if outcome == "failed" and len(self.failures) < _FAILURE_LIMIT:
            self.failures.append({"check": check, "op": op, "case": identity, "message": message})

    def fail(self, message: str) -> None:
        """A failure of the run that is no case's."""
        self.add("run", "-", "-", "failed", message)

    @property
    def conformant(self) -> bool:
        """Whether the whole kit ran, without a failure that was not expected."""
        return self.complete and self.counts["passed"] > 0 and not self.counts["failed"]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        subject = self.subject
        return {
            "plugin": subject.name,
            "version": subject.info.version,
            "distribution": subject.info.distribution,
            "api_version": subject.info.api_version,
            "atled_version": atled.__version__,
            "backends": {info.name: list(info.type_configs) for info in subject.backends},
            "device": subject.device,
            "facts": dict(plugin_facts(subject.name)),
            "conformant": self.conformant,
            "complete": self.complete,
            "passed": self.counts["passed"],
            "failed": self.counts["failed"],
            "skipped": self.counts["skipped"],
            "xfailed": self.counts["xfailed"],
            "seconds": round(self.seconds, 1),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": platform.platform(),
            "checks": {check: dict(sorted(counts.items())) for check, counts in sorted(self.by_check.items())},
            "failures": self.failures,
            "ops": list(subject.ops) or "all",
            "ops_missing": subject.missing(),
        }

    def write(self, path: Path) -> None:
        """Write the JSON file, beside and renamed."""
        replace_text(path, json.dumps(self.to_json(), indent=2) + "\n")

    def write_badge(self, path: Path) -> None:
        """Write the badge, an SVG picture of one line of text."""
        replace_text(path, self.badge())

    def badge(self) -> str:
        """The badge as SVG text."""
        counts = self.counts
        if counts["failed"]:
            text, colour = f"{counts['failed']} of {counts['failed'] + counts['passed']} failed", _RED
        elif not self.complete:
            text, colour = f"{counts['passed']} passed, incomplete", _AMBER
        elif counts["xfailed"]:
            text, colour = f"{counts['passed']} passed, {counts['xfailed']} expected failures", _AMBER
        else:
            text, colour = f"{counts['passed']} checks passed", _GREEN
        return _badge(f"atled {self.subject.name}", text, colour)


def _badge(label: str, text: str, colour: str) -> str:
    """Two coloured fields with a text each; widths by an average of 6.6 units per character at 11 units of height."""
    left, right = (round(6.6 * len(part)) + 12 for part in (label, text))
    title = escape(f"{label}: {text}", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{title}">\n'
        f"  <title>{title}</title>\n"
        f'  <rect width="{left}" height="20" fill="#444"/>\n'
        f'  <rect x="{left}" width="{right}" height="20" fill="{colour}"/>\n'
        '  <g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\n'
        f'    <text x="{left / 2:g}" y="14" textLength="{left - 10}">{escape(label)}</text>\n'
        f'    <text x="{left + right / 2:g}" y="14" textLength="{right - 10}">{escape(text)}</text>\n'
        "  </g>\n"
        "</svg>\n"
    )
