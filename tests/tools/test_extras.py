"""The table of extras is what pyproject.toml and the manifests say."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import extras  # after the path is set


def test_the_table_is_up_to_date():
    assert extras.TABLE.read_text("utf-8") == extras.table(), "run make generated"
