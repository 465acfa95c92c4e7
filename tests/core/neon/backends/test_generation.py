"""What `gen_backend` makes: classes by name and kind, Contexts, and what is refused."""

import subprocess
import sys

import numpy as np
import pytest

import atled as nn
from atled.neon import NervanaObject
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.backends.backend import Backend
from atled.neon.backends.nervanacpu import NervanaCPU
from atled.neon.backends.nervanagpu import NervanaGPU
from atled.neon.backends.nervanamkl import NervanaMKL
from atled_contexts import PluginError, best_context


@pytest.fixture(autouse=True)
def none_left():
    yield
    cleanup_backend()


def test_the_backend_made_is_the_present_one_with_its_batch_size():
    be = gen_backend("cpu", batch_size=7)
    assert NervanaObject.be is be
    assert be.bsz == 7
    be.bsz = 3
    assert NervanaObject.be.bsz == 3


@pytest.mark.parametrize(("name", "made"), [("cpu", NervanaCPU), ("mkl", NervanaMKL), ("nervanacpu", NervanaCPU)])
def test_names_of_the_host_give_the_best_context_there(name, made):
    be = gen_backend(name)
    assert type(be) is made
    assert be.context == best_context("cpu")
    assert be.device_type == 0


@pytest.mark.parametrize("name", ["sim", "reference"])
def test_any_atled_backend_may_be_named(name):
    assert gen_backend(name).context.backend[0] == f"{name}:float"


@pytest.mark.parametrize(
    ("datatype", "config"), [(np.float16, "half"), ("float32", "float"), (np.dtype("f8"), "double")]
)
def test_the_datatype_chooses_the_type_config_and_the_default_dtype(datatype, config):
    be = gen_backend("cpu", datatype=datatype)
    assert be.context.backend[0] == f"cpu:{config}"
    assert be.default_dtype == np.dtype(datatype)


@pytest.mark.parametrize(
    "asked",
    [nn.Context(["sim:half", "cpu:float"]), ["sim:half", "cpu:float"], ("sim:half", "cpu")],
    ids=["context", "list", "tuple"],
)
def test_a_context_and_its_description_are_kept(asked):
    be = gen_backend(asked, datatype=np.float64)
    assert be.context.backend == ["sim:half", "cpu:float"]
    assert be.default_dtype == np.float64
    assert be.device_type == 1
    assert be.backend_name == "sim"


def test_the_device_is_chosen_where_there_are_several():
    assert gen_backend("sim", device_id=1).context.device_id == "1"
    assert gen_backend("sim:half", device_id=1).context.device_id == "1"
    assert gen_backend("reference", device_id=1).context.device_id == "0"
    with pytest.raises(ValueError, match="has a device '7'"):
        gen_backend("sim", device_id=7)


def test_none_is_the_context_in_force():
    with nn.context_scope(nn.Context("sim:half")):
        assert gen_backend(None).context == nn.Context("sim:half")


def test_what_names_no_backend_is_refused():
    with pytest.raises(TypeError, match="not a string or a list"):
        gen_backend(3)


def test_a_context_on_the_host_makes_a_nervanacpu():
    assert type(gen_backend(nn.Context("reference:float"))) is NervanaCPU


def test_arguments_may_be_given_by_all_their_names():
    be = gen_backend(
        backend="cpu",
        rng_seed=3,
        datatype=np.float32,
        batch_size=2,
        stochastic_round=False,
        device_id=0,
        max_devices=1,
        compat_mode="caffe",
    )
    assert be.deterministic
    assert be.check_caffe_compat()


@pytest.mark.parametrize("name", ["deterministic", "deterministic_update"])
def test_deterministic_arguments_only_warn(name, caplog):
    be = gen_backend("cpu", **{name: True})
    assert not be.deterministic
    assert f"{name} has no effect" in caplog.text


def test_an_unknown_name_is_refused_with_what_there_is_and_the_nearest():
    with pytest.raises(
        ValueError, match=r"registered: cpu, gpu, mkl(.|\n)*atled backends: .*sim(.|\n)*'sim'"
    ) as caught:
        gen_backend("simm")
    assert "gen_backend('simm')" in str(caught.value)


def test_an_error_leaves_the_present_backend():
    be = gen_backend("cpu")
    for wrong in ({"backend": "none"}, {"datatype": np.int32}, {"compat_mode": "torch"}, {"batch_size": -1}):
        with pytest.raises(ValueError, match="What to do"):
            gen_backend(**wrong)
    assert NervanaObject.be is be
    assert not be.closed


