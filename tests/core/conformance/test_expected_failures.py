"""The lines of a file of expected failures, and which of them have become stale."""

import pytest

from atled.conformance.expected_failures import read_expected_failures


@pytest.fixture
def entries(tmp_path):
    path = tmp_path / "xfail"
    path.write_text(
        "# comment\nvalues :: Affine :: no empty matrices :: yet\n\nthreads::Tanh-0-float::a lock is missing\n"
    )
    return read_expected_failures(path)


def test_lines_are_split_at_the_first_two_marks(entries):
    first, second = entries.entries
    assert (first.check, first.op, first.reason) == ("values", "Affine", "no empty matrices :: yet")
    assert second.place.endswith("xfail:4")


def test_a_line_covers_all_cases_of_an_op_or_one(entries):
    assert entries.about("values", "Affine", "Affine-3-float") is entries.entries[0]
    assert entries.about("threads", "Tanh", "Tanh-0-float") is entries.entries[1]
    assert entries.about("threads", "Tanh", "Tanh-1-float") is None


def test_a_line_is_stale_when_all_its_cases_pass(entries):
    entries.note("values", "Affine", "Affine-0-float", failed=False)
    entries.note("values", "Affine", "Affine-1-float", failed=True)
    assert entries.stale() == []
    entries.note("threads", "Tanh", "Tanh-0-float", failed=False)
    (line,) = entries.stale()
    assert "threads::Tanh-0-float" in line and "take the line out" in line


def test_lines_about_nothing_are_told_with_the_nearest_name(entries):
    problems = entries.unknown([("values", "Affin", "Affin-0-float"), ("thread", "Tanh", "Tanh-0-float")])
    assert "did you mean 'Affin'?" in problems[0]
    assert "did you mean 'thread'?" in problems[1]
