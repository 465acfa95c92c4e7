"""Settings from the environment: the declared `ATLED_*` variables, typed, read at first need."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from atled_contexts.errors import SettingError, did_you_mean, listing, message
from atled_contexts.extras import Extra, settings_of_extras

PREFIX = "ATLED_"

# Anything as near as this to a declared name is a slip of the pen, not the setting of a plugin that did not load.
_SLIP = 0.8


class Setting:
    """One declared environment variable.

    name: `ATLED_...`.  parse: from the text to the value; raises ValueError in words.
    default: the value when the variable is unset or empty.  help: one line for people.
    package: the top-level package that declares it; "" where unknown.
    """

    __slots__ = ("default", "help", "name", "package", "parse")

    def __init__(self, name: str, parse: Callable[[str], Any], default: Any, help: str, package: str = "") -> None:
        self.name = name
        self.parse = parse
        self.default = default
        self.help = help
        self.package = package

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, default={self.default!r})"


_declared: dict[str, Setting] = {}
_values: dict[str, Any] = {}


# `Any`: a setting has the type that its own `parse` gives.
def declare_setting(name: str, parse: Callable[[str], Any], default: Any, help: str) -> None:
    """Make `name` known, so that `setting(name)` answers and a misspelling of it is an error.

    Declare where a package is imported (a plugin: in the module of its entry point), for unknown names are
    looked for right after discovery. Declaring the same again is fine; declaring it otherwise is a SettingError.
    """
    if not name.startswith(PREFIX) or name == PREFIX or name != name.upper():
        raise SettingError(
            message(f"declare_setting({name!r})", "is not the name of a setting", "", f"write {PREFIX}NAME in capitals")
        )
    known = _declared.get(name)
    if known is not None and (known.default, known.help) != (default, help):
        raise SettingError(
            message(
                f"declare_setting({name!r})",
                "is declared already, with another meaning",
                f"there: default {known.default!r}, {known.help!r}",
                "use the setting that is there, or choose another name",
            )
        )
    if known is None:
        # Whose it is: a plugin's manifest lists those that its package declares.
        package = str(sys._getframe(1).f_globals.get("__name__", "")).partition(".")[0]
        _declared[name] = Setting(name, parse, default, help, package)


def declared_settings() -> tuple[Setting, ...]:
    """All declared settings, sorted by name."""
    return tuple(_declared[name] for name in sorted(_declared))


def setting(name: str) -> Any:
    """The value of a declared setting; the environment is read once, at the first call.

    SettingError: `name` is not declared, or the text in the environment does not parse.
    """
    try:
        return _values[name]
    except KeyError:
        value = _values[name] = _read(_find(name))
        return value


def setting_source(name: str) -> str:
    """Where the value of `setting(name)` comes from: "environment" or "default"."""
    return "environment" if os.environ.get(_find(name).name) else "default"


def forget_settings() -> None:
    """Forget the values; the next access reads the environment again."""
    _values.clear()


def check_names(*, complete: bool) -> None:
    """Raise SettingError for an `ATLED_*` variable that no package declared and no extra brings.

    complete: every installed plugin was loaded and had its chance to declare. Otherwise a variable may belong to
        one that was not, so only a near miss of a known name counts.
    """
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in _declared or name in settings_of_extras():
            continue
        if complete or _is_slip(name):
            raise SettingError(_unknown(name, f"environment variable {name}"))


def idle_settings() -> dict[str, Extra]:
    """Variables in the environment without effect, because the plugin that declares them is not loaded."""
    return {
        name: extra for name, extra in settings_of_extras().items() if name not in _declared and os.environ.get(name)
    }


def _is_slip(name: str) -> bool:
    import difflib  # only for an undeclared name: keeps the import of the package quick

    return bool(difflib.get_close_matches(name, _known(), n=1, cutoff=_SLIP))


def _known() -> list[str]:
    return sorted({*_declared, *settings_of_extras()})


def _find(name: str) -> Setting:
    known = _declared.get(name)
    if known is None:
        raise SettingError(_unknown(name, f"setting({name!r})"))
    return known


def _unknown(name: str, asked: str) -> str:
    return message(
        asked,
        "no such setting is known",
        f"known are {listing(_known())}",
        did_you_mean(name, _known(), "unset it, or declare it with declare_setting"),
    )


def _read(known: Setting) -> Any:
    # An empty variable counts as unset: `ATLED_FALLBACK= python ...` is how a shell takes one back.
    text = os.environ.get(known.name)
    if not text:
        return known.default
    try:
        return known.parse(text)
    except SettingError:  # has its four parts
        raise
    except ValueError as error:
        raise SettingError(
            message(
                f"{known.name}={text!r}", str(error), f"it means: {known.help}", f"correct it or unset {known.name}"
            )
        ) from error


def parse_text(text: str) -> str:
    """The text itself, without surrounding space."""
    return text.strip()


def parse_bool(text: str) -> bool:
    """1, true, yes, on or 0, false, no, off, in any case."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError("is neither true (1, true, yes, on) nor false (0, false, no, off)")


def parse_int(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError as error:
        raise ValueError("is not a whole number") from error


def parse_share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        share = float(text)
    except ValueError as error:
        raise ValueError("is not a number") from error
    if not 0 <= share <= 1:
        raise ValueError("is not from 0 to 1")
    return share


def parse_names(text: str) -> tuple[str, ...]:
    """Names with commas between; space around them is dropped, so are empty ones."""
    return tuple(word for part in text.split(",") if (word := part.strip()))


def parse_choice(*choices: str) -> Callable[[str], str]:
    """A parser for one of `choices`."""

    def parse(text: str) -> str:
        word = text.strip()
        if word not in choices:
            raise ValueError(f"is none of {listing(choices)}; {did_you_mean(word, choices, 'choose one of these')}")
        return word

    return parse


FALLBACK_MODES = ("raise", "warn", "quiet")

declare_setting("ATLED_BACKENDS", parse_names, (), "backends of the default Context, in order, with commas between")
declare_setting("ATLED_PLUGINS_BLOCK", parse_names, (), "plugins not to load, by name or distribution")
declare_setting("ATLED_PLUGINS_ONLY", parse_names, (), "the only plugins to load, by name or distribution")
declare_setting("ATLED_FALLBACK", parse_choice(*FALLBACK_MODES), "warn", "what a fallback does: raise, warn or quiet")
declare_setting("ATLED_DETERMINISTIC", parse_bool, False, "whether equal inputs must give equal bits")
declare_setting(
    "ATLED_LOCAL_ERRORS", parse_bool, False, "whether an output's error may come only from the inputs it is defined by"
)
declare_setting("ATLED_VERIFY", parse_share, 0.0, "share of op calls that the reference recomputes, 0 to 1")
