"""What there is of neon's API, and that the page says it."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import neon_coverage  # after the path is set

SECTIONS = dict(neon_coverage.sections())
NAMES = [pytest.param(name, id=f"{title}-{name.title}") for title, names in SECTIONS.items() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_a_listed_name_is_there_and_takes_the_arguments_of_both_forms(name):
    assert name.is_there
    assert not name.refused(), "keywords of neon's are refused"
    assert name.is_in_order() or "decided" in name.listed, "say in docs/neon_surface.json how its arguments are told"


def test_modules_have_their_names():
    assert neon_coverage.missing_of_modules() == []


def test_op_trees_have_all_ops():
    assert neon_coverage.missing_ops() == []


def test_all_of_the_documents_is_listed():
    counts = {title: len(names) for title, names in SECTIONS.items()}
    documented = [name for name in SECTIONS["Backend, as documented"] if callable(name.found)]
    assert len(documented) == 87, "86 methods and the constructor"
    assert all(counts.values())


def test_the_page_is_up_to_date():
    assert neon_coverage.PAGE.read_text("utf-8") == neon_coverage.page(), "run make generated"


def test_names_of_arguments_are_read_from_forms():
    assert neon_coverage.named_arguments("a, axis=None, *rest, keepdims=True, **kwargs") == ["a", "axis", "keepdims"]
    assert neon_coverage.named_arguments("") == []


def test_keywords_that_the_code_refuses_are_found():
    def taken(self, a, out=None):
        pass

    listed = neon_coverage.Name("taken", {"document": "a, out=None", "release": "ary, out=None"}, taken, True)
    assert listed.refused() == ["ary"]
    assert not listed.is_in_order()
    assert neon_coverage.Name("taken", {"document": "a, out=None"}, taken, True).is_in_order()


def test_any_keyword_will_do_where_the_code_takes_all():
    def taken(self, *arguments, **keywords):
        pass

    assert neon_coverage.Name("taken", {"release": "ary, out=None"}, taken, True).refused() == []
