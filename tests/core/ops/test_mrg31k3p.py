"""MRG31k3p: published states, values and jumps, on every backend that a program of the host reaches."""

import json
from pathlib import Path

import numpy as np
import pytest

from atled.arrays.array import NdArray
from atled.keyed import Description
from atled.ops import mrg31k3p
from atled_contexts import Context

VECTORS = json.loads((Path(__file__).parents[2] / "mrg31k3p_vectors.json").read_text())
ONE, SUBSTREAMS = VECTORS["single_stream"], VECTORS["substreams"]
UNIFORM = [case for case in VECTORS["cases"] if case["method"] == "uniform"]
PICKED = [case for case in VECTORS["cases"] if case["method"] in ("multinomial", "choice")]

all_backends = pytest.mark.parametrize("backend", ["reference", "cpu", "sim"])


def row_of(seed):
    return np.array(seed if isinstance(seed, list) else [seed] * 6, np.int32)


class Streams:
    """Rows of streams in an array, drawn from on one backend."""

    def __init__(self, backend, rows):
        self.context = Context([f"{backend}:float"], fallback="raise")
        self.rows = NdArray.from_numpy_array(rows)

    def draw(self, shape, dtype, **bounds):
        d = Description(self.context)
        rows = d.leaf(self.rows)
        y = d.call("MRGUniform", rows, shape=tuple(shape), dtype=dtype, **bounds)
        d.result(y)
        d.assign(rows, d.output(y, 1))
        return d.run()[0].data.copy()


def floats(texts):
    return np.array([float.fromhex(text) for text in texts])


@all_backends
def test_a_stream_gives_the_published_values(backend):
    streams = Streams(backend, row_of(ONE["seed"])[np.newaxis])
    z = streams.draw((20,), "float64") * 2**31
    np.testing.assert_array_equal(z, ONE["first_20_z"])
    np.testing.assert_array_equal(streams.rows.data, [ONE["state_after_20"]])
    assert streams.draw((980,), "float64")[-1] * 2**31 == ONE["z_number_1000"]


def test_a_hundred_thousand_values_add_up():
    streams = Streams("cpu", row_of(ONE["seed"])[np.newaxis])
    z = (streams.draw((100_000,), "float64") * 2**31).astype(np.int64)
    assert (z[-1], z.sum()) == (ONE["z_number_100000"], ONE["sum_z_100000"])
    np.testing.assert_array_equal(streams.rows.data, [ONE["state_after_100000"]])


def test_rows_of_substreams_and_jumps():
    row = row_of(SUBSTREAMS["seed"])
    np.testing.assert_array_equal(mrg31k3p.substreams(row, 5), SUBSTREAMS["rows"])
    after = mrg31k3p.jumped(row, mrg31k3p.STREAM)
    np.testing.assert_array_equal(after, SUBSTREAMS["generator_row_after"])
    again = mrg31k3p.jumped(after, mrg31k3p.STREAM)
    np.testing.assert_array_equal(again, SUBSTREAMS["generator_row_after_another_jump"])


def test_a_jump_is_that_many_steps():
    rows = mrg31k3p.substreams(row_of(77), 3)
    _, after = mrg31k3p.draw(rows, 3 * 64)
    np.testing.assert_array_equal(mrg31k3p.jumped(rows, 6), after)


@pytest.mark.parametrize("power", [72, 134])
def test_matrices_of_jumps_are_the_published_ones(power):
    first, second = (VECTORS["generator"][f"A{n}_p{power}"] for n in (1, 2))
    for column in range(3):
        row = np.zeros(6, np.int32)
        row[[column, 3 + column]] = 1
        moved = mrg31k3p.jumped(row, power)
        np.testing.assert_array_equal(moved, [*(line[column] for line in first), *(line[column] for line in second)])


@all_backends
@pytest.mark.parametrize("case", UNIFORM, ids=lambda case: f"{case['seed']}-{case['dtype']}")
def test_uniform_numbers_are_the_published_ones(backend, case):
    streams = Streams(backend, mrg31k3p.substreams(row_of(case["seed"]), case["n_streams"]))
    bounds = {name: case["arguments"][name] for name in ("low", "high") if name in case["arguments"]}
    for call in case["calls"]:
        found = streams.draw(case["shape"], case["dtype"], **bounds)
        assert found.dtype == case["dtype"]
        np.testing.assert_array_equal(found.ravel(), floats(call))


