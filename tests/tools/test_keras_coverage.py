"""What there is of Keras-style backends, and that the page says it."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import keras_coverage  # after the path is set

NAMES = [name for _, of_family in keras_coverage.families() for name in of_family]


@pytest.mark.parametrize("name", [*NAMES, *keras_coverage.methods()], ids=lambda name: name.title)
def test_a_listed_name_takes_the_listed_arguments_and_says_what_it_is(name):
    assert name.is_as_listed()
    assert name.summary()


def test_members_of_expressions_say_what_they_are():
    assert [title for title, text in keras_coverage.members() if not text] == []


def test_nothing_is_missing():
    assert keras_coverage.missing() == []


def test_all_of_the_functions_and_methods_are_listed():
    assert (len(NAMES), len(keras_coverage.methods())) == (89, 14)


def test_the_page_is_up_to_date():
    assert keras_coverage.PAGE.read_text("utf-8") == keras_coverage.page(), "run make generated"


def test_other_arguments_are_found():
    def taken(x, axis=None):
        pass

    def listed(arguments):
        return keras_coverage.Name("taken", arguments, "", taken).is_as_listed()

    assert listed("x, axis=None") and listed("x, axis=-1")
    assert not listed("x") and not listed("x, axes=None") and not listed("x, axis") and not listed("axis=None, x")
