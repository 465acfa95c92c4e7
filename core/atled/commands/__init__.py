"""The command line, `python -m atled VERB`: finds the verb's module and runs it.

A verb is a module in this folder (`new_plugin.py` is `new-plugin`). The first line of its docstring describes it;
`add_arguments(parser)` declares its arguments and `run(arguments)` does the work and returns the exit status. It
imports the standard library only, and the rest inside `run`, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import ModuleType

from atled import __version__
from atled.errors import CommandError, did_you_mean, four_parts, listing
from atled.standard_output import STATUS, OutputError, refused, tell, told_errors, told_output
from atled_contexts import ContextError, PluginError, SelectionError, SettingError

USER_ERROR = STATUS
"""Exit status where the user can mend it, as argparse has it."""
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class _Paragraphs(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal; one with indented lines, such as examples, stays as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(each if "\n " in each else fill(each, width, indent) for each in paragraphs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process; returns the exit status.

    SystemExit comes from argparse for --help, for --version, and for arguments that do not parse.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    with told_errors():
        try:
            return _run(words)
        except (CommandError, ContextError, PluginError, SelectionError, SettingError) as error:
            tell(f"atled: {error}")
            return USER_ERROR
        except KeyboardInterrupt:
            tell("atled: interrupted")
            return _INTERRUPTED
        except OutputError as error:
            return refused(error, "atled")


def _run(words: Sequence[str]) -> int:
    verb = words[0] if words and not words[0].startswith("-") else ""
    # One verb's module only: those of the others are needed for the overview alone.
    known = verbs()
    chosen = [verb] if verb in known else known
    if verb and verb not in known:
        raise CommandError(_unknown(verb, known))
    with told_output():
        parser = _parser(chosen)
        parsed = parser.parse_args(words)
        if parsed.run is None:
            print(parser.format_help(), end="")
            return USER_ERROR
    # What a script of the user's prints is as without us.
    with nullcontext() if verb == "explain" else told_output():
        status: int = parsed.run(parsed)
        return status


@contextmanager
def to_be_written(asked: str, remedy: str = "choose a folder that can be written to") -> Iterator[None]:
    """Writing of files that a verb was asked for: where the system refuses it, an error without a traceback."""
    try:
        yield
    except OSError as error:
        raise CommandError(four_parts(asked, f"it cannot be written ({error.strerror})", "", remedy)) from error


def verbs() -> list[str]:
    """The verbs there are, sorted; imports none of their modules."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def _parser(chosen: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m atled", description="atled on the command line.")
    parser.set_defaults(run=None)
    parser.add_argument("--version", action="version", version=f"atled {__version__}")
    subparsers = parser.add_subparsers(metavar="VERB", title="verbs")
    for verb in chosen:
        module = _module(verb)
        lines = (module.__doc__ or "").strip().splitlines() or [""]  # under `python -OO` there are no docstrings
        summary = lines[0].rstrip(".")
        verb_parser = subparsers.add_parser(
            verb,
            help=summary[:1].lower() + summary[1:],
            description="\n".join(lines),
            formatter_class=_Paragraphs,
        )
        module.add_arguments(verb_parser)
        verb_parser.set_defaults(run=module.run)
    return parser


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{verb.replace('-', '_')}")


def _unknown(verb: str, known: Sequence[str]) -> str:
    return four_parts(
        f"python -m atled {verb}",
        "no such verb",
        f"known are {listing(known)}",
        did_you_mean(verb, known, "python -m atled --help describes them"),
    )
