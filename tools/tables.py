"""Writes the tables of docs/ that say what the code says: of layers, of file formats; `make generated` runs it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from atled import parametric_functions
from atled.files.parameters import FORMATS

_DOCS = Path(__file__).resolve().parent.parent / "docs"


class Table(NamedTuple):
    """A table in a page that is otherwise written by hand.

    page: its file.  head: the line with the names of the columns, by which it is found.  rows: its lines.
    """

    page: Path
    head: str
    rows: Callable[[], Iterator[str]]


def page(table: Table) -> str:
    """The text of a table's page, with the rows of now."""
    text = table.page.read_text("utf-8")
    start = text.index(table.head)
    rule = re.sub(r"[^|]+", "---", table.head)
    return text[:start] + "\n".join([table.head, rule, *table.rows()]) + text[text.index("\n\n", start) :]


# "Parameters, in scope `bn`, of the shape of ...:" and the lines below it, which are indented.
_PARAMETERS = re.compile(r"^Parameters, in scope `([\w/]+)`(?:, ([^:]*))?:\n((?: .*\n)+)", re.MULTILINE)


def layers() -> Iterator[str]:
    """A row for each layer: its name, its scope, and what its docstring says of its parameters."""
    for name in dir(parametric_functions):
        layer = getattr(parametric_functions, name)
        found = _PARAMETERS.search(inspect.cleandoc(layer.__doc__) + "\n")
        if found:
            scope, remark, lines = found.groups()
            one_line = re.sub(r"\n +", " ", re.sub(r"\n    (?! )", "\n", f"\n{lines}")).strip("\n")
            said = [re.sub(r"^([\w, ]+):", _as_code, line) for line in one_line.split("\n")]
            said += [f"All {remark.removeprefix('which ')}."] if remark else []
            yield f"| `{name}` | `{scope}` | {' '.join(said)} |".replace("|x|", r"\|x\|")


def _as_code(names: re.Match[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[1].split(", ")) + ":"


def formats() -> Iterator[str]:
    """A row for each format of parameters."""
    return (f"| `{suffix}` | {found.note} |" for suffix, found in FORMATS.items())


TABLES = (
    Table(_DOCS / "layers.md", "| layer | scope | parameters |", layers),
    Table(_DOCS / "files.md", "| suffix | what it is |", formats),
)


def main() -> int:
    """Write the pages."""
    for table in TABLES:
        table.page.write_text(page(table), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
