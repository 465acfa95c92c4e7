"""The imports of the code keep to the declared order of its rooms; the list of exceptions has only what is needed."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from structure.imports import Code, read_checkout  # after the path is set
from structure.order import faults, read_order

ROOT = Path(__file__).parents[1]
ORDERS = read_order()


@pytest.fixture(scope="module")
def code() -> Code:
    return read_checkout(ROOT)


@pytest.mark.parametrize("hall", ORDERS)
def test_imports_keep_to_the_order(code, hall):
    assert not faults(ORDERS[hall], code, hall), "mend the import, or tools/structure/order.toml; see docs/structure.md"


def test_all_packages_are_read(code):
    tops = {module.partition(".")[0] for module in code.modules}
    assert {"atled", "atled_contexts", *(path.name for path in ROOT.glob("plugins/*/src/atled_*"))} == tops
    assert any(line.source == "atled.graph.forward" for line in code.imports)
