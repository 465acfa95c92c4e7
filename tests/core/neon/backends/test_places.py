"""Where calls of a backend are computed: on the host's best backend all of them, with no fallback."""

import json
from pathlib import Path

import numpy as np
import pytest

from atled.neon.backends import Autodiff, cleanup_backend, gen_backend
from atled.neon.backends.backend import OpTreeNode
from atled.neon.transforms import (
    Explin,
    Identity,
    Logistic,
    Normalizer,
    PixelwiseSoftmax,
    Rectlin,
    Rectlinclip,
    Sign,
    Softmax,
    Tanh,
)
from atled_contexts import fallback_counts, reset_fallback_counts

ONE = ["absolute", "fabs", "negative", "sgn", "sqrt", "square", "exp", "exp2", "log", "log2", "safelog", "sig", "sig2"]
ONE += ["tanh", "tanh2", "rint", "finite", "reciprocal"]
TWO = ["add", "subtract", "multiply", "divide", "true_divide", "power", "maximum", "minimum", "equal", "not_equal"]
TWO += ["less", "less_equal", "greater", "greater_equal", "shift"]
REDUCTIONS = ["sum", "max", "min", "mean", "var", "std", "argmax", "argmin"]

ACTIVATIONS = [Explin, Identity, Logistic, Normalizer, lambda: PixelwiseSoftmax(3), Rectlin, Rectlinclip, Sign, Softmax]

SURFACE = json.loads((Path(__file__).parents[4] / "docs" / "neon_surface.json").read_text("utf-8"))["sections"]
OTHERS = {"Backend", "NervanaCPU", "allocate_backend", "backend_choices", "cleanup_backend", "begin", "end", "array"}
OTHERS |= {"empty", "empty_like", "zeros", "zeros_like", "ones", "iobuf", "shared_iobuf_size", "output_dim", "gen_rng"}
OTHERS |= {"conv_layer", "deconv_layer", "pool_layer", "lrn_layer", "check_caffe_compat", "set_caffe_compat", "is_mkl"}
OTHERS |= {"rng_get_state", "rng_set_state", "rng_reset", "distribute_data", "revert_tensor", "convert_data"}
OTHERS |= {"clean_data", "allocate_new_deltas", "allocate_new_outputs", "relu_layer", "batchnorm_layer", "init_mark"}
OTHERS |= {"mergesum_layer", "mergebroadcast_layer", "bibnrnn_layer", "record_mark", "synchronize_mark", "get_time"}
OTHERS |= {"set_hist_buffers"}
"""What computes nothing."""

CALLS = {}
"""A few uses of each call by its name: functions of a backend."""


def use(function):
    """Enter a function under the name of the call that it uses."""
    CALLS[function.__name__] = function
    return function


def uniform(be, *shape):
    return be.array(np.random.RandomState(3).uniform(0.25, 0.75, shape))


def integers(be, *values):
    return be.array(values, dtype=np.int32)


def use_one(name):
    def run(be):
        x, out = uniform(be, 6, 8), be.empty((6, 8))
        out[:] = getattr(be, name)(x)
        getattr(be, name)(x[::2, 1:], out=out[::2, :-1])

    return run


def use_two(name):
    def run(be):
        x, out = uniform(be, 6, 8), be.empty((6, 8))
        out[:] = getattr(be, name)(x, uniform(be, 6, 1))
        getattr(be, name)(x[::2, 1:], 0.5, out=out[::2, :-1])

    return run


def use_reduction(name):
    def run(be):
        x, rows, columns = uniform(be, 6, 8), be.empty((1, 8)), be.empty((6, 1))
        rows[:] = getattr(be, name)(x, axis=0)
        columns[:] = getattr(be, name)(x, axis=1)
        rows[:] = getattr(be, name)(x.T, axis=1).T
        columns[:, :] = getattr(be, name)(x[:, ::2], axis=1)

    return run


CALLS |= {name: use_one(name) for name in ONE}
CALLS |= {name: use_two(name) for name in TWO}
CALLS |= {name: use_reduction(name) for name in REDUCTIONS}


@use
def dot(be):
    x, out = uniform(be, 6, 8), be.empty((6, 6))
    out[:] = be.dot(x, x.T) + 1
    be.dot(x, x.T, out=out.T)
    out[:3] = be.dot(x[:3], x.T)


