"""Say what is installed, what of it works, and what to do about the rest.

Shows every plugin with its state, reason and remedy, distribution and file; devices; versions; the settings in
force and where each comes from; a self-test of one op per backend and device; and hints for hardware without a plugin.

The exit status is 1 if anything asked for is not usable: what the arguments name, what ATLED_BACKENDS or
ATLED_PLUGINS_ONLY name, and the default Context.
"""

from __future__ import annotations

import argparse
import sys

_EXAMPLES = """\
examples:
  python -m atled doctor
  python -m atled doctor cpu
  python -m atled doctor --json > report.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `doctor`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("name", nargs="*", metavar="NAME", help="plugins or backends that must be usable")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--no-self-test", action="store_true", help="do not run an op on every device")


def run(arguments: argparse.Namespace) -> int:
    """Examine and report; 0 if all that was asked for is usable, else 1."""
    from atled.doctor.examination import examine

    report = examine(arguments.name, with_self_tests=not arguments.no_self_test)
    if arguments.json:
        import json

        print(json.dumps(report, indent=2))
    else:
        from atled.doctor.report import show

        show(report, sys.stdout)
    return 0 if report["ok"] else 1
