"""Layers with parameters: names, shapes, first values, results, and refused calls that leave nothing behind."""

import inspect
import math

import numpy as np
import pytest

from atled import NdArray, Variable
from atled import functions as F
from atled import parametric_functions as PF
from atled.initializer import ConstantInitializer, NormalInitializer
from atled.parameter import get_parameter, get_parameter_or_create, get_parameters, parameter_scope

pytestmark = pytest.mark.usefixtures("no_parameters")


def variable(*shape, need_grad=None):
    return leaf(np.random.RandomState(sum(shape)).randn(*shape), need_grad)


def leaf(values, need_grad=None):
    x = Variable(np.shape(values), need_grad=need_grad)
    x.d = values
    return x


def shapes(grad_only=False):
    return {key: param.shape for key, param in get_parameters(grad_only=grad_only).items()}


# The signatures are NNabla's.

SIGNATURES = {
    "affine": "(inp, n_outmaps, base_axis=1, w_init=None, b_init=None, fix_parameters=False, rng=None, with_bias=True, "
    "name=None)",
    "convolution": "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, b_init=None, "
    "base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None)",
    "batch_normalization": "(inp, axes=[1], decay_rate=0.9, eps=1e-05, batch_stat=True, output_stat=False, "
    "fix_parameters=False, name=None)",
    "embed": "(inp, n_inputs, n_features, fix_parameters=False, name=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signature_is_nnablas(name):
    function = getattr(PF, name)
    signature = inspect.signature(function)
    # `using` is atled's own; `channel_last` came later, in front of others, and is by keyword here.
    nnablas = [p for p in signature.parameters.values() if p.name not in ("using", "channel_last")]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in nnablas]
    assert str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)) == SIGNATURES[name]
    assert inspect.getfullargspec(function).args[-1] == "name"
    assert function.__name__ == name and function.__module__ == PF.__name__
    assert "Args:" in function.__doc__ and "name: scope above" in function.__doc__


# The decorator.


def test_a_function_of_ones_own_keeps_its_parameters_in_its_scope():
    @PF.parametric_function_api("scale")
    def scale(inp, start=1.0, *, need_grad=True):
        """Scaled."""
        return inp * get_parameter_or_create("s", inp.shape, ConstantInitializer(start), need_grad)

    x = leaf([1.0, 2.0])
    assert str(inspect.signature(scale)) == (
        "(inp, start=1.0, name: 'str | None' = None, *, need_grad=True, using: 'Using | None' = None)"
    )
    assert scale.__doc__ == "Scaled." and scale.__name__ == "scale"
    scale(x)
    scale(x, 2.0, "a")
    scale(x, start=3.0, name="b/c")
    with parameter_scope("d"):
        y = scale(x, 4.0, need_grad=False)
    y.forward()
    np.testing.assert_array_equal(y.d, [4, 8])
    found = get_parameters(grad_only=False)
    assert [(key, param.d[0]) for key, param in found.items()] == [
        ("scale/s", 1),
        ("a/scale/s", 2),
        ("b/c/scale/s", 3),
        ("d/scale/s", 4),
    ]
    assert y.parent.inputs[1] is found["d/scale/s"]


def test_without_a_scope_name_there_is_none():
    @PF.parametric_function_api()
    def layer():
        return get_parameter_or_create("w", (1,))

    assert layer() is get_parameter("w")
    assert layer(name="n") is get_parameter("n/w")
    assert layer("p") is get_parameter("p/w")


def test_name_is_a_keyword_after_any_positional_arguments():
    @PF.parametric_function_api("many")
    def layer(*inputs, **options):
        get_parameter_or_create("w", (1,))
        return inputs, options

    assert str(inspect.signature(layer)) == (
        "(*inputs, name: 'str | None' = None, using: 'Using | None' = None, **options)"
    )
    assert layer(1, 2, 3, name="n", extra=4) == ((1, 2, 3), {"extra": 4})
    assert list(get_parameters()) == ["n/many/w"]


def test_wrong_arguments_are_a_type_error_as_ever():
    with pytest.raises(TypeError, match="affine"):
        PF.affine()
    with pytest.raises(TypeError, match=r"multiple values|positional"):
        PF.embed(leaf([0]), 2, 3, False, "a", name="b")
    with pytest.raises(TypeError, match="positional"):
        PF.embed(leaf([0]), 2, 3, False, "a", "b")
    with pytest.raises(TypeError, match="pass the name as text"):
        PF.embed(leaf([0]), 2, 3, name=3)
    assert shapes() == {}