@pytest.mark.parametrize("datatype", [np.int32, None, "float8", np.complex64])
def test_other_datatypes_are_refused(datatype):
    with pytest.raises(ValueError, match="16, 32 or 64 bits"):
        gen_backend("cpu", datatype=datatype)


@pytest.mark.parametrize("batch_size", [-1, 1.5, "8", None])
def test_other_batch_sizes_are_refused(batch_size):
    with pytest.raises(ValueError, match="count of examples"):
        gen_backend("cpu", batch_size=batch_size)


def test_a_gpu_that_is_not_there_is_told_when_its_backend_is_made(monkeypatch):
    def absent(kind, **options):
        raise PluginError("no usable backend is of that kind\nWhat to do: install one")

    monkeypatch.setattr("atled.neon.backends.contexts.best_context", absent)
    for make in (NervanaGPU, lambda: gen_backend("gpu"), lambda: gen_backend("nervanagpu")):
        with pytest.raises(PluginError, match="install one"):
            make()


def test_the_backend_before_is_cleaned_up():
    first, second = gen_backend("cpu"), gen_backend("cpu")
    assert first.closed
    assert not second.closed
    cleanup_backend()
    assert second.closed
    assert NervanaObject.be is None


def test_what_was_cleaned_up_holds_no_programs_and_no_counts():
    be = gen_backend("cpu")
    x, out = be.ones((3, 3)), be.empty((3, 3))
    be.compound_dot(x, x, out)
    x.hist("x")
    be.cleanup_backend()
    be.cleanup_backend()
    assert not be._kept_calls
    assert be._histograms is None
    for refused in (lambda: be.compound_dot(x, x, out), lambda: out.fill(1), lambda: out.__setitem__(slice(None), x)):
        with pytest.raises(ValueError, match="cleaned up"):
            refused()
    assert (out.get() == 3).all()


def test_bins_of_histograms_are_those_asked_for():
    assert NervanaCPU(hist_bins=8, hist_offset=-4).ones((2, 2)).hist("x").shape == (1, 8)
    with pytest.raises(ValueError, match="one bin"):
        NervanaCPU(hist_bins=0)


def test_a_subclass_with_a_name_is_found_by_it():
    try:

        class Counting(NervanaCPU):
            backend_name = "counting"

            def __init__(self, **arguments):
                super().__init__(**arguments)
                self.count = 0

        be = gen_backend("counting", rng_seed=2, datatype=np.float64)
        assert type(be) is Counting
        assert be.default_dtype == np.float64
        assert "counting" in Backend.backend_choices()
        assert type(Backend.allocate_backend("counting", rng_seed=1, num_devices=1)) is Counting
    finally:
        Backend.backends.pop("counting", None)


def test_a_subclass_without_a_name_does_not_take_its_parents():
    class Silent(NervanaCPU):
        pass

    assert Backend.backends["cpu"] is NervanaCPU


def test_allocating_an_unknown_class_lists_the_names():
    with pytest.raises(ValueError, match="registered: cpu, gpu, mkl"):
        Backend.allocate_backend("cup")
    with pytest.raises(TypeError):
        Backend.allocate_backend("cpu", colour=1)


def test_constructors_take_the_arguments_of_the_documents():
    be = Backend(1, np.float64, "caffe", None)
    assert be.context == nn.get_current_context()
    assert (be.default_dtype, be.compat_mode, be.deterministic) == (np.float64, "caffe", True)
    assert NervanaCPU(1, np.float32, 32, -24, None, None, None, None, None).rng is not None


def test_the_last_backend_is_cleaned_up_at_exit():
    program = """
import atexit
from atled.neon.backends import gen_backend

atexit.register(lambda: print(be.closed))  # what is registered first is called last
be = gen_backend("sim")
x = be.ones((2, 2)) + 1
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert not done.stderr


def test_a_class_that_does_not_call_its_parents_constructor_leaves_the_present_backend():
    be = gen_backend("cpu", batch_size=3)
    try:

        class Forgetful(NervanaCPU):
            backend_name = "forgetful"

            def __init__(self):
                pass

        with pytest.raises(TypeError, match=r"(?s)class Forgetful.*did not call that of Backend.*super\(\).__init__"):
            gen_backend("forgetful")
        assert NervanaObject.be is be and not be.closed
    finally:
        Backend.backends.pop("forgetful", None)


@pytest.mark.parametrize("size", [-1, 1.5, "8", None])
def test_a_backend_keeps_its_batch_size_when_another_is_refused(size):
    be = gen_backend("cpu", batch_size=3)
    with pytest.raises(ValueError, match="count of examples"):
        be.bsz = size
    assert be.bsz == 3
