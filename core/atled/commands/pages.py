"""Write the reference pages of the functions.

One page in Markdown per category, an index, and pictures of activations with their gradients, made from the op specs
and from what the plugins register.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_EXAMPLES = """\
examples:
  python -m atled pages --out functions
  python -m atled pages cpu-numba sim --out docs/functions --differences docs/nnabla_differences.md
  python -m atled pages cpu-numba sim --out docs/functions --differences docs/nnabla_differences.md --check
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `pages`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("plugin", nargs="*", metavar="PLUGIN", help="plugins to name (default: all installed)")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="folder to write into")
    parser.add_argument("--differences", metavar="FILE", help="the page of `make check-nnabla`, to quote from")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a page is not up to date or a picture missing",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write or check the pages; the exit status."""
    from atled.commands import to_be_written
    from atled.errors import CommandError, four_parts
    from atled.files.replacing import replace_bytes, replace_text
    from atled.generators.pages.pages import PICTURES, read_differences, reference_pages
    from atled.generators.pages.plots import plot, plotted
    from atled_contexts import plugins

    names = arguments.plugin or [record.name for record in plugins() if record.source == "installed"]
    differences = {}
    if arguments.differences:
        try:
            differences = read_differences(Path(arguments.differences).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(
                four_parts(
                    f"--differences {arguments.differences}", f"it cannot be read ({error})", "", "check the path"
                )
            ) from error
    pages = reference_pages(names, differences)
    folder = Path(arguments.out)
    pictures = {name: folder / PICTURES / f"{name}.png" for name in plotted()}
    if arguments.check:
        stale = [str(folder / name) for name, text in pages.items() if not _holds(folder / name, text)]
        stale += [str(path) for path in pictures.values() if not path.exists()]
        known = {folder / name for name in pages} | set(pictures.values())
        stale += [str(path) for path in sorted((*folder.glob("*.md"), *folder.glob("*/*.png"))) if path not in known]
        for path_text in stale:
            print(f"{path_text} is not up to date: run python -m atled pages without --check", file=sys.stderr)
        return 1 if stale else 0
    with to_be_written(f"pages --out {folder}"):
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            replace_text(folder / name, text)
        for name, path in pictures.items():
            replace_bytes(path, plot(name))
    print(f"wrote {len(pages)} pages and {len(pictures)} pictures to {folder}")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text