def test_a_function_with_a_name_of_its_own_is_refused():
    with pytest.raises(TypeError, match=r"argument `name` already[\s\S]*rename"):
        PF.parametric_function_api("x")(lambda inp, name: None)


@pytest.mark.parametrize("doc", [None, "Scales.\n\n        By one factor.\n        "])
def test_descriptions_of_parameters_stand_at_the_end_of_the_docstring(doc):
    def scale(inp):
        return inp * get_parameter_or_create("s", (1, inp.shape[1]))

    scale.__doc__ = doc
    described = [("s", "the factor", "(1, C)", True), ("unused", "nothing", "()", False)]
    layer = PF.parametric_function_api("scale", described)(scale)
    told = "Parameters:\n    s: (1, C); the factor; need_grad=True\n    unused: (); nothing; need_grad=False"
    assert layer.__doc__ == (told if doc is None else f"Scales.\n\nBy one factor.\n\n{told}")
    assert layer(leaf(np.ones((2, 3)))).shape == (2, 3)
    assert shapes() == {"scale/s": (1, 3)}


@pytest.mark.parametrize("described", [[("W", "weight")], [3], 3])
def test_descriptions_of_another_form_are_refused(described):
    with pytest.raises(TypeError, match=r"param_desc=.*[\s\S]*give a list of \(name, what it is"):
        PF.parametric_function_api("x", described)


def test_parameters_of_a_call_that_fails_are_taken_out_again():
    @PF.parametric_function_api("layer")
    def layer(inp):
        get_parameter_or_create("w", (1,))
        PF.affine(inp, 3)
        raise KeyError("x")

    with pytest.raises(KeyError):
        layer(variable(2, 3))
    assert shapes() == {}


# affine.


def test_affine():
    x = variable(3, 2, 4)
    y = PF.affine(x, 5, name="fc")
    assert shapes() == {"fc/affine/W": (8, 5), "fc/affine/b": (5,)}
    w, b = get_parameter("fc/affine/W"), get_parameter("fc/affine/b")
    b.d = np.arange(5)
    y.forward()
    np.testing.assert_allclose(y.d, x.d.reshape(3, 8) @ w.d + b.d, rtol=1e-5)


def test_affine_with_several_output_axes_and_a_later_base_axis():
    y = PF.affine(variable(3, 2, 4), (5, 6), base_axis=2, with_bias=False)
    assert y.shape == (3, 2, 5, 6)
    assert shapes() == {"affine/W": (4, 5, 6)}
    assert PF.affine(variable(3, 2, 4), np.array([5, 6]), base_axis=-1, with_bias=False).shape == (3, 2, 5, 6)


def test_affine_starts_with_glorots_limits_from_rng():
    PF.affine(variable(3, 2, 4), (5, 6), rng=np.random.RandomState(1))
    limit = math.sqrt(6 / (8 + 30))
    expected = np.random.RandomState(1).uniform(-limit, limit, size=(8, 5, 6)).astype(np.float32)
    np.testing.assert_array_equal(get_parameter("affine/W").d, expected)
    np.testing.assert_array_equal(get_parameter("affine/b").d, np.zeros((5, 6)))


def test_affine_takes_first_values():
    PF.affine(variable(3, 2), 4, w_init=np.ones((2, 4)), b_init=ConstantInitializer(3))
    np.testing.assert_array_equal(get_parameter("affine/W").d, np.ones((2, 4)))
    np.testing.assert_array_equal(get_parameter("affine/b").d, [3, 3, 3, 3])


def test_a_second_call_shares_the_parameters():
    x = variable(3, 2)
    first, second = PF.affine(x, 4), PF.affine(x, 4)
    assert len(shapes()) == 2
    assert first.parent.inputs[1] is second.parent.inputs[1] is get_parameter("affine/W")


def test_fixed_parameters_get_no_gradient():
    x = variable(3, 2, need_grad=True)
    y = PF.affine(x, 4, fix_parameters=True)
    assert shapes(grad_only=True) == {} and len(shapes()) == 2
    y.forward()
    y.backward()
    w = get_parameter("affine/W")
    np.testing.assert_allclose(x.g, np.tile(w.d.sum(axis=1), (3, 1)), rtol=1e-5)
    np.testing.assert_array_equal(w.g, np.zeros((2, 4)))


