"""Tables of op specs: what is imported when, in threads, and after an import that failed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from atled.ops.spec import FUNCTIONS, SPECS, OpSpec
from atled.ops.spec_table import SpecTable

# Imports as they are in a process that has not asked for an op yet.
_FRESH = """
import sys
import atled as nn
import atled.functions as F

def families():
    from atled.ops import FAMILIES
    return {name for name in FAMILIES if f"atled.ops.{name}" in sys.modules}
"""


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", _FRESH + program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_names_import_no_family():
    said = printed(
        """
from atled.ops.spec import FUNCTIONS, SPECS
print("relu" in dir(F), "ReLU" in SPECS, "relu" in FUNCTIONS, "Relo" in SPECS, len(SPECS) > len(FUNCTIONS), *families())
"""
    )
    assert said == "True True True False True"


def test_an_op_imports_its_family():
    assert printed("F.relu; print(*families())") == "activation"


def test_whoever_goes_over_all_specs_has_all_of_them():
    said = printed(
        """
from atled.ops import FAMILIES
from atled.ops.spec import SPECS
print([spec.name for spec in SPECS.values()] == sorted(SPECS) == [*SPECS], len(FAMILIES) - len(families()))
"""
    )
    assert said == "True 0"


def test_an_op_that_the_table_does_not_know_yet_is_a_function():
    said = printed(
        """
from atled.ops import families as table
from atled.ops.spec import FUNCTIONS, SPECS
del table.FAMILY_BY_FUNCTION["softmax"], table.FAMILY_BY_OP["Softmax"]
print(F.softmax.spec)
"""
    )
    assert said == "<op spec Softmax>"


def test_an_op_is_there_for_others_once_its_family_is_imported_to_the_end():
    # The class statement enters the op; its module has not come to its end, and the helpers of the op may be behind it.
    said = printed(
        """
import atled.ops.spec as spec_module

import threading

entered, go_on, found = threading.Event(), threading.Event(), []
register = spec_module.register

def slow(spec):
    made = register(spec)
    if spec.name == "Softmax":
        entered.set()
        go_on.wait(10)
    return made

spec_module.register = slow
first = threading.Thread(target=lambda: F.softmax)
first.start()
entered.wait(10)
second = threading.Thread(target=lambda: found.append(spec_module.SPECS["Softmax"]))
second.start()
second.join(0.2)
early = list(found)
go_on.set()
first.join()
second.join()
print(early, found)
"""
    )
    assert said == "[] [<op spec Softmax>]"


def test_a_family_whose_import_was_interrupted_is_imported_anew():
    said = printed(
        """
import atled.ops.spec as spec_module
register = spec_module.register

def interrupted(spec):
    register(spec)
    if spec.name == "Softmax":
        raise KeyboardInterrupt
    return spec

spec_module.register = interrupted
try:
    F.softmax
except KeyboardInterrupt:
    spec_module.register = register
    print("interrupted", F.softmax.spec)
"""
    )
    assert said == "interrupted <op spec Softmax>"


def test_two_specs_of_a_name_are_refused():
    with pytest.raises(ValueError, match="two op specs are named ReLU"):
        SPECS.enter("ReLU", SPECS["ReLU"])


def test_what_is_taken_out_is_gone_whether_it_was_asked_for_or_not():
    table, spec = SpecTable({}), SPECS["ReLU"]
    for asked in (True, False):
        table.enter("ReLU", spec)
        assert not asked or table["ReLU"] is spec
        assert table.pop("ReLU") is spec
        assert "ReLU" not in table and table.get("ReLU") is None and table.pop("ReLU", None) is None


def test_it_is_a_dict_whose_copies_have_all():
    copy: dict[str, OpSpec] = dict(FUNCTIONS)
    assert copy["relu"] is SPECS["ReLU"] and len(copy) == len(FUNCTIONS)
