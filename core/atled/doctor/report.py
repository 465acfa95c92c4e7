"""The examination as text for people: 80 columns, in colour on a terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

WIDTH = 80
_LEFT = 16
_INDENT = 4

_STYLES = {
    "usable": "green",
    "passed": "green",
    "experimental": "cyan",
    "blocked": "yellow",
    "absent": "yellow",
    "incompatible": "red",
    "unusable": "red",
    "failed": "red",
    "problem": "red",
    "hint": "yellow",
    "heading": "bold",
}

Line = tuple[str, str, str]
"""Style, the part of the line in that style, and the rest."""

# Any: the report's values, as JSON has them.
Report = Mapping[str, Any]


def report_lines(report: Report) -> Iterator[Line]:
    """The report, line by line."""
    versions = report["versions"]
    yield from _wrapped(", ".join(f"{name} {version}" for name, version in versions.items() if name != "executable"), 0)
    yield _plain(versions["executable"])
    yield from _heading("Plugins")
    for plugin in report["plugins"]:
        yield from _plugin(plugin)
    yield from _heading("Devices")
    for entry in report["devices"]:
        yield from _field(entry["backend"], entry["error"] or ", ".join(entry["devices"]) or "none")
    if report["context"] is not None:
        yield from _heading("Default Context")
        for name, value in report["context"].items():
            yield from _field(name, ", ".join(value) if isinstance(value, list) else str(value))
    yield from _heading("Settings")
    for setting in report["settings"]:
        yield from _setting(setting)
    if report["self_tests"]:
        yield from _heading("Self-test: one op per backend and device")
        for test in report["self_tests"]:
            yield from _test(test)
    if report["hints"]:
        yield from _heading("Hints")
        for hint in report["hints"]:
            yield from _item("hint", hint)
    yield from _heading("Verdict")
    yield from _verdict(report)


def show(report: Report, file: TextIO) -> None:
    """Write the report, in colour where `file` is a terminal and rich is installed."""
    lines = list(report_lines(report))
    if _wants_colour(file):
        try:
            from rich.console import Console  # optional, and only for people
            from rich.text import Text
        except ImportError:
            pass  # without it the report is the same in black and white
        else:
            console = Console(file=file, highlight=False)
            for style, marked, rest in lines:
                console.print(Text.assemble((marked, _STYLES.get(style, "")), rest), soft_wrap=True)
            return
    for _, marked, rest in lines:
        print(marked + rest, file=file)


def _wants_colour(file: TextIO) -> bool:
    return file.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org


def _plain(text: str) -> Line:
    return "", "", text


def _heading(text: str) -> Iterator[Line]:
    yield _plain("")
    yield "heading", text, ""


def _wrapped(text: str, indent: int) -> Iterator[Line]:
    margin = " " * indent
    for line in textwrap.wrap(text, WIDTH, initial_indent=margin, subsequent_indent=margin, break_long_words=False):
        yield _plain(line)


def _field(name: str, value: str) -> Iterator[Line]:
    """A name at the left and its value, wrapped, at the right."""
    width = max(_LEFT - _INDENT, len(name) + 1)
    room = WIDTH - _INDENT - width
    # Paths and commands stay whole, so that they can be copied.
    lines = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False) or [""]
    yield _plain(f"{' ' * _INDENT}{name:<{width}}{lines[0]}".rstrip())
    for line in lines[1:]:
        yield _plain(" " * (_INDENT + width) + line)


def _item(style: str, text: str) -> Iterator[Line]:
    room = WIDTH - _INDENT
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, room, break_long_words=False)]
    yield style, "  - ", lines[0]
    for line in lines[1:]:
        yield _plain(" " * _INDENT + line)


def _plugin(plugin: Report) -> Iterator[Line]:
    title = f"{plugin['distribution']} {plugin['version']}".strip()
    source = "" if plugin["state"] == "absent" else f"({plugin['source']})"
    where = f"{title} {source}".strip()
    yield plugin["state"], f"  {plugin['state']:<{_LEFT - 2}}", f"{plugin['name']:<{_LEFT}}{where}".rstrip()
    texts = {
        "why": plugin["reason"],
        "what to do": plugin["remedy"],
        "exception": plugin["exception"] if plugin["exception"] not in plugin["reason"] else "",
        "backends": ", ".join(plugin["backends"]),
        "plugin API": plugin["api_version"],
        "libraries": ", ".join(f"{name} {version}" for name, version in plugin["libraries"].items()),
        **plugin["facts"],
        "file": plugin["file"],
    }
    for name, text in texts.items():
        if text:
            yield from _field(name, text)


def _setting(setting: Report) -> Iterator[Line]:
    value = setting["value"]
    shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    shown = "(unset)" if value is None else shown or "(empty)"
    shown = "cannot be read" if setting["error"] else shown
    yield _plain(f"{' ' * _INDENT}{setting['name']:<23} {shown}  [{setting['source']}]")
    yield from _wrapped(setting["help"], 26)


def _test(test: Report) -> Iterator[Line]:
    state = "passed" if test["passed"] else "failed"
    seconds = test["seconds"]
    took = f"{seconds * 1e3:.3g} ms" if seconds is not None else ""
    words = f"{test['backend']} {test['device']}".ljust(_LEFT) + f"{test['op']:<16}{took}"
    yield state, f"  {state:<{_LEFT - 2}}", words.rstrip()
    if test["error"]:
        yield from _field("why", " ".join(test["error"].split()))


def _verdict(report: Report) -> Iterator[Line]:
    if report["ok"]:
        asked = ", ".join(report["asked"])
        yield "passed", "  ok  ", f"all that was asked for is usable: {asked}" if asked else "nothing is in the way"
    if report["slow"]:
        yield from _item("hint", report["slow"])
    for problem in report["problems"]:
        yield from _item("problem", problem)