def test_fixing_later_shares_the_values():
    x = variable(3, 2)
    PF.affine(x, 4)
    fixed = PF.affine(x, 4, fix_parameters=True)
    stored = get_parameter("affine/W")
    used = fixed.parent.inputs[1]
    assert used is not stored and not used.need_grad and stored.need_grad
    stored.d = 1
    fixed.forward()
    np.testing.assert_allclose(fixed.d[:, 0], x.d.sum(axis=1), rtol=1e-5)


# convolution.


def test_convolution():
    x = variable(2, 4, 7, 6)
    arguments = {"pad": (1, 0), "stride": (2, 1), "dilation": (1, 2), "group": 2}
    y = PF.convolution(x, 6, (3, 2), **arguments, name="c", b_init=ConstantInitializer(2))
    assert shapes() == {"c/conv/W": (6, 2, 3, 2), "c/conv/b": (6,)}
    z = F.convolution(x, get_parameter("c/conv/W"), get_parameter("c/conv/b"), **arguments)
    y.forward()
    z.forward()
    np.testing.assert_array_equal(y.d, z.d)


def test_convolution_starts_with_glorots_limits_for_all_channels():
    PF.convolution(variable(2, 4, 7), 6, [3], group=2, rng=np.random.RandomState(1))
    limit = math.sqrt(6 / (3 * 4 + 6))
    expected = np.random.RandomState(1).uniform(-limit, limit, size=(6, 2, 3)).astype(np.float32)
    np.testing.assert_array_equal(get_parameter("conv/W").d, expected)


def test_convolution_with_a_later_base_axis_and_no_bias():
    y = PF.convolution(variable(2, 3, 4, 7), 6, (3,), base_axis=2, with_bias=False)
    assert y.shape == (2, 3, 6, 5)
    assert shapes() == {"conv/W": (6, 4, 3)}


# batch_normalization.


