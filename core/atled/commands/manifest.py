"""Write the manifest of a plugin: what it offers, as JSON beside its package.

The file `atled-manifest.json` tells API version, backends, and ops by type config, without an import of the plugin. It
is generated from what the plugin registers, whether or not it is usable here, and belongs into its distribution;
`--check` in its tests keeps it true.
"""

from __future__ import annotations

import argparse
import sys

_EXAMPLES = """\
examples:
  python -m atled manifest sim
  python -m atled manifest sim --check
  python -m atled manifest reference --print
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `manifest`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("plugin", nargs="+", metavar="PLUGIN", help="name of the plugin's entry point")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is not up to date")
    how.add_argument("--print", action="store_true", help="write to standard output instead")


def run(arguments: argparse.Namespace) -> int:
    """Write, check or print; the exit status."""
    from atled.commands import to_be_written
    from atled.files.replacing import replace_text
    from atled.generators.manifest import make_manifest, manifest_path, manifest_text

    status = 0
    for plugin in arguments.plugin:
        text = manifest_text(make_manifest(plugin))
        if arguments.print:
            print(text, end="")
            continue
        path = manifest_path(plugin)
        if not arguments.check:
            with to_be_written(f"manifest {plugin} as {path}", "add --print, and redirect the output"):
                replace_text(path, text)
            print(f"wrote {path}")
        elif not path.exists() or path.read_text("utf-8") != text:
            print(f"{path} is not up to date: run python -m atled manifest {plugin}", file=sys.stderr)
            status = 1
    return status