@use
def take(be):
    x, out = uniform(be, 6, 8), be.empty((3, 8))
    out[:] = be.take(x, integers(be, 0, 5, 1), 0) * 2


@use
def onehot(be):
    be.onehot(integers(be, 0, 2, 1, 1), axis=1, out=be.empty((4, 3)))
    be.onehot(integers(be, 0, 2, 1, 1), axis=0, out=be.empty((3, 4)))


@use
def clip(be):
    be.clip(uniform(be, 6, 8), 0.3, 0.5, out=be.empty((6, 8)))


@use
def binarize(be):
    out = be.empty((6, 8))
    out[:] = be.binarize(uniform(be, 6, 8), stochastic=False)
    be.binarize(uniform(be, 6, 8), out)


@use
def make_binary_mask(be):
    be.make_binary_mask(be.empty((6, 8))[:, ::2])


@use
def fill_normal(be):
    be.fill_normal(be.empty((6, 8)))


@use
def compound_dot(be):
    x, out, sums = uniform(be, 6, 8), be.zeros((6, 6)), be.empty((6, 1))
    be.compound_dot(x, x.T, out, alpha=0.5, beta=1.0, relu=True, bsum=sums)
    be.compound_dot(x[:3], x.T[:, ::2], out[:3, ::2])


@use
def xnor_compound_dot(be):
    signs = be.array(np.sign(np.random.RandomState(1).normal(size=(6, 8))))
    be.xnor_compound_dot(signs, signs.T, be.empty((6, 6)))


@use
def batched_dot(be):
    a, b, c = uniform(be, 5, 4), uniform(be, 3, 4, 6), be.empty((3, 5, 6))
    be.batched_dot(a, b, c)
    be.batched_dot(a.T, c, b, alpha=0.5, beta=1.0)
    be.batched_dot(c, b.T, a)


@use
def add_fc_bias(be):
    be.add_fc_bias(uniform(be, 6, 8), uniform(be, 6, 1))


@use
def update_fc_bias(be):
    be.update_fc_bias(uniform(be, 6, 8), be.empty((6, 1)))


@use
def compound_bprop_lut(be):
    words = be.array([[1, 0, 1, 2]], dtype=np.int32)
    be.compound_bprop_lut(4, words, uniform(be, 3, 4), be.empty((4, 3)), be.zeros((5, 3)), 0)


def columns(tensor, first):
    return [tensor[:, 2 * step : 2 * step + 2] for step in range(first, first + 3)]


@use
def compound_rnn_unroll_fprop(be):
    states, fed = uniform(be, 3, 10), uniform(be, 3, 6)
    lists = columns(states, 0), columns(fed, 0), columns(states, 1)
    be.compound_rnn_unroll_fprop(uniform(be, 3, 3), *lists, uniform(be, 3, 1), 3, 3, 3, Tanh())


@use
def compound_rnn_unroll_bprop(be):
    states, errors = uniform(be, 3, 10), uniform(be, 3, 10)
    lists = columns(errors, 0), columns(errors, 1), columns(states, 1)
    be.compound_rnn_unroll_bprop(uniform(be, 3, 3), *lists, 3, 3, 3, Tanh())


@use
def compound_rnn_unroll_fprop_bibnrnn(be):
    weights, states, fed = uniform(be, 3, 3), [uniform(be, 3, 10) for _ in range(2)], uniform(be, 3, 6)
    forward = weights, columns(states[0], 0), columns(fed, 0), columns(states[0], 1), None
    backward = weights, columns(states[1], 2), columns(fed, 0), columns(states[1], 1), None
    be.compound_rnn_unroll_fprop_bibnrnn(None, None, None, *forward, *backward, 3, 3, 3, Tanh())


@use
def compound_rnn_unroll_bprop_bibnrnn(be):
    weights, states, errors = uniform(be, 3, 3), uniform(be, 3, 10), [uniform(be, 3, 10) for _ in range(2)]
    lists = columns(errors[0], 1), columns(errors[0], 0), columns(errors[1], 1), columns(errors[1], 2)
    about = weights, weights, columns(states, 1), columns(states, 1), 3, 3, 3, Tanh()
    be.compound_rnn_unroll_bprop_bibnrnn(None, None, *lists, *about)