@all_backends
@pytest.mark.parametrize("case", PICKED, ids=lambda case: f"{case['method']}-{case['shape']}")
def test_outcomes_are_the_published_ones(backend, case):
    streams = Streams(backend, mrg31k3p.substreams(row_of(case["seed"]), case["n_streams"]))
    given = case["arguments"]
    p = np.array(given.get("pvals", given.get("p")), np.float32)
    op = "MultinomialCounts" if case["method"] == "multinomial" else "ChoiceIndices"
    for call in case["calls"]:
        unis = streams.draw((len(p) * given.get("n", given.get("size")),), "float32")
        d = Description(streams.context)
        d.result(d.call(op, *(d.leaf(NdArray.from_numpy_array(x)) for x in (p, unis)), dtype=case["dtype"]))
        (found,) = d.run()
        assert (found.shape, found.data.dtype) == (tuple(case["shape"]), case["dtype"])
        np.testing.assert_array_equal(found.data.ravel(), call)


@all_backends
def test_only_streams_that_are_drawn_from_advance(backend):
    run_time = VECTORS["size_known_only_at_run_time"]
    rows = mrg31k3p.substreams(row_of(run_time["seed"]), run_time["n_streams"])
    streams = Streams(backend, rows)
    for call in ("first_call", "second_call"):
        found = streams.draw(run_time["size"], "float64")
        np.testing.assert_array_equal(found.ravel(), floats(run_time[call]))
    np.testing.assert_array_equal(streams.rows.data[6:], rows[6:])
    assert not (streams.rows.data[:6] == rows[:6]).all(axis=1).any()


@all_backends
def test_bounds_are_excluded_where_rounding_reaches_them(backend):
    # z is 1, the least value, and 2**31 - 1, the greatest.
    rows = np.array([[0, 0, 0, 0, 0, 0]] * 2, np.int32)
    rows[0, 1] = pow(2**22, -1, mrg31k3p.M1)  # x1 = 1, x2 = 0
    for low, high in ((1.0, 2.0), (-2.0, -1.0), (0.0, 1.0), (2.0, 1.0)):
        found = Streams(backend, rows).draw((2,), "float32", low=low, high=high)
        assert (found > min(low, high)).all()
        assert (found < max(low, high)).all()


@all_backends
def test_equal_bounds_are_the_number(backend):
    found = Streams(backend, mrg31k3p.substreams(row_of(3), 2)).draw((5,), "float32", low=0.5, high=0.5)
    np.testing.assert_array_equal(found, np.full(5, 0.5, np.float32))


@all_backends
def test_a_loop_carries_rows_from_step_to_step(backend):
    rows = mrg31k3p.substreams(row_of(5), 4)
    drawn, after = Streams(backend, rows), Streams(backend, rows)
    d = Description(drawn.context)
    leaf = d.leaf(drawn.rows)

    def step(state):
        y = d.call("MRGUniform", state, shape=(2, 3), dtype="float32")
        return [d.output(y, 1)], [y]

    loop = d.loop(step, states=[leaf], length=5)
    d.result(loop.rows[0])
    d.assign(leaf, loop.states[0])
    (found,) = d.run()
    np.testing.assert_array_equal(found.data, [after.draw((2, 3), "float32") for _ in range(5)])
    np.testing.assert_array_equal(drawn.rows.data, after.rows.data)


@all_backends
def test_a_comparison_behind_it_draws_the_same_numbers(backend):
    rows, p = mrg31k3p.substreams(row_of(9), 700), np.linspace(0, 1, 3000, dtype=np.float32)
    streams, plain = Streams(backend, rows), Streams("reference", rows)
    d = Description(streams.context)
    y = d.call("MRGUniform", d.leaf(streams.rows), shape=p.shape)
    d.result(d.call("Cast", d.call("IsLess", y, d.leaf(NdArray.from_numpy_array(p))), dtype="int8"))
    np.testing.assert_array_equal(d.run()[0].data, plain.draw(p.shape, "float32") < p)
