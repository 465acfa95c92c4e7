"""The docstring of an op spec, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEADS = ("Args", "Returns", "Raises")


@dataclass
class Parts:
    """summary: the first paragraph.  text: the other paragraphs.  sections: per head its (name, text) items."""

    summary: str = ""
    text: str = ""
    sections: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def take_apart(doc: str, drop_formulas: bool = False) -> Parts:
    """The parts of a docstring; drop_formulas: without the indented formulas and the gradient of a table's row."""
    body, *rest = re.split(rf"^({'|'.join(_HEADS)}):\n", doc, flags=re.MULTILINE)
    if drop_formulas:
        body = re.sub(r"^Gradient:\n(    .*\n)*", "", body, flags=re.MULTILINE)
        body = re.sub(r"^    .*\n", "", body, flags=re.MULTILINE)
    paragraphs = [paragraph.strip("\n") for paragraph in re.split(r"\n\s*\n", body) if paragraph.strip()]
    parts = Parts(paragraphs[0] if paragraphs else "", "\n\n".join(paragraphs[1:]))
    for head, text in zip(rest[::2], rest[1::2], strict=True):
        # What follows a section, such as a source, starts at the margin again.
        indented = re.match(r"(?:[ ]+.*\n?|\n)*", text)
        assert indented is not None
        parts.sections[head] = _items(indented[0])
        after = text[indented.end() :].strip()
        if after:
            parts.text = f"{parts.text}\n\n{after}".strip()
    return parts


def _items(text: str) -> list[tuple[str, str]]:
    """`name: text` items, whose further lines are indented more."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        match = re.match(r"    (?! )([^:]+): (.*)", line)
        if match:
            found.append((match[1], match[2]))
        elif found:
            name, sofar = found[-1]
            found[-1] = (name, f"{sofar} {line.strip()}")
        else:
            found.append(("", line.strip()))
    return found
