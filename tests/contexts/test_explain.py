"""Explain: decisions and candidates as text."""

from atled_contexts import Context, candidates_table, consider, explain_decision, select
from fake_plugins import FakeCall


def test_the_table_shows_every_candidate_with_state_and_reason(device):
    device.foo = "takes only even shapes, and this one is odd in both of its axes"
    text = candidates_table(consider("Foo", Context(["cuda", "gpu", "fast"]), FakeCall))
    assert text.splitlines() == [
        "backend          implementation   state     reason",
        "cuda:float       -                absent    no usable plugin offers it",
        "gpu:float        kernel           refused   takes only even shapes, and this one",
        "                                            is odd in both of its axes",
        "fast:float       tiled            chosen    on another device than the Context's",
        "                                            first backend (host, not gpu)",
        "reference:float  NumPy reference  accepted  asked later",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_decision_says_who_computes_and_why(host):
    host.foo = "too odd"
    decision = select("Foo", Context("fast", fallback="quiet"), 1, FakeCall)
    lines = explain_decision(decision).splitlines()
    assert lines[0] == "Foo(float32[2, 3])"
    assert "  runs on: reference:float by plugin 'reference' (NumPy reference)" in lines
    assert any(line.startswith("  fallback: fast:float: too odd;") for line in lines)
    assert lines[-1].startswith("reference:float  NumPy reference  chosen")
    assert max(map(len, lines)) <= 80
