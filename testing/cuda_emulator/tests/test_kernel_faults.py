"""Faulty kernels, each of which is caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atled_cuda_emulator import DeviceFault, checked_accesses, compared_orders, thread_order

KERNEL = 'extern "C" __global__ void k(float *x, int n) {{ __shared__ float s[64]; int t = threadIdx.x; {} }}'


def launch(cupy: Any, body: str, x: Any, *arguments: Any, **named: Any) -> None:
    kernel = cupy.RawKernel(KERNEL.format(body), "k")
    kernel((1,), (64,), (x, *(arguments or (np.int32(64),))), **named)


def results(cupy: Any, body: str) -> list[bytes]:
    """What a kernel gives in each order of threads."""
    found = []
    for order in ("forward", "reverse", "random"):
        x = cupy.asarray(np.arange(64, dtype=np.float32))
        with thread_order(order):
            launch(cupy, body, x)
        found.append(x.get().tobytes())
    return found


def test_a_missing_barrier_shows_as_results_that_differ_between_orders(cupy: Any) -> None:
    assert len(set(results(cupy, "s[t] = x[t]; x[t] = s[63 - t];"))) > 1


def test_with_the_barrier_all_orders_agree(cupy: Any) -> None:
    assert len(set(results(cupy, "s[t] = x[t]; __syncthreads(); x[t] = s[63 - t];"))) == 1


def test_kernels_with_and_without_barriers_take_turns(cupy: Any) -> None:
    waiting = "float kept = x[t]; s[t] = kept; __syncthreads(); x[t] = s[63 - t] + kept;"
    with thread_order("reverse"):
        launch(cupy, waiting, cupy.zeros(64, np.float32))
    launch(cupy, "x[t] = t;", cupy.zeros(64, np.float32))  # all threads on one stack, which is free again behind them
    x = cupy.asarray(np.arange(64, dtype=np.float32))
    launch(cupy, waiting, x)
    assert (x.get() == 63).all()


def test_shared_memory_that_nobody_wrote_is_nan(cupy: Any) -> None:
    x = cupy.zeros(64, np.float32)
    launch(cupy, "x[t] = s[t];", x)
    assert np.isnan(x.get()).all()


def test_new_memory_is_nan(cupy: Any) -> None:
    assert np.isnan(cupy.empty(100, np.float32).get()).all()


def test_a_barrier_in_a_branch_is_caught(cupy: Any) -> None:
    with pytest.raises(DeviceFault, match="different barriers"):
        launch(cupy, "if (t < 32) __syncthreads(); else __syncthreads();", cupy.zeros(64, np.float32))


def test_a_barrier_does_not_wait_for_threads_that_have_ended(cupy: Any) -> None:
    x = cupy.zeros(64, np.float32)
    launch(cupy, "if (t >= 3) return; s[t] = t; __syncthreads(); x[t] = s[2 - t];", x)
    assert x.get()[:4].tolist() == [2, 1, 0, 0]


def test_a_shuffle_that_half_of_the_warp_misses_is_caught(cupy: Any) -> None:
    body = "if (t < 16) x[t] = __shfl_down_sync(0xffffffffu, x[t], 1); else __syncthreads();"
    with pytest.raises(DeviceFault, match="deadlock"):
        launch(cupy, body, cupy.zeros(64, np.float32))


def test_a_thread_outside_of_its_own_mask_is_caught(cupy: Any) -> None:
    with pytest.raises(DeviceFault, match="not in the mask"):
        launch(cupy, "x[t] = __shfl_xor_sync(0xffu, x[t], 1, 8);", cupy.zeros(64, np.float32))


def test_a_lane_outside_of_the_mask_gives_nan(cupy: Any) -> None:
    x = cupy.zeros(64, np.float32)
    launch(cupy, "if (t < 8) x[t] = __shfl_sync(0xffu, x[t], 9);", x)
    assert np.isnan(x.get()[:8]).all()


@pytest.mark.parametrize(("body", "side"), [("x[t + 1] = 2;", "behind the end"), ("x[t - 1] = 2;", "before the begin")])
def test_a_write_beside_an_allocation_is_caught(cupy: Any, body: str, side: str) -> None:
    with pytest.raises(DeviceFault, match=side):
        launch(cupy, body, cupy.zeros(64, np.float32))


def test_a_write_behind_dynamic_shared_memory_is_caught(cupy: Any) -> None:
    code = 'extern "C" __global__ void k(int n) { extern __shared__ float s[]; s[n] = 1; }'
    kernel = cupy.RawKernel(code, "k")
    kernel((1,), (1,), (np.int32(15),), shared_mem=64)
    with pytest.raises(DeviceFault, match="dynamic shared memory"):
        kernel((1,), (1,), (np.int32(16),), shared_mem=64)


def test_static_shared_memory_counts_among_the_48_kilobytes(cupy: Any) -> None:
    code = 'extern "C" __global__ void k() { __shared__ int a[256]; extern __shared__ int s[]; a[0] = s[0] = 1; }'
    kernel = cupy.RawKernel(code, "k")
    kernel((1,), (1,), (), shared_mem=47 * 1024)
    with pytest.raises(cupy.cuda.driver.CUDADriverError):
        kernel((1,), (1,), (), shared_mem=48 * 1024)


def test_parameters_of_more_bytes_than_old_drivers_take_are_caught(cupy: Any) -> None:
    code = 'struct Many {{ int at[{}]; }}; extern "C" __global__ void k(Many many) {{ }}'
    cupy.RawModule(code=code.format(1024)).get_function("k")
    with pytest.raises(DeviceFault, match="4100 bytes"):
        cupy.RawModule(code=code.format(1025)).get_function("k")


@pytest.mark.parametrize("arguments", [(64,), (np.int32(64), np.int32(64))], ids=["8 bytes for an int", "one too many"])
def test_arguments_of_a_wrong_size_are_caught(cupy: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(DeviceFault, match=r"for parameters of .*numpy.int32"):
        launch(cupy, "x[t] = n;", cupy.zeros(64, np.float32), *arguments)


def test_a_failed_assertion_is_told_with_its_line(cupy: Any) -> None:
    with pytest.raises(DeviceFault, match=r"assertion failed: n == 0, line 1"):
        launch(cupy, "assert(n == 0);", cupy.zeros(64, np.float32))


def test_the_emulator_works_behind_a_fault(cupy: Any) -> None:
    x = cupy.zeros(64, np.float32)
    with pytest.raises(DeviceFault):
        launch(cupy, "if (t) __syncthreads(); __trap();", x)
    launch(cupy, "__syncthreads(); x[t] = t;", x)
    assert x.get().tolist() == list(range(64))


def test_a_host_pointer_is_caught(cupy: Any) -> None:
    host = np.zeros(64, np.float32)
    with pytest.raises(DeviceFault, match="no memory of a device"):
        launch(cupy, "x[t] = n;", host.ctypes.data, np.int32(1))


def test_memory_that_was_freed_is_caught(cupy: Any) -> None:
    x = cupy.zeros(64, np.float32)
    address = x.data.ptr
    del x
    with pytest.raises(DeviceFault, match="was freed"):
        launch(cupy, "x[t] = n;", address, np.int32(1))


def test_memory_of_another_device_is_caught(cupy: Any) -> None:
    with cupy.cuda.Device(1):
        x = cupy.zeros(64, np.float32)
    with pytest.raises(DeviceFault, match="memory of device 1, not of 0"):
        launch(cupy, "x[t] = n;", x)


def test_a_header_that_nvrtc_lacks_is_refused(cupy: Any) -> None:
    with pytest.raises(cupy.cuda.compiler.CompileException, match="stdio"):
        cupy.RawModule(code="#include <stdio.h>\n" + KERNEL.format("")).get_function("k")


def test_built_in_variables_cannot_be_written(cupy: Any) -> None:
    with pytest.raises(cupy.cuda.compiler.CompileException, match="read-only"):
        launch(cupy, "threadIdx.x = 0;", cupy.zeros(64, np.float32))


def test_a_result_that_depends_on_the_order_of_threads_is_caught(cupy: Any) -> None:
    x = cupy.asarray(np.arange(64, dtype=np.float32))
    with compared_orders(1):
        launch(cupy, "s[t] = x[t]; __syncthreads(); x[t] = s[63 - t];", x)
        assert x.get().tolist() == list(range(63, -1, -1))
        with pytest.raises(DeviceFault, match="in reverse order give something else than forward: is a barrier"):
            launch(cupy, "s[t] = x[t]; x[t] = s[63 - t];", x)


CHECKED = {
    "float v = x[t + 1]; if (v == 5) x[0] = v;": "a read of 4 bytes, 0 bytes behind the end of an allocation of 256",
    "float v = x[t + 70]; if (v == 5) x[0] = v;": "a read of 4 bytes, 24 bytes behind the end",
    "if (!t) x[t + 64 * n] = 1;": "a write of 4 bytes",
    "if (t > 1) x[0] = ((float4 *)(x + t))->y;": "a misaligned access",
    "float own[4]; for (int i = 0; i < 4; i++) own[i] = x[i]; x[t] = own[t % 5];": "an index beyond an array",
    "s[t] = x[t]; x[t] = s[t + n];": "an index beyond an array",
    "x[t] = n * 1000000000;": "an overflow of a product",
    "x[t] = n / (t - 3);": "a division by zero",
    "x[t] = 1 << n;": "a shift by more bits",
}


@pytest.mark.parametrize("body", CHECKED)
def test_an_access_that_only_looks_right_is_caught_where_accesses_are_checked(cupy: Any, body: str) -> None:
    x = cupy.zeros(64, np.float32)
    with checked_accesses(), pytest.raises(DeviceFault, match=CHECKED[body]) as caught:
        launch(cupy, body, x)
    assert "line 0" not in str(caught.value) and ", thread " in str(caught.value)


def test_checked_accesses_let_right_ones_pass(cupy: Any) -> None:
    x = cupy.asarray(np.arange(64, dtype=np.float32))
    body = "float own[2] = {x[t], 1}; s[t] = own[n % 2]; __syncthreads(); x[t] = s[63 - t];"
    with checked_accesses():
        launch(cupy, body, x)
    assert x.get().tolist() == list(range(63, -1, -1))
