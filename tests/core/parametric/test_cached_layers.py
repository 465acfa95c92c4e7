"""Cached calls of layers: taken when nothing changed, left as soon as something did."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.initializer as I
import atled.parametric_functions as PF
from atled.parameter import parameter_scope
from atled.parametric import cached_layers

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture
def taken(monkeypatch):
    """The functions called in the short way."""
    names: list[str] = []
    run = cached_layers.CachedLayer.run

    def noted(self, inp):
        names.append(self._function.__name__)
        return run(self, inp)

    monkeypatch.setattr(cached_layers.CachedLayer, "run", noted)
    return names


def image(*shape: int) -> nn.Variable:
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values)


LAYERS = {
    "affine": lambda x: PF.affine(x, 3),
    "embed": lambda x: PF.embed(F.greater_scalar(x, 0), 2, 3),
    "convolution": lambda x: PF.convolution(x, 4, (3, 3), pad=[1, 1], w_init=I.NormalInitializer(), name="c"),
    "depthwise_convolution": lambda x: PF.depthwise_convolution(x, (3, 3), rng=np.random.RandomState(0)),
    "deconvolution": lambda x: PF.deconvolution(x, 4, (2, 2), stride=(2, 2), b_init=I.ConstantInitializer(1)),
    "depthwise_deconvolution": lambda x: PF.depthwise_deconvolution(x, (2, 2), with_bias=False),
    "batch_normalization": lambda x: PF.batch_normalization(x, batch_stat=False),
    "mean_subtraction": lambda x: PF.mean_subtraction(x, update_running_mean=False),
    "prelu": lambda x: PF.prelu(x, shared=False),
    "binary_connect_affine": lambda x: PF.binary_connect_affine(x, 3),
    "binary_weight_convolution": lambda x: PF.binary_weight_convolution(x, 3, (2, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("auto", [False, True])
def test_a_call_made_again_is_cached_and_gives_the_same(name, auto, taken):
    x, make = image(2, 4, 6, 6), LAYERS[name]
    with nn.auto_forward(auto):
        first, second = make(x), make(x)
    assert taken == [name]
    for y in (first, second):
        y.forward()
    np.testing.assert_array_equal(first.d, second.d)
    assert second.parent.inputs[1:] == first.parent.inputs[1:]
    assert second.parent.info.args == first.parent.info.args


def test_other_arguments_are_another_call(taken):
    x = image(2, 4)
    PF.affine(x, 3)
    for wrong in (True, 3.5):
        with pytest.raises(TypeError, match="pass a whole number"):
            PF.affine(x, wrong)
    assert PF.affine(x, [3]).shape == PF.affine(x, (3,)).shape == PF.affine(x, 3.0).shape == (2, 3)
    PF.affine(x, 3, name="other")
    with parameter_scope("inner"):
        PF.affine(x, 3)
    assert PF.affine(x, 3, with_bias=False).parent.inputs[1:] == [nn.get_parameters()["affine/W"]]
    assert taken == []
    assert list(nn.get_parameters()) == [f"{scope}affine/{p}" for scope in ("", "other/", "inner/") for p in "Wb"]


def test_a_name_given_as_an_argument_is_refused_as_ever(taken):
    x = image(2, 3)
    PF.affine(x, n_outmaps=3)
    with pytest.raises(ValueError, match="n_outmaps='n_outmaps'"):
        PF.affine(x, "n_outmaps", 3)
    assert taken == []


def test_another_shape_of_the_input_that_does_not_fit_the_parameters_is_refused(taken):
    PF.affine(image(2, 4), 3)
    with pytest.raises(ValueError, match="stored parameter has shape"):
        PF.affine(image(2, 5), 3)
    assert taken == []


def test_a_list_changed_after_the_call_does_not_change_the_cached_call(taken):
    x, pad = image(1, 2, 4, 4), [1, 1]
    PF.convolution(x, 2, (3, 3), pad=pad)
    pad[0] = 0
    assert PF.convolution(x, 2, (3, 3), pad=pad).shape == (1, 2, 2, 4)
    assert PF.convolution(x, 2, (3, 3), pad=[1, 1]).shape == (1, 2, 4, 4)
    assert taken == ["convolution"]


def test_arrays_of_other_sizes_are_another_call(taken):
    x = image(1, 2, 4, 4)
    shapes = [PF.convolution(x, 2, (3, 3), pad=np.array([size, 0])).shape for size in (0, 1, 1)]
    assert shapes == [(1, 2, 2, 2), (1, 2, 4, 2), (1, 2, 4, 2)]
    PF.affine(x, np.array([2, 3]))
    with pytest.raises(ValueError, match="stored parameter has shape"):
        PF.affine(x, np.array([3, 2]))
    assert taken == ["convolution"]


def test_an_array_of_first_values_is_not_compared(taken):
    x = image(2, 4)
    ys = [PF.affine(x, 3, w_init=np.full((4, 3), value)) for value in (1.0, 2.0)]
    assert ys[0].parent.inputs[1] == ys[1].parent.inputs[1]
    assert taken == ["affine"]


def _replaced(w):
    nn.parameter.set_parameter("affine/W", nn.Variable.from_numpy_array(np.ones((4, 3), np.float32)))
    return lambda y: y.parent.inputs[1] != w


def _popped(w):
    nn.parameter.pop_parameter("affine/W")
    return lambda y: y.parent.inputs[1] != w


def _cleared(w):
    nn.clear_parameters()
    return lambda y: y.parent.inputs[1] != w


def _frozen(w):
    w.need_grad = False
    return lambda y: y.parent.inputs[1].need_grad


@pytest.mark.parametrize("change", [_replaced, _popped, _cleared, _frozen])
def test_what_changes_a_parameter_is_seen(change, taken):
    x = image(2, 4)
    w = PF.affine(x, 3).parent.inputs[1]
    is_seen = change(w)
    assert is_seen(PF.affine(x, 3))
    assert taken == []


def test_a_parameter_of_another_shape_is_refused():
    x = image(2, 4)
    w = PF.affine(x, 3).parent.inputs[1]
    w.reset_shape((4, 5), force=True)
    with pytest.raises(ValueError, match="stored parameter has shape"):
        PF.affine(x, 3)


def test_parameters_taken_out_after_an_error_are_not_cached(taken):
    x = image(2, 4)

    @PF.parametric_function_api("outer")
    def fails(inp):
        PF.affine(inp, 3)
        raise KeyError("x")

    for _ in range(2):
        with pytest.raises(KeyError):
            fails(x)
    assert taken == [] and not nn.get_parameters()


def test_parameters_with_the_other_need_grad_are_made_again_each_time(taken):
    x = image(2, 4)
    PF.affine(x, 3)
    first, second = (PF.affine(x, 3, fix_parameters=True).parent.inputs[1] for _ in range(2))
    assert taken == [] and not first.need_grad and first is not second
    assert nn.get_parameters()["affine/W"].need_grad


def test_new_parameters_leave_cached_calls_valid(taken):
    x = image(2, 4)
    PF.affine(x, 3, name="a")
    PF.affine(x, 3, name="b")
    PF.affine(x, 3, name="a")
    assert taken == ["affine"]


def test_removed_parameters_are_not_kept_alive():
    x = image(2, 4)
    reference = weakref.ref(PF.affine(x, 3).parent.inputs[1])
    nn.clear_parameters()
    gc.collect()
    assert reference() is None


def test_a_cached_call_keeps_the_context_of_the_call(taken):
    x = image(2, 4)
    PF.affine(x, 3)
    assert PF.affine(x, 3, using="reference").parent.context.backend == ["reference:float"]
    assert PF.affine(x, 3).parent.context == nn.get_current_context()
    assert taken == ["affine", "affine"]
