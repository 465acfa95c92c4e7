"""Formulas: how operands broadcast, dtypes, what is rounded, updates in place and in groups."""

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Call, Program, op_spec
from atled_cuda_cupy.compiling import STORED_TYPES
from atled_cuda_cupy.kernels import broadcasting, elementwise
from atled_cuda_cupy.kernels.division import divisor
from device_calls import call_of, computed, downloaded, expected, uploaded

ml_dtypes = pytest.importorskip("ml_dtypes")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}
SHAPES = {
    "flat": [(64, 33), (64, 33)],
    "smaller than a pack": [(3,), (3,)],
    "one element": [(1, 1), (1,)],
    "a scalar": [(5, 6), ()],
    "rows that packs fit into": [(6, 32), (32,)],
    "rows that they do not fit into": [(6, 7), (7,)],
    "rows of half packs": [(6, 6), (6,)],
    "columns": [(5, 16), (5, 1)],
    "channels": [(2, 3, 4, 4), (3, 1, 1)],
    "odd channels": [(2, 3, 5, 5), (3, 1, 1)],
    "rows and columns": [(2, 1, 4), (1, 3, 1)],
    "five axes": [(5, 1, 6, 1, 7), (1, 4, 1, 3, 7)],
    "empty": [(0, 3), (3,)],
}


def values(*shapes, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.25, 2, shape).astype(ArrayDesc((), dtype).dtype) for shape in shapes]


def close(found, wanted):
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        tolerance = TOLERANCE.get(want.dtype.name, 0)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_operands_broadcast(arrays, shapes, dtype):
    call = call_of("Sub2", *shapes, dtype=dtype)
    inputs = values(*shapes, dtype=dtype)
    close(computed(arrays, elementwise.prepare(call), inputs, call.outputs), expected(call, inputs))


@pytest.mark.parametrize("shapes", [SHAPES["flat"], SHAPES["columns"], SHAPES["odd channels"]])
def test_indices_of_64_bits_find_the_same_elements(arrays, monkeypatch, shapes):
    monkeypatch.setattr(broadcasting, "MOST_NARROW", 0)
    call = call_of("Sub2", *shapes)
    inputs = values(*shapes)
    assert broadcasting.broadcasting(call.spec.program, [*shapes, shapes[0]], [4] * 3).is_wide
    close(computed(arrays, elementwise.prepare(call), inputs, call.outputs), expected(call, inputs))


@pytest.mark.parametrize("shapes", [SHAPES["flat"], SHAPES["rows that packs fit into"], SHAPES["odd channels"]])
def test_arrays_that_are_not_aligned_go_element_by_element(arrays, shapes):
    call = call_of("Sub2", *shapes)
    inputs = values(*shapes)
    close(computed(arrays, elementwise.prepare(call), inputs, call.outputs, offset=1), expected(call, inputs))