@use
def compound_fprop_bn(be):
    x, (xsum, xvar, gmean, gvar) = uniform(be, 6, 8), (be.zeros((6, 1)) for _ in range(4))
    rest = uniform(be, 6, 1), uniform(be, 6, 1), be.empty((6, 8)), 1e-3, 0.9, True
    be.compound_fprop_bn(x, xsum, xvar, gmean, gvar, *rest)
    be.compound_fprop_bn(x, xsum, xvar, gmean, gvar, *rest, inference=True, relu=True, accumbeta=0.5)


@use
def compound_bprop_bn(be):
    rows = [uniform(be, 6, 1) for _ in range(5)]
    be.compound_bprop_bn(be.empty((6, 8)), *rows[:2], uniform(be, 6, 8), uniform(be, 6, 8), *rows[2:], 1e-3)


@use
def copy_transpose(be):
    be.copy_transpose(uniform(be, 6, 8), be.empty((8, 6)))
    be.copy_transpose(uniform(be, 2, 3, 4), be.empty((4, 2, 3)), axes=(2, 0, 1))


@use
def consume(be):
    be.consume(1, [np.ones((3, 4)), np.ones((3, 4))], [None, None])


@use
def dump_hist_data(be):
    uniform(be, 6, 8).hist("x")
    be.dump_hist_data()


def images(be, layer, *names):
    return [uniform(be, *getattr(layer, f"dim{name}")) for name in names]


@use
def fprop_conv(be):
    layer = be.conv_layer(be.default_dtype, 4, 3, 5, H=6, W=6, R=3, S=3, pad_h=1, pad_w=1)
    x, w, y = images(be, layer, "I", "F", "O")
    be.fprop_conv(layer, x, w, y)
    be.fprop_conv(layer, x, w, y, bias=uniform(be, 5, 1), bsum=be.empty((5, 1)), alpha=0.5, beta=0.5, relu=True)


@use
def bprop_conv(be):
    layer = be.conv_layer(be.default_dtype, 4, 3, 5, H=6, W=6, R=3, S=3, str_h=2, dil_w=2)
    x, w, y = images(be, layer, "I", "F", "O")
    be.bprop_conv(layer, w, y, x)
    be.bprop_conv(layer, w, y, x, X=x, bias=uniform(be, 3, 1), bsum=be.empty((3, 1)), beta=1.0, brelu=True)


@use
def update_conv(be):
    layer = be.conv_layer(be.default_dtype, 4, 3, 5, D=4, H=6, W=6, T=2, R=3, S=3)
    x, w, y = images(be, layer, "I", "F", "O")
    be.update_conv(layer, x, y, w, alpha=0.5, beta=1.0, grad_bias=be.empty((5, 1)))


@use
def fprop_pool(be):
    for op, argmax in (("max", np.uint8), ("avg", None), ("l2", None)):
        layer = be.pool_layer(be.default_dtype, op, 4, 3, H=6, W=6, R=3, S=3, str_h=2, str_w=2)
        x, y = images(be, layer, "I", "O")
        be.fprop_pool(layer, x, y, argmax and be.empty(layer.dimO, argmax), beta=0.5)


@use
def bprop_pool(be):
    for op in ("max", "avg", "l2"):
        layer = be.pool_layer(be.default_dtype, op, 4, 3, H=6, W=6, R=2, S=2)
        x, y = images(be, layer, "I", "O")
        be.bprop_pool(layer, I=x, E=y, grad_I=be.empty(layer.dimI))
    argmax = be.zeros(layer.dimO, np.uint8)
    be.bprop_pool(be.pool_layer(be.default_dtype, "max", 4, 3, H=6, W=6, R=2, S=2), y, x, argmax)


@use
def fprop_lrn(be):
    layer = be.lrn_layer(be.default_dtype, 4, 6, H=3, W=3, J=3)
    be.fprop_lrn(layer, *images(be, layer, "I", "I", "I"), ascale=0.5, bpower=0.75)


@use
def bprop_lrn(be):
    layer = be.lrn_layer(be.default_dtype, 4, 6, H=3, W=3, J=3)
    be.bprop_lrn(layer, *images(be, layer, "I", "I", "I", "I", "I"), ascale=0.5, bpower=0.75)


ROIS = [[0, 0, 0, 11, 9], [2, 3, 3, 5, 9]]


@use
def roipooling_fprop(be):
    out = be.empty((2 * 6, 2))
    be.roipooling_fprop(
        uniform(be, 2 * 5 * 6, 4), be.array(ROIS), out, be.zeros((12, 2), np.int32), 2, 2, 5, 6, 2, 3, 0.5
    )


