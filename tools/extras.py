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
    """The text of the table: one row for each extra that installs the distribution of a plugin in plugins/."""
    manifests = {found["distribution"]: found for found in map(_read, sorted(_ROOT.glob("plugins/*/src/*/" + _NAME)))}
    rows = {
        extra: _row(manifests[distribution])
        for extra, requirements in sorted(_extras().items())
        for distribution in map(_distribution, requirements)
        if distribution in manifests
    }
    missing = set(manifests) - {row["distribution"] for row in rows.values()}
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


def _distribution(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]


def _row(manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        "distribution": manifest["distribution"],
        "backends": {name: backend["device_family"] for name, backend in manifest["backends"].items()},
        "default": any(backend["default_priority"] > 0 for backend in manifest["backends"].values()),
        "settings": sorted(manifest["settings"]),
    }


def main() -> int:
    """Write the table."""
    TABLE.write_text(table(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
