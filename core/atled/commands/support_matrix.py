"""Write the page that says which backend computes which op in which dtype.

The page is Markdown, one table per category of ops, made from the op specs and from what the plugins register.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_EXAMPLES = """\
examples:
  python -m atled support-matrix
  python -m atled support-matrix sim --out support.md
  python -m atled support-matrix sim --out support.md --check
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `support-matrix`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("plugin", nargs="*", metavar="PLUGIN", help="plugins to show (default: all installed)")
    parser.add_argument("--out", metavar="FILE", help="file to write (default: standard output)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if FILE is not up to date")


def run(arguments: argparse.Namespace) -> int:
    """Write, print or check the page; the exit status."""
    from atled.commands import to_be_written
    from atled.errors import CommandError, four_parts
    from atled.files.replacing import replace_text
    from atled.generators.support_matrix import support_matrix
    from atled_contexts import plugins

    if arguments.check and not arguments.out:
        raise CommandError(four_parts("support-matrix --check", "there is no file to check", "", "add --out FILE"))
    names = arguments.plugin or [record.name for record in plugins() if record.source == "installed"]
    text = support_matrix(names)
    if not arguments.out:
        print(text, end="")
        return 0
    path = Path(arguments.out)
    if not arguments.check:
        with to_be_written(f"support-matrix --out {path}"):
            replace_text(path, text)
        print(f"wrote {path}")
        return 0
    if path.exists() and path.read_text("utf-8") == text:
        return 0
    again = " ".join(["python -m atled support-matrix", *arguments.plugin, "--out", arguments.out])
    print(f"{path} is not up to date: run {again}", file=sys.stderr)
    return 1
