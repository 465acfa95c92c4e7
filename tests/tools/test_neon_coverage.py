"""What there is of neon's API, and that the page says it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import neon_coverage  # after the path is set


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
