"""What no array can be is refused in words before anything is done, and so is what there is no memory for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.arrays.storage import HostStorage, Pool
from atled.errors import OutOfMemoryError
from atled.limits import sizes as limits

VAST = 2**62

TOO_LARGE = {
    "Variable": lambda: nn.Variable((VAST, 4)),
    "NdArray": lambda: nn.NdArray((VAST, 4)),
    "empty, but with vast strides": lambda: nn.NdArray((0, VAST, 4)),
    "reset_shape": lambda: nn.Variable((2,)).reset_shape((VAST, 4), True),
    "parameter": lambda: nn.parameter.get_parameter_or_create("w", (VAST, 4)),
    "beyond floats": lambda: nn.Variable((10**200, 10**200)),
    "axes": lambda: nn.Variable((1,) * 33),
    "constant": lambda: F.constant(shape=(VAST, 4)),
    "rand": lambda: F.rand(shape=(VAST, 4)),
    "randn": lambda: F.randn(shape=(VAST, 4)),
    "randint": lambda: F.randint(shape=(VAST, 4)),
    "broadcast": lambda: F.broadcast(nn.Variable((1, 1)), (VAST, 4)),
    "pad": lambda: F.pad(nn.Variable((2, 3)), (VAST, VAST)),
    "one_hot": lambda: F.one_hot(nn.Variable((2, 1)), (2**63 - 1,)),
    "unpooling": lambda: F.unpooling(nn.Variable((1, 1, 2, 2)), (VAST, 2)),
    "deconvolution": lambda: F.deconvolution(nn.Variable((1, 1, 9)), nn.Variable((1, 1, 1)), stride=(VAST,)),
    "convolution": lambda: F.convolution(nn.Variable((1, 1, 9)), nn.Variable((1, 1, 1)), pad=(VAST,)),
    "affine": lambda: PF.affine(nn.Variable((2, 3)), VAST),
    "svd_affine": lambda: PF.svd_affine(nn.Variable((2, 3)), VAST, 1),
}


@pytest.mark.parametrize("call", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_no_process_can_address_is_refused_in_four_parts(call):
    nn.clear_parameters()
    with pytest.raises(ValueError, match=r"(is the most|above 2147483647)[\s\S]*What to do"):
        call()
    assert not nn.get_parameters(grad_only=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.constant(shape=(2**64,)),
        lambda: F.max_pooling(nn.Variable((1, 1, 4)), (2**64,)),
        lambda: F.shift(nn.Variable((2, 3)), (0, 10**30)),
        lambda: F.top_n_error(nn.Variable((2, 3)), nn.Variable((2, 1)), n=2**63),
        lambda: F.reshape(nn.Variable((0, 3)), (2**63 - 1,) * 100_000),
        lambda: nn.Variable((2,)) + 10**400,
        lambda: PF.affine(nn.Variable((2, 3)), 10**400),
        lambda: PF.convolution(nn.Variable((1, 4, 8, 8)), 2, (10**400, 3)),
        lambda: nn.NdArray((2,)).fill(10**400),
        lambda: nn.NdArray((2,)).fill(10**5000),  # which Python does not write in digits
        lambda: S.Sgd().weight_decay(10**400),
    ],
)
def test_numbers_beyond_the_types_of_the_machine_are_value_errors(call):
    with pytest.raises(ValueError, match=r"too (large|many)[\s\S]*What to do"):
        call()


def test_numbers_that_python_does_not_write_in_digits_are_refused_in_four_parts():
    with pytest.raises(IndexError, match=r"out of range[\s\S]*What to do"):
        nn.Variable((2,))[10**5000]
    with pytest.raises(ValueError, match=r"out of range[\s\S]*What to do"):
        nn.seed(10**5000)


def test_a_call_that_was_made_before_refuses_vast_numbers_as_well():
    x = nn.NdArray((2,))
    F.add_scalar(x, 1)
    with pytest.raises(ValueError, match=r"too large[\s\S]*What to do"):
        F.add_scalar(x, 10**400)


@pytest.mark.parametrize("values", [[1, [2]], [[1, 2], [3]]])
def test_ragged_values_are_refused_in_four_parts(values):
    for assign in (nn.NdArray.from_numpy_array, lambda values: setattr(nn.NdArray((2,)), "data", values)):
        with pytest.raises(ValueError, match=r"makes no array of it[\s\S]*What to do"):
            assign(values)


def test_an_array_of_a_device_that_numpy_refuses_goes_by_dlpack():
    class OfDevice:
        def __array__(self, *_, **__):
            raise TypeError("no implicit copies")

        def __dlpack__(self):
            raise AssertionError

    with pytest.raises(ValueError, match=r"no implicit copies[\s\S]*What to do: NdArray.from_dlpack"):
        nn.NdArray.from_numpy_array(OfDevice())


@pytest.mark.parametrize("name", ["beta1", "beta2"])
@pytest.mark.parametrize("value", [1.0, -0.1, 63, float("nan")])
def test_moving_averages_need_a_factor_below_1(name, value):
    with pytest.raises(ValueError, match=f"{name} < 1"):
        S.Adam(**{name: value})


def test_what_there_is_no_memory_for_says_how_much_there_is():
    x = nn.NdArray((2**57,))
    with pytest.raises(OutOfMemoryError, match=r"no memory for 5.243e\+05 TiB\n.*are available.*\n.*smaller arrays"):
        x.data  # noqa: B018  # makes the values
    y = F.constant(shape=(2**50, 8))
    with pytest.raises(OutOfMemoryError, match=r"no memory for 3.277e\+04 TiB"):
        y.forward()


def test_kept_memory_is_given_back_before_an_allocation_fails(monkeypatch):
    pool = Pool()
    HostStorage(1 << 20, pool)
    assert pool.kept_bytes
    monkeypatch.setattr(limits, "available_bytes", lambda: 0)
    monkeypatch.setattr("atled.arrays.storage.available_bytes", lambda: 0)
    with pytest.raises(OutOfMemoryError, match="0 bytes are available"):
        HostStorage(1 << 30, pool)
    assert pool.kept_bytes == 0
    HostStorage(1 << 10, pool)


def test_memory_that_runs_out_within_a_reference_names_the_call(monkeypatch):
    def give_up(*_, **__):
        raise MemoryError("Unable to allocate 8 EiB")

    monkeypatch.setattr(type(F.relu.spec), "reference", give_up)
    with nn.context_scope(nn.Context(["reference:float"])):
        y = F.relu(nn.Variable((3, 5, 7)))
        with pytest.raises(OutOfMemoryError, match=r"reference ran ReLU.*Unable to allocate 8 EiB[\s\S]*What to do"):
            y.forward()


def test_available_memory_is_below_the_limit_of_the_process():
    # In a process of its own: a limit can be lowered, not raised.
    text = (
        "import resource; from atled.limits.sizes import available_bytes;"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32)); print(available_bytes())"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < 1 << 32


def test_a_storage_that_failed_to_be_made_leaves_no_trace(recwarn):
    with pytest.raises(OutOfMemoryError):
        HostStorage(2**60, Pool())
    broken = HostStorage.__new__(HostStorage)
    del broken
    assert not [w for w in recwarn if "__del__" in str(w.message)]


def test_sums_of_no_rows_are_planned_for_any_length_of_the_others():
    x = nn.Variable((0, 3, 4, 4), need_grad=True)
    b = nn.Variable((3,), need_grad=True)
    y = F.depthwise_convolution(x, nn.Variable((3, 2, 2), need_grad=True), b, pad=(1000, 1000))
    y.forward()
    y.backward()
    assert np.array_equal(b.g, np.zeros(3))


@pytest.mark.parametrize("value", ["1", ("a",), 10**400, None])
def test_a_stopping_criterion_that_is_no_number_is_refused_and_leaves_no_parameters(value):
    nn.clear_parameters()
    with pytest.raises(TypeError, match=r"stopping_criterion is no number[\s\S]*What to do"):
        PF.cpd3_convolution(nn.Variable((2, 4, 6, 6)), 3, (3, 3), 2, stopping_criterion=value)
    assert not nn.get_parameters(grad_only=False)
