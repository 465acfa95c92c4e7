"""The tables of docs/ that are written from the code: complete, and up to date."""

import re
import sys
from pathlib import Path

import pytest

from atled import parametric_functions
from atled.files.parameters import FORMATS

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import tables  # after the path is set


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.page.name)
def test_the_page_is_up_to_date(table):
    assert table.page.read_text("utf-8") == tables.page(table), "run make generated"


def test_every_layer_has_a_row_but_those_that_make_layers():
    rows = {re.match(r"\| `(\w+)` ", row)[1] for row in tables.layers()}
    assert set(dir(parametric_functions)) - rows == {"LSTMCell", "parametric_function_api"}


def test_a_row_says_of_each_parameter_what_the_docstring_does():
    (row,) = (row for row in tables.layers() if row.startswith("| `batch_normalization`"))
    assert row == (
        "| `batch_normalization` | `bn` | `beta`, `gamma`: float; start at 0 and at 1. `mean`, `var`: float; the "
        "running statistics; start at 0 and get no gradient. All of the shape of inp with 1 on every axis but the "
        "channel axis. |"
    )


def test_every_format_has_a_row():
    assert [row.split("`")[1] for row in tables.formats()] == list(FORMATS)


def test_text_around_a_table_stays(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n\n| a | b |\n|---|---|\n| old | 1 |\n\nafter\n")
    table = tables.Table(page, "| a | b |", lambda: iter(["| new | 2 |"]))
    assert tables.page(table) == "before\n\n| a | b |\n|---|---|\n| new | 2 |\n\nafter\n"
