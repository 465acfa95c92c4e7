"""`atled.plugin`, the one module that plugins import."""

import subprocess
import sys

import pytest

import atled.call
import atled.plugin


@pytest.mark.parametrize("name", atled.plugin.__all__)
def test_every_public_name_is_there_and_documented(name):
    found = getattr(atled.plugin, name)
    if callable(found) and name != "hookimpl":  # that one is pluggy's
        assert found.__doc__


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = atled.plugin.nonsense


def test_op_spec_makes_gradients_of_formulas():
    assert atled.plugin.op_spec("ELUGradX").program is not None
    with pytest.raises(LookupError, match="Tnah"):
        atled.plugin.op_spec("Tnah")


def test_importing_it_loads_nothing_beyond_the_library_itself():
    code = "import sys, atled; before = set(sys.modules); import atled.plugin; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # pluggy comes with `hookimpl`.
    found = {name for name in done.stdout.split() if name.startswith("atled")}
    assert found <= {"atled.plugin", "atled.loop_words", "atled.reference", "atled_contexts.hooks"}


def test_the_contract_is_importable_from_call_too():
    for name in ("ArrayDesc", "Call", "Native", "Prepared"):
        assert getattr(atled.call, name) is getattr(atled.plugin, name)
