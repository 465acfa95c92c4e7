"""RandomStreams: the published numbers of every method, how nodes advance, and what is refused."""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import atled.keras_backend as B
from atled.keras_backend.random.streams import RandomStreams

VECTORS = json.loads((Path(__file__).parents[3] / "mrg31k3p_vectors.json").read_text())
CASES = VECTORS["cases"]
TWO, RUN_TIME, SUBSTREAMS = VECTORS["two_nodes"], VECTORS["size_known_only_at_run_time"], VECTORS["substreams"]
P = np.array([[0.25, 0.25, 0.5], [0.1, 0.2, 0.7]], np.float32)


def numbers(call):
    return np.array([float.fromhex(each) if isinstance(each, str) else each for each in call])


def given(case):
    """The arguments as a program writes them."""
    made = dict(case["arguments"])
    for name, value in made.items():
        if isinstance(value, list):
            made[name] = tuple(value) if name == "size" else np.array(value, np.float32)
    return made


def case_name(case):
    return (
        f"{case['method']}-{case['seed'] if isinstance(case['seed'], int) else 'six'}-{case['shape']}-{case['dtype']}"
    )


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_numbers_of_two_calls_are_the_published_ones(backend, case):
    rng = RandomStreams(case["seed"])
    f = B.function([], getattr(rng, case["method"])(**given(case)))
    assert rng.updates()[0].rows.get_value().shape == (case["n_streams"], 6)
    for call in case["calls"]:
        found = f()
        assert (found.shape, found.dtype) == (tuple(case["shape"]), case["dtype"])
        if case["method"] == "normal":  # logarithm, sine and cosine are rounded by the library at hand
            tolerance = 4e-7 if case["dtype"] == "float32" else 1e-14
            np.testing.assert_allclose(found.ravel(), numbers(call), rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(found.ravel(), numbers(call))


def test_a_seed_renews_all_nodes_in_their_order(backend):
    rng = RandomStreams(TWO["seed"])
    f = B.function([], [rng.uniform(tuple(size), dtype=TWO["dtype"]) for size in TWO["sizes"]])

    def check(wanted):
        for found, expected in zip(f(), wanted, strict=True):
            np.testing.assert_array_equal(found.ravel(), numbers(expected))

    check(TWO["first_call"])
    check(TWO["second_call"])
    rng.seed()
    check(TWO["first_call"])
    rng.seed(99)
    check(TWO["after_seed(99)"])


def test_a_size_that_a_call_brings_is_drawn_by_15360_streams(backend):
    rng, x = RandomStreams(RUN_TIME["seed"]), B.placeholder(ndim=2)
    f = B.function([x], rng.uniform(x.shape, dtype=RUN_TIME["dtype"]))
    rows = rng.updates()[0].rows
    assert rows.get_value().shape == (RUN_TIME["n_streams"], 6)
    for call in ("first_call", "second_call"):
        found = f(np.zeros(RUN_TIME["size"]))
        assert found.shape == tuple(RUN_TIME["size"])
        np.testing.assert_array_equal(found.ravel(), numbers(RUN_TIME[call]))


def test_sizes_may_be_expressions_among_ints(cpu):
    rng, x = RandomStreams(5), B.placeholder(ndim=2)
    f = B.function([x], [rng.normal((x.shape[1], 3)), rng.binomial((2, x.shape[0]), p=0.5)])
    normal, binomial = f(np.zeros((4, 5)))
    assert (normal.shape, binomial.shape) == ((5, 3), (2, 4))
    normal, binomial = f(np.zeros((2, 1)))
    assert (normal.shape, binomial.shape) == ((1, 3), (2, 2))


def test_a_vector_of_sizes_needs_ndim_where_its_length_is_not_known(cpu):
    rng, sizes = RandomStreams(5), B.placeholder(ndim=1, dtype="int64")
    assert B.function([sizes], rng.uniform(sizes, ndim=2))([2, 3]).shape == (2, 3)
    with pytest.raises(TypeError, match="is not known"):
        rng.uniform(sizes)


def test_rows_of_substreams(cpu):
    rng = RandomStreams(SUBSTREAMS["seed"])
    rows = rng.get_substream_rstates(SUBSTREAMS["n_streams"], "float32", inc_rstate=False)
    np.testing.assert_array_equal(rows, SUBSTREAMS["rows"])
    assert rows.dtype == np.int32
    np.testing.assert_array_equal(rng.get_substream_rstates(5, "float32"), rows)
    np.testing.assert_array_equal(rng.rstate, SUBSTREAMS["generator_row_after"])
    rng.inc_rstate()
    np.testing.assert_array_equal(rng.rstate, SUBSTREAMS["generator_row_after_another_jump"])


@pytest.mark.parametrize("refused", VECTORS["refused_seeds"], ids=lambda refused: str(refused["seed"]))
def test_seeds_are_refused_with_nothing_changed(refused):
    error = {"ValueError": ValueError, "TypeError": TypeError}[refused["raises"]]
    rng = RandomStreams(7)
    before = rng.rstate
    for act in (RandomStreams, rng.set_rstate, rng.seed):
        with pytest.raises(error, match="seed"):
            act(refused["seed"])
    assert rng.rstate is before


@pytest.mark.parametrize("seed", [-1, 1.5, "seed", None])
def test_other_seeds_are_refused_as_well(seed):
    with pytest.raises((ValueError, TypeError), match="seed"):
        RandomStreams(seed)


@pytest.mark.parametrize(
    ("size", "count"),
    [((5,), 5), ((6,), 6), ((7,), 1), ((100, 500), 8333), ((1000, 1000), 15360), ((), 1), ((np.int64(3),), 15360)],
)
def test_count_of_streams(size, count):
    assert RandomStreams().n_streams(size) == count


def test_a_node_is_one_value_in_a_function_and_goes_on_in_the_next(cpu):
    rng = RandomStreams(3)
    x = rng.uniform((4,))
    both, single = B.function([], [x, x + 0.0]), B.function([], x)
    first, again = both()
    np.testing.assert_array_equal(first, again)
    second, third = single(), x.eval()
    rng.seed()
    np.testing.assert_array_equal(both()[0], first)
    np.testing.assert_array_equal(both()[1], second)
    np.testing.assert_array_equal(both()[1], third)


def test_rows_are_as_before_where_a_call_fails(backend):
    rng, x = RandomStreams(3), B.placeholder(ndim=1)
    f = B.function([x], rng.uniform((4,)) + x)
    f(np.zeros(4))
    rows = rng.updates()[0].rows.get_value()
    with pytest.raises(ValueError, match="3"):
        f(np.zeros(3))
    np.testing.assert_array_equal(rng.updates()[0].rows.get_value(), rows)


def test_bounds_may_be_arrays_and_expressions(cpu):
    low, high = np.array([-1.0, 2.0, 5.0], np.float32), B.variable([0.0, 4.0, 5.5])
    found = B.function([], RandomStreams(8).uniform((1000, 3), low=low, high=high))()
    u = B.function([], RandomStreams(8).uniform((1000, 3)))()
    np.testing.assert_allclose(found, low + u * (high.get_value() - low), rtol=1e-6, atol=1e-6)
    assert found.dtype == np.float32
    assert RandomStreams(8).uniform((3,), low=low.astype(np.float64)).dtype == "float64"


def test_gradients_reach_moments_and_no_rows(cpu):
    rng, avg, std = RandomStreams(8), B.variable(0.5), B.variable(2.0)
    x = rng.normal((6,), avg=avg, std=std)
    f = B.function([], [B.sum(x), *B.gradients(B.sum(x), [avg, std])])
    total, by_avg, by_std = f()
    assert by_avg == 6
    np.testing.assert_allclose(total, 6 * 0.5 + 2.0 * by_std, rtol=1e-5)


def test_half_precision_excludes_both_bounds(cpu):
    found = B.function([], RandomStreams(1).uniform((100_000,), dtype="float16"))()
    assert found.dtype == np.float16
    assert 0 < found.min() < 1e-3
    assert 0.999 < found.max() < 1


def test_probabilities_of_each_element(cpu):
    p = np.tile(np.array([0.0, 0.25, 0.75, 1.0], np.float32), (5000, 1))
    found = B.function([], RandomStreams(2).binomial(p.shape, p=p, dtype="int8"))()
    np.testing.assert_allclose(found.mean(axis=0), p[0], atol=0.03)


def test_counts_for_a_number_of_draws_that_a_call_brings(cpu):
    rng, p, n = RandomStreams(4), B.placeholder(ndim=2), B.placeholder(ndim=0, dtype="int32")
    f = B.function([p, n], rng.multinomial(pvals=p, n=n, dtype="int32"))
    for count in (3, 200):
        np.testing.assert_array_equal(f(P, count).sum(axis=1), [count, count])


def test_choice_takes_nothing_twice(cpu):
    found = B.function([], RandomStreams(4).choice(size=3, replace=False, p=np.tile(P, (50, 1))))()
    np.testing.assert_array_equal(np.sort(found, axis=1), np.tile([0, 1, 2], (100, 1)))


def test_the_old_name_of_choice_warns(cpu):
    with pytest.warns(DeprecationWarning, match="old name"):
        found = RandomStreams(12345).multinomial_wo_replacement(pvals=P, n=2)
    wanted = RandomStreams(12345).choice(p=P, size=2, replace=False)
    np.testing.assert_array_equal(found.eval(), wanted.eval())


@pytest.mark.parametrize(
    ("error", "match", "act"),
    [
        (ValueError, "not positive", lambda r: r.uniform((3, 0))),
        (ValueError, "not positive", lambda r: r.normal((-1,))),
        (TypeError, "of type NoneType", lambda r: r.binomial()),
        (TypeError, "of type int", lambda r: r.uniform(3)),
        (TypeError, "no whole number", lambda r: r.uniform((2.5,))),
        (TypeError, "no float", lambda r: r.uniform((3,), dtype="int32")),
        (ValueError, "ndim is 2", lambda r: r.uniform((3,), ndim=2)),
        (ValueError, "one at least", lambda r: r.uniform((3,), nstreams=0)),
        (ValueError, "has 2", lambda r: r.uniform((3,), low=B.placeholder(ndim=2))),
        (NotImplementedError, "n is not 1", lambda r: r.binomial((3,), n=2)),
        (ValueError, "size is given", lambda r: r.multinomial(size=(2,), pvals=P)),
        (ValueError, "ndim is given", lambda r: r.multinomial(ndim=2, pvals=P)),
        (TypeError, "pvals is missing", lambda r: r.multinomial()),
        (NotImplementedError, "give a matrix", lambda r: r.multinomial(pvals=P[0])),
        (NotImplementedError, "with replacement", lambda r: r.choice(p=P)),
        (TypeError, "pass p", lambda r: r.choice(a=3, p=P, replace=False)),
        (TypeError, "p is missing", lambda r: r.choice(replace=False)),
        (ValueError, "ndim is given", lambda r: r.choice(replace=False, p=P, ndim=2)),
        (NotImplementedError, "give a matrix", lambda r: r.choice(replace=False, p=P[0])),
    ],
)
def test_what_is_refused_leaves_no_node(error, match, act):
    rng = RandomStreams(6)
    before = rng.rstate
    with pytest.raises(error, match=match):
        act(rng)
    assert rng.rstate is before
    assert rng.updates() == []


def test_more_outcomes_than_there_are_is_refused_at_the_call(cpu):
    f = B.function([], RandomStreams(6).choice(size=4, replace=False, p=P))
    with pytest.raises(ValueError, match="draw 3 at most"):
        f()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_streams_from_which_nothing_draws_are_copied_as_they_stand(backend, copied):
    rng = RandomStreams(7)
    rng.inc_rstate()
    other = copied(rng)
    first, second = (B.function([], each.uniform((2, 3)))() for each in (rng, other))
    np.testing.assert_array_equal(first, second)
    assert len(rng.state_updates) == len(other.state_updates) == 1
    other.seed()
    assert other.default_instance_seed == 7 and (other.rstate != rng.rstate).any()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_streams_from_which_something_draws_say_how_to_go_on(backend, copied):
    rng = RandomStreams(7)
    rng.uniform((2,))
    with pytest.raises(TypeError, match=r"(?s)expressions draw from them.*keep `rstate`"):
        copied(rng)
    first, second = (B.function([], each.uniform((3,)))() for each in (B.make_rng(rng.rstate), rng))
    np.testing.assert_array_equal(first, second)