def test_batch_normalization_in_training():
    x = variable(4, 3, 2, 2)
    y = PF.batch_normalization(x, name="b")
    assert shapes() == {f"b/bn/{key}": (1, 3, 1, 1) for key in ("beta", "gamma", "mean", "var")}
    assert list(shapes(grad_only=True)) == ["b/bn/beta", "b/bn/gamma"]
    assert [get_parameter(f"b/bn/{key}").d.ravel()[0] for key in ("beta", "gamma", "mean", "var")] == [0, 1, 0, 0]
    y.forward()
    y.forward()
    m = x.d.mean(axis=(0, 2, 3), keepdims=True)
    v = x.d.var(axis=(0, 2, 3), keepdims=True)
    np.testing.assert_allclose(y.d, (x.d - m) / np.sqrt(v + 1e-5), rtol=1e-4, atol=1e-5)
    # Two forwards move the running statistics twice, by the unbiased variance.
    np.testing.assert_allclose(get_parameter("b/bn/mean").d, 0.19 * m, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(get_parameter("b/bn/var").d, 0.19 * v * 16 / 15, rtol=1e-4)


def test_batch_normalization_in_use_reads_the_running_statistics():
    x = variable(4, 3)
    PF.batch_normalization(x)
    get_parameter("bn/mean").d = 2
    get_parameter("bn/var").d = 4
    y = PF.batch_normalization(x, batch_stat=False)
    y.forward()
    np.testing.assert_allclose(y.d, (x.d - 2) / 2, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(get_parameter("bn/mean").d, [[2, 2, 2]])


def test_batch_normalization_gives_the_statistics_on_request():
    x = variable(4, 3)
    y, mean, variance = PF.batch_normalization(x, output_stat=True)
    y.forward()
    assert mean.shape == variance.shape == (1, 3)
    np.testing.assert_allclose(mean.d, x.d.mean(axis=0, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance.d, x.d.var(axis=0, keepdims=True), rtol=1e-4)


def test_batch_normalization_along_another_axis():
    PF.batch_normalization(variable(4, 3, 2), axes=[-1])
    assert shapes()["bn/beta"] == (1, 1, 2)


def test_fixed_batch_normalization_has_nothing_to_train():
    PF.batch_normalization(variable(4, 3), fix_parameters=True)
    assert shapes(grad_only=True) == {} and len(shapes()) == 4


# embed.


def test_embed():
    x = leaf([[0, 2], [1, 2]])
    y = PF.embed(x, 3, 4)
    assert shapes() == {"embed/W": (3, 4)}
    w = get_parameter("embed/W")
    y.forward()
    np.testing.assert_array_equal(y.d, w.d[[[0, 2], [1, 2]]])
    w.grad.zero()
    y.backward()
    np.testing.assert_array_equal(w.g, np.repeat([[1], [1], [2]], 4, axis=1))


def test_embed_starts_uniform_with_deviation_1():
    state = np.random.get_state()
    try:
        np.random.seed(3)
        PF.embed(leaf([0]), 200, 50)
    finally:
        np.random.set_state(state)
    limit = math.sqrt(3)
    expected = np.random.RandomState(3).uniform(-limit, limit, size=(200, 50)).astype(np.float32)
    np.testing.assert_array_equal(get_parameter("embed/W").d, expected)


# All of them.


def test_a_small_network_learns():
    rng = np.random.RandomState(0)
    images = rng.randn(16, 1, 6, 6).astype(np.float32)
    labels = (images.mean(axis=(1, 2, 3), keepdims=True) > 0).reshape(16, 1)
    x, t = leaf(images), leaf(labels)
    h = F.relu(PF.batch_normalization(PF.convolution(x, 4, (3, 3), rng=rng, name="c1"), name="c1"))
    loss = F.mean(F.softmax_cross_entropy(PF.affine(h, 2, rng=rng, name="fc"), t))
    losses = []
    for _ in range(30):
        loss.forward()
        for param in get_parameters().values():
            param.grad.zero()
        loss.backward()
        for param in get_parameters().values():
            param.d -= 0.5 * param.g
        losses.append(float(loss.d))
    assert losses[-1] < 0.1 * losses[0]
    assert list(get_parameters()) == [
        "c1/conv/W",
        "c1/conv/b",
        "c1/bn/beta",
        "c1/bn/gamma",
        "fc/affine/W",
        "fc/affine/b",
    ]


def test_an_ndarray_computes_at_once():
    x = NdArray.from_numpy_array(np.ones((2, 3, 4), np.float32))
    results = [
        PF.affine(x, 5, w_init=ConstantInitializer(1)),
        PF.convolution(x, 5, (2,), w_init=ConstantInitializer(1)),
        PF.batch_normalization(x),
        PF.embed(x, 2, 3),
    ]
    assert all(isinstance(y, NdArray) for y in results)
    assert results[0].data[0, 0] == 12 and results[1].data[0, 0, 0] == 6 and results[2].data[0, 0, 0] == 0
    np.testing.assert_array_equal(results[3].data[0, 0, 0], get_parameter("embed/W").d[1])


image = (2, 4, 6, 6)
REFUSED = [
    (TypeError, r"input inp: got ndarray", lambda: PF.affine(np.zeros((2, 3)), 3)),
    (ValueError, r"affine\(inp: \[2, 3\], n_outmaps=0, base_axis=1\): n_outmaps\[0\] is 0", lambda: af(0)),
    (ValueError, r"n_outmaps\[1\] is -1", lambda: af((2, -1))),
    (ValueError, r"n_outmaps is empty", lambda: af(())),
    (TypeError, r"n_outmaps\[0\] is 2\.5 \(it has a fraction\)", lambda: af(2.5)),
    (TypeError, r"n_outmaps\[0\] is True \(a bool is not a whole number", lambda: af(True)),
    (TypeError, r"n_outmaps\[0\] is None \(", lambda: af(None)),
    (TypeError, r"n_outmaps is of type str", lambda: af("12")),
    (ValueError, r"base_axis is 2, which is out of range", lambda: af(3, base_axis=2)),
    (ValueError, r"base_axis is -3", lambda: af(3, base_axis=-3)),
    (TypeError, r"base_axis is inf \(it is not finite\)", lambda: af(3, base_axis=float("inf"))),
    (ValueError, r"base_axis is 0", lambda: PF.affine(variable(), 3, base_axis=0)),
    (ValueError, r"initializer is an array of shape \(3, 2\)", lambda: af(3, w_init=np.zeros((3, 2)))),
    (ValueError, r"initializer is an array of shape \(2,\)", lambda: af(3, b_init=np.zeros(2))),
    (TypeError, r"initializer is of type int", lambda: af(3, b_init=1)),
    (ValueError, r"outmaps is 0", lambda: conv(0, (3, 3))),
    (TypeError, r"outmaps is \(4,\) \(", lambda: conv((4,), (3, 3))),
    (ValueError, r"kernel has 1 sizes for 2 spatial axes", lambda: conv(4, (3,))),
    (ValueError, r"kernel has 2 sizes for 1 spatial axes", lambda: conv(4, (3, 3), base_axis=2)),
    (ValueError, r"kernel\[1\] is 0", lambda: conv(4, (3, 0))),
    (TypeError, r"kernel is of type int", lambda: conv(4, 3)),
    (ValueError, r"no spatial axis", lambda: PF.convolution(variable(2, 3), 4, ())),
    (ValueError, r"no spatial axis", lambda: conv(4, (), base_axis=-1)),
    (ValueError, r"base_axis is 4", lambda: conv(4, (3, 3), base_axis=4)),
    (ValueError, r"group is 0", lambda: conv(4, (3, 3), group=0)),
    (ValueError, r"group=3 does not divide 4 channels", lambda: conv(3, (3, 3), group=3)),
    (ValueError, r"group=2 does not divide 3 output maps", lambda: conv(3, (3, 3), group=2)),
    (ValueError, r"kernel \[7, 7\] .* does not fit", lambda: conv(4, (7, 7))),
    (ValueError, r"pad", lambda: conv(4, (3, 3), pad=(1,))),
    (ValueError, r"stride", lambda: conv(4, (3, 3), stride=(0, 1))),
    (ValueError, r"axes names 2 axes", lambda: PF.batch_normalization(variable(*image), axes=[0, 1])),
    (ValueError, r"axes is 4", lambda: PF.batch_normalization(variable(*image), axes=[4])),
    (TypeError, r"axes is '1' \(", lambda: PF.batch_normalization(variable(*image), axes=["1"])),
    (ValueError, r"output_stat", lambda: PF.batch_normalization(variable(*image), batch_stat=False, output_stat=True)),
    (ValueError, r"no elements", lambda: PF.batch_normalization(variable(0, 3))),
    (ValueError, r"n_inputs is 0", lambda: PF.embed(leaf([0]), 0, 3)),
    (TypeError, r"n_features is 3\.5 \(it has a fraction\)", lambda: PF.embed(leaf([0]), 3, 3.5)),
]


def af(n_outmaps, **options):
    return PF.affine(variable(2, 3), n_outmaps, **options)


def conv(outmaps, kernel, **options):
    return PF.convolution(variable(*image), outmaps, kernel, **options)


@pytest.mark.parametrize("error, wrong, call", REFUSED, ids=[entry[1] for entry in REFUSED])
def test_a_wrong_call_is_refused_and_makes_no_parameter(error, wrong, call):
    with pytest.raises(error, match=f"{wrong}[\\s\\S]*What to do"):
        call()
    assert shapes() == {}


def test_another_shape_than_the_stored_ones_is_refused_and_changes_nothing():
    PF.affine(variable(2, 3), 4, name="fc", with_bias=False)
    with pytest.raises(ValueError, match=r"'W', shape=\(5, 4\)\) in scope 'fc/affine'[\s\S]*has shape \(3, 4\)"):
        PF.affine(variable(2, 5), 4, name="fc")
    assert shapes() == {"fc/affine/W": (3, 4)}


def test_wrong_arguments_draw_no_random_numbers():
    rng = np.random.RandomState(0)
    with pytest.raises(ValueError, match="does not divide"):
        PF.convolution(variable(*image), 3, (3, 3), group=2, rng=rng)
    with pytest.raises(ValueError, match="is 0"):
        PF.affine(variable(2, 3), 0, w_init=NormalInitializer(1.0, rng))
    assert rng.uniform() == np.random.RandomState(0).uniform()


def test_a_misspelt_layer_is_told_the_nearest_one():
    with pytest.raises(AttributeError, match=r"functions\.convolutoin: no such layer[\s\S]*did you mean 'convolution'"):
        PF.convolutoin  # noqa: B018  # what is asked is whether it is there


def test_the_axis_of_channels_may_not_be_an_array_of_a_fraction():
    with pytest.raises(TypeError, match=r"axes[\s\S]*What to do"):
        PF.batch_normalization(variable(3, 2, 5), axes=np.array(1.5))
    assert PF.batch_normalization(variable(3, 2, 5), axes=np.array(1)).shape == (3, 2, 5)
