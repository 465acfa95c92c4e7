"""Write a new plugin: a complete distribution that passes the conformance kit as it is.

It computes on a stand-in for a device, in memory: replace the stand-in by a real driver, then the kernels, and run the
kit after each step. With --host it computes some ops on the arrays that other backends have in host memory, by a
stand-in for a library. Nothing that exists is overwritten.
"""

from __future__ import annotations

import argparse
from pathlib import Path

_EXAMPLES = """\
examples:
  python -m atled new-plugin acme
  python -m atled new-plugin acme-gpu --out ~/src
  python -m atled new-plugin fast-blas --host
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `new-plugin`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("name", metavar="NAME", help="name of plugin and backend; the distribution is atled-NAME")
    parser.add_argument("--out", default=".", metavar="DIR", help="where its folder goes (default: here)")
    parser.add_argument("--host", action="store_true", help="a plugin that computes in host memory, not on a device")


def run(arguments: argparse.Namespace) -> int:
    """Write it and say what comes next; the exit status."""
    from atled.commands import to_be_written
    from atled.errors import CommandError
    from atled.scaffold import ScaffoldError, new_plugin

    try:
        with to_be_written(f"new-plugin {arguments.name} --out {arguments.out}"):
            kind = "host" if arguments.host else "device"
            folder = new_plugin(arguments.name, Path(arguments.out).expanduser(), kind)
    except ScaffoldError as error:
        raise CommandError(str(error)) from error
    print(f"wrote {folder}; next:")
    print(f"  pip install -e '{folder}[test]'")
    print(f"  pytest --pyargs atled.conformance --atled-plugin {arguments.name}")
    print(f"  less {folder / 'README.md'}")
    return 0
