"""Products of matrices: by cuBLAS and by tiles, with biases and formulas, in every dtype."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_cuda_cupy.kernels import products
from device_calls import downloaded, uploaded

TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3}


@pytest.fixture(params=["cuBLAS", "tiles"])
def way(request, monkeypatch):
    """How all products are computed."""
    monkeypatch.setattr(products, "_SMALL", 0 if request.param == "cuBLAS" else 2**62)
    nn.ext_utils.get_extension_context("cuda")
    return request.param


def random(*shape, dtype="float32"):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("transposes", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_products(compute, way, batch, transposes, dtype):
    a, b = random(*batch, 37, 41, dtype=dtype), random(*batch, 41, 35, dtype=dtype)
    exact = a.astype("float64") @ b.astype("float64")
    given = [
        np.ascontiguousarray(x.swapaxes(-1, -2)) if is_so else x for x, is_so in zip((a, b), transposes, strict=True)
    ]
    attributes = {"transpose_a": transposes[0], "transpose_b": transposes[1]}
    (y,) = compute(products, "prepare", "BatchMatmul", given, **attributes)
    np.testing.assert_allclose(y, exact, rtol=0, atol=TOLERANCE[dtype] * np.abs(exact).max())


VIEWS = {
    "cut": (lambda rows, columns: (rows + 2, columns + 5), lambda x: x[1:-1, 2:-3]),
    "turned": (lambda rows, columns: (columns + 3, rows + 2), lambda x: x[1:-2, 1:-1].T),
    "whole": (lambda rows, columns: (rows, columns), lambda x: x),
}


@pytest.mark.parametrize(
    "kinds",
    [("cut", "turned", "cut"), ("turned", "cut", "cut"), ("whole", "turned", "whole"), ("turned", "whole", "cut")],
)
def test_products_of_views(arrays, way, kinds):
    if way == "tiles":
        kinds = (*kinds[:2], "whole")
    sizes = (37, 41), (41, 35), (37, 35)
    bases = [random(*VIEWS[kind][0](*size)) for kind, size in zip(kinds, sizes, strict=True)]
    views = [VIEWS[kind][1](base) for kind, base in zip(kinds, bases, strict=True)]
    descs = [ArrayDesc(view.shape, view.dtype, tuple(step // 4 for step in view.strides)) for view in views]
    attributes = {"transpose_a": False, "transpose_b": False}
    call = Call(op_spec("BatchMatmul"), tuple(descs[:2]), (descs[2],), attributes, device_id="0")
    assert products.accepts(call) is True, products.accepts(call)
    prepared = products.prepare(call)
    there = [uploaded(arrays, base) for base in bases]
    starts = [(view.ctypes.data - base.ctypes.data) // 4 for view, base in zip(views, bases, strict=True)]
    windows = [arrays.window(*given) for given in zip(there, descs, starts, strict=True)]
    workspace = [arrays.allocate(ArrayDesc((prepared.workspace,), "uint8"), "0")] if prepared.workspace else []
    prepared.run(*windows, *workspace)
    views[2][...] = views[0] @ views[1]
    np.testing.assert_allclose(downloaded(arrays, there[2]), bases[2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("has_bias", [False, True])
def test_affine(compute, way, has_bias, dtype):
    x, w, b = random(7, 5, 6, dtype=dtype), random(30, 9, dtype=dtype), random(9, dtype=dtype)
    exact = x.reshape(7, 30).astype("float64") @ w.astype("float64") + (b if has_bias else 0)
    (y,) = compute(products, "prepare", "Affine", (x, w, b if has_bias else None))
    np.testing.assert_allclose(y, exact, rtol=0, atol=TOLERANCE[dtype] * np.abs(exact).max())


def test_sums_of_nothing_are_zero(compute, way):
    (y,) = compute(products, "prepare", "BatchMatmul", (random(3, 0), random(0, 4)))
    assert (y == 0).all()
    (y,) = compute(products, "prepare", "Affine", (random(0, 4), random(4, 5), random(5)))
    assert y.shape == (0, 5)


def test_tf32_rounds_factors_where_cublas_computes_and_float_does_not(compute, monkeypatch, emulated):
    monkeypatch.setattr(products, "_SMALL", 0)
    a, b = random(16, 16), random(16, 16)
    exact = a.astype("float64") @ b.astype("float64")
    errors = {}
    for type_config in ("float", "tf32"):
        (y,) = compute(products, "prepare", "BatchMatmul", (a, b), type_config)
        errors[type_config] = np.abs(y - exact).max()
    assert errors["float"] < 1e-5 < errors["tf32"] < 1e-2


@pytest.mark.parametrize("keeps", [False, True])
def test_formulas_behind_a_product(cuda, way, keeps):
    # Of a size of its own for each way, since what was prepared is kept.
    rows = 20 + 2 * (way == "tiles") + keeps
    x, w, b = (nn.Variable.from_numpy_array(random(*shape)) for shape in ((rows, 8), (8, 6), (6,)))
    with nn.context_scope(cuda):
        y = F.affine(x, w, b)
        z = F.tanh(y)
        if not keeps:
            del y
        z.forward()
    assert "Affine+Tanh" in str(z.plan) and (way in str(z.plan))
    exact = x.d @ w.d + b.d
    np.testing.assert_allclose(z.d, np.tanh(exact), rtol=1e-4, atol=1e-5)
    if keeps:
        np.testing.assert_allclose(y.d, exact, rtol=1e-4, atol=1e-5)


def test_a_program_of_products_follows_its_inputs(cuda, monkeypatch):
    monkeypatch.setattr(products, "_SMALL", 0)
    x, w = nn.Variable((31, 8)), nn.Variable.from_numpy_array(random(8, 8))
    with nn.context_scope(cuda):
        y = F.affine(F.affine(x, w), w)
        for n in range(4):
            x.d = random(31, 8) + n
            y.forward()
            np.testing.assert_allclose(y.d, x.d @ w.d @ w.d, rtol=1e-4, atol=1e-4)
    assert "device program of 2" in str(y.plan)


def test_threads_have_handles_of_their_own(compute, monkeypatch):
    monkeypatch.setattr(products, "_SMALL", 0)
    a, b = random(33, 9), random(9, 5)
    found = []

    def work():
        found.append(compute(products, "prepare", "BatchMatmul", (a, b))[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for y in found:
        np.testing.assert_allclose(y, a @ b, rtol=1e-5, atol=1e-5)


def test_what_cublas_finds_wrong_is_an_error_with_its_status(compute, monkeypatch, emulated):
    monkeypatch.setattr(products, "_SMALL", 0)
    with emulated.fault("gemm"), pytest.raises(RuntimeError, match="cublasGemmEx failed with status 13"):
        compute(products, "prepare", "BatchMatmul", (random(4, 4), random(4, 4)))


def test_a_handle_is_destroyed_on_its_device_unless_that_is_lost(where, monkeypatch, emulated):
    from atled_cuda_cupy import cublas, devices
    from atled_cuda_cupy import cupy_names as cp

    gone = []
    monkeypatch.setattr(cublas._library(), "cublasDestroy_v2", lambda _: gone.append(cp.runtime.getDevice()))
    last = devices.device_ids()[-1]
    with devices.device(last) as other:
        handle = cublas._Handle(other)
    del handle
    assert gone == [int(last)]
    with where:
        handle = cublas._Handle(where)
    monkeypatch.setattr(where.loss, "refusal", RuntimeError)
    del handle
    assert gone == [int(last)]
