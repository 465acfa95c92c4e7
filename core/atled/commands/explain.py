"""Run a script and report who computed what: backend, calls, time, fallbacks, bytes moved per op.

The script runs as `python SCRIPT ARGUMENTS` would run it, under a trace that makes each op a step of its own, so small
ops take longer than without. Work of threads that the script starts is not seen unless it uses `nn.bind`.

The exit status is that of the script.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atled_contexts import Trace

_EXAMPLES = """\
examples:
  python -m atled explain train.py --epochs 3
  python -m atled explain --chrome trace.json train.py
  python -m atled explain --json train.py > trace.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `explain`."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; what the script prints goes to stderr then"
    )
    parser.add_argument("--chrome", metavar="FILE", help="write every call with its time, for chrome://tracing")
    parser.add_argument("script", metavar="SCRIPT", help="the Python file to run")
    further = parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="for the script")
    further.required = False  # argparse would name it where SCRIPT alone is missing


def run(arguments: argparse.Namespace) -> int:
    """Run the script and report; its exit status."""
    from atled.commands import to_be_written
    from atled.errors import CommandError, four_parts
    from atled.standard_output import check_output, told_output
    from atled_contexts import fallback_counts, reset_fallback_counts, trace

    script = arguments.script
    if not os.path.isfile(script):
        raise CommandError(four_parts(f"explain {script}", "there is no such file", "", "give the path of a script"))
    # Before the script runs, which may take hours.
    check_output()
    if arguments.chrome:
        _check_writable(arguments.chrome)
    reset_fallback_counts()
    with trace() as collected, _output(sys.stderr if arguments.json else sys.stdout):
        status = _run_script(script, arguments.arguments)
    chrome, unwritten = arguments.chrome, None
    if chrome:
        try:
            with to_be_written(f"explain --chrome {chrome}", "choose a file on a disk with room"):
                collected.save_chrome(chrome)
        except CommandError as error:
            chrome, unwritten = None, error  # raised when what ran is reported
    fallbacks = [
        {"op": op, "backend": backend, "calls": count.calls, "bytes_moved": count.bytes_moved}
        for (op, backend), count in fallback_counts().items()
    ]
    with told_output():
        if arguments.json:
            import json

            report = {
                "script": script,
                "status": status,
                **collected.to_json(),
                "fallback_counts": fallbacks,
                "files": [chrome] if chrome else [],
            }
            print(json.dumps(report, indent=2))
        else:
            _print(script, status, collected, fallbacks, chrome)
    if unwritten is not None:
        raise unwritten
    return status


def _check_writable(path: str) -> None:
    from atled.errors import CommandError, four_parts

    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise CommandError(four_parts(f"--chrome {path}", f"{folder} cannot be written to", "", "choose another file"))


@contextlib.contextmanager
def _output(stream: Any) -> Iterator[None]:
    with contextlib.redirect_stdout(stream):
        yield


def _run_script(script: str, arguments: list[str]) -> int:
    """Run a file as the main program; its exit status; prints its exception."""
    import runpy
    import traceback

    words, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except Exception:  # the script's own: printed as Python would; what ran before it is still reported
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = words, path
    return 0


def _print(script: str, status: int, collected: Trace, fallbacks: list[dict[str, Any]], chrome: str | None) -> None:
    print(f"\n{script}: exit status {status}")
    print(collected.table(implementations=True))
    if fallbacks:
        print("\nfallbacks:")
        for entry in fallbacks:
            counts = f"{entry['calls']} calls, {entry['bytes_moved']} bytes moved"
            print(f"  {entry['op']} went to {entry['backend']}: {counts}")
    if chrome:
        print(f"\nwrote {chrome}: open it in https://ui.perfetto.dev or chrome://tracing")
    if collected.dropped:
        print(f"{collected.dropped} calls are in the table only: the file would grow too large")
