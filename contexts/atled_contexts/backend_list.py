"""The backend list of a Context as text: `name:type_config` entries in, pairs out."""

from __future__ import annotations

from atled_contexts.errors import ContextError, did_you_mean, listing, message
from atled_contexts.plugin import is_name
from atled_contexts.type_configs import STANDARD

Pairs = tuple[tuple[str, str], ...]

DEFAULT_TYPE_CONFIG = "float"


def parse_backends(backend: object, asked: str, type_config: str = DEFAULT_TYPE_CONFIG) -> Pairs:
    """The (name, type config) pairs of one string or of a sequence of strings; what is repeated counts once.

    asked: how to name the request in an error.  type_config: for an entry that says none.
    TypeError: not strings.  ContextError: an entry is no `name` or `name:type_config`, or there is none.
    """
    if isinstance(backend, str):
        entries: list[object] = [backend]
    elif isinstance(backend, (list, tuple)):
        entries = list(backend)
    else:
        raise TypeError(_type_message(asked, f"backend is {type(backend).__name__}, not a string or a list"))
    for entry in entries:
        if not isinstance(entry, str):
            raise TypeError(_type_message(asked, f"the entry {entry!r} is {type(entry).__name__}, not a string"))
    texts = [str(entry) for entry in entries]
    _check_not_characters(texts, asked)
    if not texts:
        raise ContextError(message(asked, "the list of backends is empty", "", "name one, or leave backend= out"))
    return tuple(dict.fromkeys(_parse_entry(text, asked, type_config) for text in texts))


def _type_message(asked: str, wrong: str) -> str:
    return message(asked, wrong, "", "write 'name:type_config' or a list of such strings, as in ['cpu:float']")


def _check_not_characters(entries: list[str], asked: str) -> None:
    # list("cpu:float"), or NNabla's habit of taking a string for a sequence
    if len(entries) > 1 and all(len(entry) <= 1 for entry in entries):
        whole = "".join(entries)
        raise ContextError(
            message(asked, f"the entries are the characters of {whole!r}", "", f"write {whole!r} or [{whole!r}]")
        )


def _parse_entry(entry: str, asked: str, default: str) -> tuple[str, str]:
    name, colon, type_config = entry.partition(":")
    if not is_name(name) or (colon and not is_name(type_config)):
        raise ContextError(message(asked, f"the entry {entry!r} {_what_is_wrong(entry)}", "", _entry_remedy(entry)))
    return name, type_config if colon else default


def _what_is_wrong(entry: str) -> str:
    name, colon, type_config = entry.partition(":")
    if not entry:
        return "is empty"
    if "," in entry:
        return "holds several backends in one string"
    if not name:
        return "has no backend before the colon"
    if colon and not type_config:
        return "has no type config after the colon"
    return "is not 'name:type_config'"


def _entry_remedy(entry: str) -> str:
    if "," in entry:
        return f"write a list: {[part.strip() for part in entry.split(',')]!r}"
    name = entry.partition(":")[0]
    return (
        f"write {name + ':' + DEFAULT_TYPE_CONFIG!r}" if is_name(name) else "write 'name:type_config', as 'cpu:float'"
    )


def check_type_config(backend: str, type_config: str, offered: tuple[str, ...] | None, asked: str) -> None:
    """Raise ContextError for a type config that the backend does not offer.

    offered: what its plugin lists; None where no plugin tells: then the standard names may stay.
    """
    known = offered if offered is not None else tuple(STANDARD)
    if type_config in known:
        return
    wrong = f"backend {backend!r} does not offer type config {type_config!r}"
    if offered is None or type_config not in STANDARD:
        wrong = f"type config {type_config!r} of {backend + ':' + type_config!r} is unknown"
    raise ContextError(
        message(
            asked,
            wrong,
            f"type configs of {backend!r}: {listing(known)}",
            _remedy(backend, type_config, known),
        )
    )


def _remedy(backend: str, type_config: str, known: tuple[str, ...]) -> str:
    """What to write instead: the type config of the dtype that was named, else the one with the nearest name."""
    of_dtype = [name for name in known if name in STANDARD and STANDARD[name].dtype == type_config]
    if of_dtype:
        return f"type configs are no dtypes: write {backend + ':' + of_dtype[0]!r} for arrays of {type_config}"
    return did_you_mean(type_config, known, f"use one of these, as in {backend + ':' + known[0]!r}")
