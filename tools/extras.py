"""Writes contexts/atled_contexts/extras.json, which extra of `atled` brings which plugin; `make generated` runs it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
TABLE = _ROOT / "contexts" / "atled_contexts" / "extras.json"


def table() -> str:
    """The text of the table: one row for each extra that brings the distribution of a plugin in plugins/.

    An extra that others build on, such as the plugins without the library that they need, is left to those.
    """
    manifests = {found["distribution"]: found for found in map(_read, sorted(_ROOT.glob("plugins/*/src/*/" + _NAME)))}
    extras = _extras()
    parts = {part for requirements in extras.values() for part in _parts(requirements)}
    rows = {}
    for extra in sorted(set(extras) - parts):
        brought = [manifests[name] for name in _brought(extra, extras) if name in manifests]
        if brought:
            rows[extra] = _row(brought)
    missing = set(manifests) - {name for row in rows.values() for name in row["distributions"]}
    if missing:
        raise SystemExit(f"no extra in pyproject.toml installs {', '.join(sorted(missing))}: add one")
    return json.dumps(rows, indent=1) + "\n"


_NAME = "atled-manifest.json"


def _read(path: Path) -> dict[str, Any]:  # Any: values of JSON
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def _brought(extra: str, extras: dict[str, list[str]]) -> list[str]:
    """The distributions that an extra installs, those of the extras that it is made of included."""
    own = [re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0] for requirement in extras[extra]]
    return [name for part in _parts(extras[extra]) for name in _brought(part, extras)] + own


def _parts(requirements: list[str]) -> list[str]:
    """The extras of atled among requirements."""
    return [found[1] for found in map(re.compile(r"atled\[(.+)\]").match, requirements) if found]


def _row(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    backends = {name: backend for manifest in manifests for name, backend in manifest["backends"].items()}
    return {
        "distributions": [manifest["distribution"] for manifest in manifests],
        "backends": {name: backend["device_family"] for name, backend in backends.items()},
        "default": any(backend["default_priority"] > 0 for backend in backends.values()),
        "settings": sorted(name for manifest in manifests for name in manifest["settings"]),
    }


def main() -> int:
    """Write the table."""
    TABLE.write_text(table(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
