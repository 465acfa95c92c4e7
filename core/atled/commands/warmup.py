"""Compile a backend's kernels now, so that no program waits for them.

Kernels are compiled when they are first needed and kept for later processes. This compiles all of them: those that the
backend's plugin is written with, and the formulas of all elementwise ops. Chains of ops that a plan fuses into one
kernel are known only with the graph; each takes some milliseconds at its first run.
"""

from __future__ import annotations

import argparse
import sys

_EXAMPLES = """\
examples:
  python -m atled warmup
  python -m atled warmup cpu:double cpu:half
  python -m atled warmup --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `warmup`."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "backend",
        nargs="*",
        metavar="BACKEND",
        help="backends, such as cpu or cpu:half (default: those of the default Context)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr anyway")


def run(arguments: argparse.Namespace) -> int:
    """Warm up and report; the exit status."""
    # Here, not at the top: these import every op spec.
    from atled.errors import CommandError
    from atled.warming import backends_to_warm, warm_up
    from atled_contexts import get_current_context

    named = arguments.backend or [
        f"{name}:{config}" for name, config in get_current_context().backends if name != "reference"
    ]
    results = []
    for backend, type_config in backends_to_warm(named):
        shown = _Line(f"{backend}:{type_config}")
        try:
            results.append(warm_up(backend, type_config, shown))
        except ValueError as error:  # of the type config
            raise CommandError(str(error)) from error
        finally:
            shown.end()
    if arguments.json:
        import json

        print(json.dumps([result._asdict() for result in results], indent=2))
        return 0
    if not results:
        print("nothing to prepare: the default Context has no backend that compiles")
    for result in results:
        done = f"{len(result.prepared)} kernels compiled in {result.seconds:.1f} s, {result.ready} were there"
        print(f"{result.backend}:{result.type_config}: {done}; {result.ops} ops are ready")
    return 0


class _Line:
    """One line on stderr, rewritten for every piece; nothing where stderr is no terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._width = 0

    def __call__(self, done: int, total: int, name: str) -> None:
        if not sys.stderr.isatty():
            return
        text = f"{self._title}  {done} of {total}  {name}"
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def end(self) -> None:
        """Clear the line for the output that follows."""
        if self._width:
            sys.stderr.write(f"\r{'':{self._width}}\r")
            sys.stderr.flush()
