"""The optional libraries that the demo needs."""

from __future__ import annotations

import importlib.util

from atled.errors import CommandError, four_parts, listing

# Name of the module to import, name of the distribution.
_LIBRARIES = {"h5py": "h5py", "matplotlib": "matplotlib", "rich": "rich", "sklearn": "scikit-learn"}


def check_libraries() -> None:
    """Raise CommandError, naming them all, if any of the libraries is not installed; imports none."""
    missing = [name for module, name in _LIBRARIES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise CommandError(
            four_parts(
                "python -m atled demo",
                f"not installed: {listing(missing)}",
                f"the demo needs {listing(_LIBRARIES.values())}",
                'pip install "atled[demo]"',
            )
        )