VIEWS = {
    "transposed": ((6, 9), lambda x: x.T[:8, :5]),
    "every other column": ((8, 10), lambda x: x[:, ::2]),
    "backwards": ((8, 5), lambda x: x[::-1, ::-1]),
    "rows apart": ((8, 16), lambda x: x[:, 3:8]),
    "one row": ((1, 5), lambda x: np.broadcast_to(x, (8, 5))),
    "whole": ((8, 5), lambda x: x),
    "packs apart": ((16, 12), lambda x: x[::2, 4:]),
    "turned packs": ((8, 16), lambda x: x.T[::2]),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [
        *[(kind, "whole", "whole") for kind in ("transposed", "backwards", "one row")],
        *[("whole", "rows apart", "every other column"), ("transposed", "transposed", "transposed")],
        *[("every other column", "one row", "rows apart"), ("packs apart", "turned packs", "packs apart")],
    ],
    ids=" ".join,
)
def test_views_are_read_and_written_in_place(arrays, monkeypatch, kinds, wide):
    if wide:
        monkeypatch.setattr(broadcasting, "MOST_NARROW", 0)
    bases = values(*(VIEWS[kind][0] for kind in kinds))
    views = [VIEWS[kind][1](base) for base, kind in zip(bases, kinds, strict=True)]
    steps = [tuple(step // 4 for step in view.strides) for view in views]
    descs = [ArrayDesc(view.shape, view.dtype, step) for view, step in zip(views, steps, strict=True)]
    call = Call(op_spec("Sub2"), tuple(descs[:2]), tuple(descs[2:]), {}, device_id="0")
    starts = [(view.ctypes.data - base.ctypes.data) // 4 for view, base in zip(views, bases, strict=True)]
    there = [uploaded(arrays, base) for base in bases]
    windows = [arrays.window(*given) for given in zip(there, descs, starts, strict=True)]
    prepared = elementwise.prepare(call)
    prepared.run(*windows)
    wanted = bases[2].copy()
    VIEWS[kinds[2]][1](wanted)[...] = views[0] - views[1]
    np.testing.assert_array_equal(downloaded(arrays, there[2]), wanted)


def test_one_text_serves_all_sizes():
    program = op_spec("Add2").program
    patterns = {
        broadcasting.broadcasting(program, [(n, c, 8), (c, 1), (n, c, 8)], [4] * 3).pattern
        for n in (2, 5)
        for c in (3, 9)
    }
    assert len(patterns) == 1


def test_long_formulas_are_written_out_for_few_elements():
    long = Program(("x",), (), (("y", " + ".join(f"tanh({n} * x)" for n in range(1, 20))),))
    short = op_spec("ELU").program
    assert [broadcasting.pack_of(program, 2) for program in (short, long)] == [8, 4]


def test_division_by_a_factor_is_exact():
    rng = np.random.default_rng(0)
    numbers = [1, 2, 3, 7, 641, 2**16 + 1, 2**30, 2**31 - 1, *map(int, rng.integers(1, 2**31, 200))]
    for number in numbers:
        factor, shift = divisor(number, False)
        assert -(2**31) <= factor < 2**31
        for at in (
            0,
            1,
            number - 1,
            number,
            min(2 * number, 2**31 - 1),
            2**31 - 1,
            *map(int, rng.integers(0, 2**31, 20)),
        ):
            high = (at * (factor % 2**32)) >> 32
            assert (high + at) >> shift == at // number


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_doubles_are_rounded_once(arrays, dtype):
    kind = ArrayDesc((), dtype).dtype
    # So near to halfway between two neighbours that a float is exactly halfway.
    low = np.arange(1, 200, dtype=np.uint16) * 37 + 0x3000
    between = (low.view(kind).astype(np.float64) + (low + 1).view(kind).astype(np.float64)) / 2
    x = np.concatenate([between, between * (1 + 2**-40), between * (1 - 2**-40), -between * (1 + 2**-40)])
    wanted = np.concatenate([low + (low & 1), low + 1, low, low + 1 | 0x8000])
    call = call_of("MulScalar", x.shape, dtype="float64", results=[dtype])
    (found,) = computed(arrays, elementwise.prepare(call), [x], call.outputs, [1.0])
    np.testing.assert_array_equal(found.view(np.uint16), wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_doubles_that_16_bits_cannot_hold(arrays, dtype):
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e300, -1e300, 1e-300])
    call = call_of("MulScalar", x.shape, dtype="float64", results=[dtype])
    (found,) = computed(arrays, elementwise.prepare(call), [x], call.outputs, [1.0])
    wanted = np.array([np.nan, np.inf, -np.inf, -0.0, np.inf, -np.inf, 0.0], np.float32)
    np.testing.assert_array_equal(found.astype(np.float32), wanted)
    np.testing.assert_array_equal(np.signbit(found.astype(np.float32))[1:], np.signbit(wanted)[1:])


def test_casts_in_a_formula_widen_and_narrow(arrays):
    spec = op_spec("Mul2")
    descs = ArrayDesc((5, 8), "float16"), ArrayDesc((8,), "float32")
    call = Call(spec, descs, (ArrayDesc((5, 8), "bfloat16"),), {}, device_id="0")
    x, y = values((5, 8), dtype="float16")[0], values((8,), seed=1)[0]
    (found,) = computed(arrays, elementwise.prepare(call), [x, y], call.outputs)
    np.testing.assert_array_equal(found, (x.astype(np.float32) * y).astype(ml_dtypes.bfloat16))


CASTS = [("int64", "int32"), ("float32", "float16"), ("float32", "bool"), ("float32", "uint8"), ("bool", "float32"),
         ("int64", "float32"), ("bfloat16", "float16"), ("float16", "float64"), ("uint8", "int64")]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts_are_as_those_of_numpy(arrays, source, target):
    x = (np.random.default_rng(0).uniform(0, 200, (7, 13)) * (np.arange(13) % 3)).astype(ArrayDesc((), source).dtype)
    desc = ArrayDesc(x.shape, target)
    call = Call(op_spec("Cast"), (ArrayDesc(x.shape, source),), (desc,), {"dtype": desc.dtype}, device_id="0")
    (found,) = computed(arrays, elementwise.prepare(call), [x], call.outputs)
    np.testing.assert_array_equal(found, x.astype(desc.dtype))


@pytest.mark.parametrize("dtype", [name for name in STORED_TYPES if name != "bool"])
def test_copies_keep_every_bit(arrays, dtype):
    kind = ArrayDesc((), dtype).dtype
    x = np.frombuffer(np.random.default_rng(0).bytes(48 * kind.itemsize), kind).reshape(6, 8)
    call = Call(
        op_spec("Broadcast"), (ArrayDesc((8,), dtype),), (ArrayDesc((6, 8), dtype),), {"shape": (6, 8)}, device_id="0"
    )
    (found,) = computed(arrays, elementwise.prepare(call), [x[3]], call.outputs)
    assert found.tobytes() == np.broadcast_to(x[3], (6, 8)).tobytes()


def test_attributes_keep_the_digits_of_float64(arrays):
    program = Program(("x",), ("beta",), (("y", "(1 - beta) * x"),))
    call = call_of("MulScalar", (100,))
    x = values((100,))[0]
    launch = elementwise.launch_formula(elementwise.device("0"), program, [*call.inputs, *call.outputs])
    prepared = elementwise.queued(call, lambda *given: [(launch, given, 0)])
    (found,) = computed(arrays, prepared, [x], call.outputs, [0.999])
    np.testing.assert_array_equal(found, np.float32(1 - 0.999) * x)


def adam(size):
    return call_of("AdamUpdate", *[(size,)] * 4)


FLOATS = [0.01, 0.9, 0.999, 1e-8]


def test_updates_change_their_arrays_and_stop_behind_a_failure(arrays):
    call = adam(37)
    prepared = elementwise.prepare(call)
    assert prepared.heeds_failure
    inputs = values(*[(37,)] * 4)
    inplace = dict(call.spec.inplace)
    for number, wanted in ((0, expected(call, inputs, FLOATS)), (3, [inputs[n] for n in inplace.values()])):
        flag = uploaded(arrays, np.array([number]))
        close(computed(arrays, prepared, inputs, call.outputs, FLOATS, extra=[flag], inplace=inplace), wanted)


@pytest.mark.parametrize("count", [2, 5, 60])
def test_a_group_is_one_launch_or_two(arrays, count):
    calls = [adam(size) for size in np.random.default_rng(0).integers(0, 3000, count).tolist()]
    prepared = elementwise.prepare_group(calls)
    assert prepared.heeds_failure
    assert f"{count} calls as {1 if count < 60 else 2} launch" in prepared.note
    inputs = [values(*[desc.shape for desc in call.inputs], seed=n) for n, call in enumerate(calls)]
    floats = [[0.01 * (n + 1), *FLOATS[1:]] for n in range(count)]
    for number in (0, 9):
        given = [uploaded(arrays, x) for own in inputs for x in own]
        changed = [given[4 * n + source] for n in range(count) for source in calls[0].spec.inplace.values()]
        prepared.run(*given, *changed, uploaded(arrays, np.array([number])), *(x for own in floats for x in own))
        for n, call in enumerate(calls):
            found = [downloaded(arrays, array) for array in changed[3 * n : 3 * n + 3]]
            before = [inputs[n][source] for source in call.spec.inplace.values()]
            close(found, before if number else expected(call, inputs[n], floats[n]))


def test_bound_groups_read_their_floats_from_the_table(arrays):
    calls = [call_of("MulScalar", (size,)) for size in (5, 300, 17)]
    prepared = elementwise.prepare_group(calls)
    inputs = [values(call.inputs[0].shape, seed=n)[0] for n, call in enumerate(calls)]
    floats = [2.0, 3.0, 4.0]
    outputs = [call.outputs[0] for call in calls]
    found = computed(arrays, prepared, inputs, outputs, floats)
    close(found, [np.float32(factor) * x for factor, x in zip(floats, inputs, strict=True)])


def test_dtypes_without_a_type_are_refused_with_the_reason():
    call = Call(
        op_spec("Add2"), (ArrayDesc((2,), "complex64"),) * 2, (ArrayDesc((2,), "complex64"),), {}, device_id="0"
    )
    assert elementwise.accepts(call) == "kernels have no type for complex64"
