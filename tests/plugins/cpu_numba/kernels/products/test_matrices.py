"""Products of views and into views, against NumPy in float64."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled_contexts import Context
from atled_cpu_numba.kernels.products import matmul
from atled_cpu_numba.kernels.products.matrices import Matrix, matrix

SIZES = [(1, 70, 33), (5, 3, 2), (9, 400, 17), (70, 30, 1), (4, 33, 17), (100, 770, 50)]
KINDS = ["cut", "turned", "every other", "backwards", "same"]


def view(kind, shape, random):
    """A float32 view of this shape and what it is a view of, whose other elements must stay."""
    *items, rows, columns = shape
    if kind == "turned":
        base = random.standard_normal((*items, columns + 3, rows + 2), "f")
        return base, base[..., 1:-2, 1:-1].swapaxes(-1, -2)
    if kind == "every other":
        base = random.standard_normal((*items, rows, 2 * columns), "f")
        return base, base[..., ::2]
    if kind == "backwards":
        base = random.standard_normal((*items, 2 * rows, columns), "f")
        return base, base[..., ::-2, :]
    if kind == "same":
        base = random.standard_normal((rows, columns), "f")
        return base, np.broadcast_to(base, shape)
    base = random.standard_normal((*items, rows + 2, columns + 5), "f")
    return base, base[..., 1:-1, 2:-3]


@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_products_of_views_into_views(run_in_place, parts, m, k, n, number):
    random = np.random.default_rng(m + k + n + number)
    of_y = ("cut", "turned", "backwards")[(number + m) % 3]
    of_a, of_b = KINDS[number], KINDS[(number + k) % len(KINDS)]
    batch = 1 if m * n > 5000 else 3
    (_, a), (_, b), (base, y) = (
        view(kind, (batch, *size), random) for kind, size in ((of_a, (m, k)), (of_b, (k, n)), (of_y, (m, n)))
    )
    before = base.copy()
    assert run_in_place(matmul, "BatchMatmul", [a, b], [y], parts, transpose_a=False, transpose_b=False) == 0
    scale = np.abs(a) @ np.abs(b) + 1
    np.testing.assert_array_less(np.abs(y - a.astype("d") @ b), 3e-6 * scale)
    y[...] = 0
    before_y = np.lib.stride_tricks.as_strided(before[..., 0:], before.shape, before.strides)
    untouched = base != 0
    np.testing.assert_array_equal(base[untouched], before_y[untouched])


def test_an_affine_map_takes_views(run_in_place):
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 3, 4, 5), "f")[:, :, ::-1, ::-1]
    w = random.standard_normal((3, 7, 20), "f").transpose(2, 0, 1)
    b = random.standard_normal((3, 7), "f")
    y = np.zeros((3, 6, 3, 7), "f")[:, ::2]
    assert run_in_place(matmul, "Affine", [x, w, b], [y], base_axis=2) == 0
    np.testing.assert_allclose(y, np.tensordot(x.reshape(3, 3, 20), w, 1) + b, rtol=1e-4, atol=1e-4)


def test_axes_without_a_common_stride_are_refused(make_call):
    x, w = np.zeros((4, 6, 8), "f")[:, ::2], np.zeros((24, 5), "f")
    call = make_call("Affine", [x, w, None], [np.zeros((4, 5), "f")], base_axis=1)
    assert "one stride for each axis" in matmul.accepts(call)
    plain, bias = np.zeros((4, 24), "f"), np.zeros(5, "f")
    call = make_call("Affine", [plain, w, bias], [np.zeros((5, 4), "f").T], base_axis=1)
    assert "columns without a bias" in matmul.accepts(call)
    assert matmul.accepts(make_call("Affine", [plain, w, None], [np.zeros((5, 4), "f").T], base_axis=1)) is True


def heads(shape, random, dtype="f"):
    """Matrices of so many heads, which lie within the rows of a batch."""
    batch, count, rows, columns = shape
    return random.standard_normal((batch, rows, count, columns)).astype(dtype).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("m, k, n", [*SIZES, (2, 3, 4), (12, 16, 1), (0, 5, 3)])
@pytest.mark.parametrize("in_heads", ["a", "b", "y", "aby"])
def test_heads_are_read_and_written_where_they_lie(run_in_place, parts, m, k, n, in_heads, dtype):
    random = np.random.default_rng(m + k + n)
    sizes = {"a": (m, k), "b": (k, n), "y": (m, n)}
    a, b, y = (
        heads((2, 3, *size), random, dtype) if name in in_heads else random.standard_normal((2, 3, *size)).astype(dtype)
        for name, size in sizes.items()
    )
    assert run_in_place(matmul, "BatchMatmul", [a, b], [y], parts, transpose_a=False, transpose_b=False) == 0
    scale = 1e-1 * np.abs(a) @ np.abs(b) + 1
    np.testing.assert_array_less(np.abs(y - np.matmul(a.astype("g"), b)), (6e-6 if dtype == "f" else 6e-14) * scale)


@pytest.mark.parametrize("transpose_a, transpose_b", [(True, False), (False, True), (True, True)])
def test_heads_of_transposed_matrices_are_read_where_they_lie(run_in_place, parts, transpose_a, transpose_b):
    random, (m, k, n) = np.random.default_rng(0), (33, 40, 25)
    a = heads((3, 2, k, m) if transpose_a else (3, 2, m, k), random)
    b = heads((3, 2, n, k) if transpose_b else (3, 2, k, n), random)
    y = np.full((3, 2, m, n), np.nan, "f")
    given = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    assert run_in_place(matmul, "BatchMatmul", [a, b], [y], parts, **given) == 0
    a, b = (each.swapaxes(2, 3) if turned else each for each, turned in ((a, transpose_a), (b, transpose_b)))
    np.testing.assert_allclose(y, a.astype("d") @ b, rtol=0, atol=1e-4)


def test_heads_of_several_counts_are_refused(make_call):
    random, y = np.random.default_rng(0), np.zeros((12, 4, 6), "f")
    a, b = heads((3, 4, 4, 5), random), heads((4, 3, 5, 6), random)
    call = make_call("BatchMatmul", [a, b], [y], transpose_a=False, transpose_b=False)
    assert "one stride for each axis" in matmul.accepts(call)


def attended(q, k, v):
    """Without names for what is made on the way: then nobody wants it but the next step."""
    return F.transpose(F.batch_matmul(F.softmax(F.batch_matmul(q, k, transpose_b=True), 3), v), (0, 2, 1, 3))


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_transposes_only_what_it_made(batch):
    variables = [nn.Variable((batch, 5, 4, 16)) for _ in range(3)]
    for number, variable in enumerate(variables):
        variable.d = np.random.default_rng(number).standard_normal(variable.shape).astype("f")
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = attended(*(F.transpose(variable, (0, 2, 1, 3)) for variable in variables))
        y.forward()
    assert [step.name for step in y.plan.steps].count("Transpose") == 1
    q, k, v = (variable.d.astype("d").transpose(0, 2, 1, 3) for variable in variables)
    weights = np.exp(q @ k.swapaxes(2, 3))
    wanted = (weights / weights.sum(3, keepdims=True) @ v).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(y.d, wanted, rtol=0, atol=1e-5)


def test_groups_of_axes_become_one():
    assert matrix(ArrayDesc((2, 3, 4), strides=(24, 8, 2)), 1, 2) == Matrix(2, 3, 4, 24, 8, 2, 2)
    assert matrix(ArrayDesc((2, 3, 4), strides=(24, 8, 2)), 0, 2) == Matrix(1, 6, 4, 24, 8, 2, 1)
    assert matrix(ArrayDesc((2, 3, 4), strides=(30, 8, 2)), 0, 2) is None
    assert matrix(ArrayDesc((2, 1, 4), strides=(4, 7, -1)), 0, 2) == Matrix(1, 2, 4, 8, 4, -1, 1)


def test_items_have_up_to_two_strides():
    assert matrix(ArrayDesc((5, 2, 3, 4), strides=(60, 4, 8, 1)), 2, 3) == Matrix(10, 3, 4, 4, 8, 1, 2, 60)
    assert matrix(ArrayDesc((5, 2, 7, 3, 4), strides=(60, 14, 2, 8, 1)), 3, 4) == Matrix(70, 3, 4, 2, 8, 1, 14, 60)
    assert matrix(ArrayDesc((5, 2, 7, 3, 4), strides=(60, 15, 2, 8, 1)), 3, 4) is None
