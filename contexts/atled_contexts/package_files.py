"""Files in a plugin's package folder, found and read without importing the package."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from atled_contexts.errors import PluginError, in_words, message

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "atled-manifest.json"
"""What a plugin offers, generated from its registrations by `python -m atled manifest`."""

CONFORMANCE = "atled-conformance.json"
"""The report of the conformance kit on a plugin."""


def package_folder(module: str) -> Path | None:
    """The folder of the top-level package of `module`; None where there is none. Runs no code of the package."""
    from pathlib import Path  # lazy: 5 ms, and discovery reads files without it

    folder = _folder(module)
    return Path(folder) if folder else None


def _folder(module: str) -> str:
    """The same as text; "" where there is none."""
    import importlib.util  # lazy, for the import cost

    top = module.partition(".")[0]
    try:
        # Of a top-level name: that of a submodule would import its parents.
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):  # ValueError: a module without a spec, such as __main__
        return ""
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return folders[0] if folders else ""


def module_file(module: str) -> str:
    """The file of `module`, worked out without importing it; "" where there is none."""
    folder = package_folder(module)
    if folder is None:
        return ""
    path = folder.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return str(candidate)
    return str(folder)


# `Any`: values of JSON.
def read_package_file(module: str, name: str) -> dict[str, Any] | None:
    """The JSON object in file `name` of the package folder of `module`; None where there is no such file.

    PluginError: the file cannot be read or is no JSON object.
    """
    folder = _folder(module)
    if not folder:
        return None
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(message(path, in_words(error), "", "reinstall the plugin")) from error
    import json  # lazy, for the import cost

    try:
        found = json.loads(text)
    except ValueError as error:
        raise PluginError(message(path, f"is not JSON: {error}", "", "reinstall the plugin")) from error
    if not isinstance(found, dict):
        raise PluginError(message(path, "is not a JSON object", "", "reinstall the plugin"))
    return found