@use
def roipooling_bprop(be):
    delta = be.zeros((2 * 5 * 6, 4))
    argmax = be.zeros((12, 2), np.int32)
    be.roipooling_bprop(uniform(be, 12, 2), be.array(ROIS), delta, argmax, 2, 2, 5, 6, 2, 3, 0.5)


@use
def nms(be):
    be.nms(be.array([[0, 0, 4, 4, 0.9], [1, 1, 4, 4, 0.8], [6, 6, 8, 8, 0.7]]), 0.5)


@use
def fprop_relu(be):
    be.empty((6, 8))[:] = be.fprop_relu(None, uniform(be, 6, 8), 0.1)


@use
def bprop_relu(be):
    be.empty((6, 8))[:] = be.bprop_relu(None, uniform(be, 6, 8), None, None, 0.1)


@use
def fprop_softmax(be):
    be.empty((6, 8))[:] = be.fprop_softmax(uniform(be, 6, 8), 0)


@use
def fprop_transform(be):
    for made in ACTIVATIONS:
        be.fprop_transform(None, made(), uniform(be, 6, 8), be.empty((6, 8)))


@use
def bprop_transform(be):
    for made in ACTIVATIONS:
        transform = made()
        be.fprop_transform(None, transform, uniform(be, 6, 8), be.empty((6, 8)))
        be.bprop_transform(None, transform, uniform(be, 6, 8), uniform(be, 6, 8), be.empty((6, 8)))


@use
def fprop_skipnode(be):
    be.fprop_skipnode(uniform(be, 6, 8), uniform(be, 6, 8), 0.5)


@use
def bprop_skipnode(be):
    be.bprop_skipnode(uniform(be, 6, 8), uniform(be, 6, 8), 2.0, 0.5)


class Branch:
    """A layer of which a merging call asks its part."""

    def __init__(self, outputs, deltas):
        self.outputs, self.deltas = outputs, deltas

    def fprop(self, inputs, inference=False, beta=0.0):
        self.outputs[:] = inputs + beta * self.outputs
        return self.outputs

    def bprop(self, error, alpha=1.0, beta=0.0):
        self.deltas[:] = alpha * error + beta * self.deltas
        return self.deltas


def branches(be):
    """Inputs, outputs one above the other, their deltas, and a layer for each half."""
    x, y, deltas = uniform(be, 3, 4), be.zeros((6, 4)), be.zeros((3, 4))
    return x, y, deltas, [Branch(y[:3], deltas), Branch(y[3:], deltas)]


@use
def fprop_mergesum(be):
    x, y, _, layers = branches(be)
    be.fprop_mergesum(None, x, False, layers, y[:3], (3, 4))


@use
def bprop_mergesum(be):
    x, _, deltas, layers = branches(be)
    be.bprop_mergesum(None, 0.5, 0.25, layers, x, deltas)


@use
def fprop_mergebroadcast(be):
    x, y, _, layers = branches(be)
    be.fprop_mergebroadcast(None, x, False, y, layers, (6, 4))


@use
def bprop_mergebroadcast(be):
    _, y, deltas, layers = branches(be)
    be.bprop_mergebroadcast(None, layers, [y[:3], y[3:]], y, deltas, (3, 4), 0.5, 0.25, [1.0, 0.1])


@use
def execute(be):
    be.execute(OpTreeNode({"op": "assign", "shape": (6, 8)}, be.empty((6, 8)), uniform(be, 6, 8) * 2))


@use
def gradients(be):
    x, y = uniform(be, 6, 8), uniform(be, 6, 1)
    Autodiff(be.tanh(x) * y + be.sum(x, axis=1), be).get_grad_asnumpyarray([x, y])


@pytest.fixture(params=[np.float32, np.float64])
def be(request):
    """The best backend on the host."""
    yield gen_backend("cpu", rng_seed=1, datatype=request.param, batch_size=4)
    cleanup_backend()


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_computed_elsewhere(be, name):
    reset_fallback_counts()
    CALLS[name](be)
    assert not fallback_counts()


def test_all_calls_are_used_here():
    sections = [names["names"] for title, names in SURFACE.items() if title.startswith("Backend")]
    listed = {name for names in sections for name, entry in names.items() if "attribute" not in entry}
    assert listed - OTHERS - set(CALLS) == set()
