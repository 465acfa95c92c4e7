"""The table of families, by which ops are found before they are imported."""

import pytest

from atled.generators import families
from atled.ops import FAMILIES
from atled.ops.families import FAMILY_BY_OP


def test_the_table_is_up_to_date():
    assert families.PATH.read_text(encoding="utf-8") == families.write_families()


def test_every_family_has_an_op():
    assert set(FAMILY_BY_OP.values()) == set(FAMILIES)


def test_the_check_names_a_table_that_is_old(tmp_path, monkeypatch, capsys):
    old = tmp_path / "families.py"
    old.write_text("FAMILY_BY_OP = {}\n")
    monkeypatch.setattr(families, "PATH", old)
    assert families.main(["--check"]) == 1
    assert str(old) in capsys.readouterr().err
    assert families.main([]) == families.main(["--check"]) == 0
    assert old.read_text(encoding="utf-8") == families.write_families()


def test_a_family_that_is_not_named_is_told_of(monkeypatch):
    monkeypatch.setattr(families, "FAMILIES", [name for name in FAMILIES if name != "softmax"])
    with pytest.raises(LookupError, match="softmax, which is none"):
        families.write_families()
