"""The formulas that common programs need: `tools/kernel_objects.py` compiles them.

An elementwise op or a chain of some is written and compiled when it is first needed, which takes 30 ms on Zen 3, and
loading LLVM before another 80. Those of the programs below are in the package, so that these, and others of the same
layers, compile nothing. What a program needs is found by having it planned; no kernel is run, for the process may
be one that pretends to have another processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_ANY_ADDRESS = 1 << 12  # of code that is never called


def common_formulas() -> list[Any]:
    """Kernels of LLVM IR, each text once, for the processor that this process compiles for.

    In a process of its own: what it plans must not be run.
    """
    from atled.graph.run.one_call import NativeCall
    from atled_cpu_numba import pool, store

    found: dict[str, Any] = {}

    def noted(kernel: Any) -> int:
        if isinstance(kernel, store.TransientKernel):
            found.setdefault(kernel.ir, store.IRKernel(kernel.name, kernel.ir))
        return _ANY_ADDRESS

    store._StoredKernel.address = noted  # type: ignore[method-assign]
    pool.run_program = pool.run_call = lambda *_: 0
    pool.loop_kernel = lambda: (_ANY_ADDRESS, 0)
    NativeCall.inline_launch = lambda _: None  # type: ignore[method-assign]
    for program in _programs():
        program()
    return list(found.values())


def _programs() -> Iterator[Callable[[], None]]:
    """Arithmetic of arrays; training steps, and inferences."""
    import atled.functions as F
    import atled.solvers as S

    yield _compute

    for activation in (F.relu, F.tanh, F.sigmoid, F.swish, F.elu, F.leaky_relu, _rectified_and_dropped):
        yield lambda activation=activation: _train(_perceptron(activation), S.Adam())
    yield lambda: _train(_lenet, S.Adam())
    for solver in (S.Sgd(), S.Momentum()):
        yield lambda solver=solver: _train(_residual(batch_stat=True), solver, decay=1e-4)
    for made in (S.Sgd, S.Momentum, S.Nesterov, S.RMSprop, S.Adam):
        for decay in (0.0, 1e-4):
            yield lambda made=made, decay=decay: _train(_perceptron(F.relu), made(), decay)
    yield lambda: _train(_perceptron(F.relu), S.Adam(), losses=(F.sigmoid_cross_entropy, F.absolute_error))
    yield lambda: _train(_autoencoder, S.Adam(), losses=(F.squared_error, F.binary_cross_entropy))
    for activation in (F.relu, F.tanh, F.sigmoid, F.swish, F.elu, F.leaky_relu):
        yield lambda activation=activation: _infer(_perceptron(activation))
    yield lambda: _infer(_lenet)
    yield lambda: _infer(_autoencoder)
    yield lambda: _infer(_residual(batch_stat=False))
    yield lambda: _infer(_activated_before)
    yield lambda: _infer(_activated_sums)
    yield lambda: _infer(_normalized_positions)
    yield lambda: _infer(_inverted_residual(lambda h: F.minimum_scalar(F.relu(h), 6), is_weighed=False))
    yield lambda: _infer(_inverted_residual(lambda h: h * F.sigmoid(h), is_weighed=True))
    yield lambda: _infer(_encoder, (16, 64))


def _compute() -> None:
    """What scripts do with arrays of one shape, and with numbers."""
    import atled as nn
    import atled.functions as F

    x, y = (nn.NdArray((8, 8)) for _ in range(2))
    x.zero(), y.zero()
    results = [x + y, x - y, x * y, x / y, x + 2, x - 2, x * 2, x / 2, 2 - x, 2 / x, x**2, -x]
    results += [function(x) for function in (F.exp, F.log, F.abs, F.relu, F.sigmoid, F.tanh)]
    for result in results:
        result.data  # noqa: B018  # computes it, where calls wait
    F.randn(shape=(8, 8)).forward()


_Network = Callable[[Any], Any]  # images (8, 1, 28, 28) -> scores (8, 10); of an encoder, sequences


def _perceptron(activation: Callable[[Any], Any]) -> _Network:
    import atled.parametric_functions as PF

    def scores(h: Any) -> Any:
        for name in ("hidden1", "hidden2"):
            h = activation(PF.affine(h, 64, name=name))
        return PF.affine(h, 10, name="scores")

    return scores


def _rectified_and_dropped(h: Any) -> Any:
    import atled.functions as F

    return F.dropout(F.relu(h), 0.5)


def _autoencoder(h: Any) -> Any:
    """Images from a few numbers each."""
    import atled.functions as F
    import atled.parametric_functions as PF

    code = F.relu(PF.affine(h, 16, name="code"))
    return F.sigmoid(PF.affine(code, math.prod(h.shape[1:]), name="images"))


def _lenet(h: Any) -> Any:
    import atled.functions as F
    import atled.parametric_functions as PF

    h = h / 255
    for name in ("conv1", "conv2"):
        h = F.relu(F.max_pooling(PF.convolution(h, 16, (5, 5), name=name), (2, 2)))
    return PF.affine(F.relu(PF.affine(h, 50, name="hidden")), 10, name="scores")


def _residual(batch_stat: bool) -> _Network:
    import atled.functions as F
    import atled.parametric_functions as PF

    def normalized(h: Any, maps: int, name: str) -> Any:
        h = PF.convolution(h, maps, (3, 3), pad=(1, 1), with_bias=False, name=name)
        return PF.batch_normalization(h, batch_stat=batch_stat, name=name)

    def scores(h: Any) -> Any:
        h = F.relu(normalized(h, 16, "first"))
        h = F.relu(h + normalized(F.relu(normalized(h, 16, "block1")), 16, "block2"))
        return PF.affine(F.average_pooling(h, (28, 28)), 10, name="scores")

    return scores


def _activated_before(h: Any) -> Any:
    """Blocks that normalize and rectify before they convolve, added, and appended as in DenseNet."""
    import atled.functions as F
    import atled.parametric_functions as PF

    def activated(h: Any, name: str) -> Any:
        return F.relu(PF.batch_normalization(h, batch_stat=False, name=name))

    def convolved(h: Any, name: str) -> Any:
        return PF.convolution(h, 16, (3, 3), pad=(1, 1), with_bias=False, name=name)

    h = F.max_pooling(activated(convolved(h, "first"), "first"), (2, 2))
    h = h + convolved(activated(convolved(activated(h, "a"), "a"), "b"), "b")
    h = F.concatenate(h, convolved(activated(h, "c"), "c"), axis=1)
    h = F.average_pooling(convolved(activated(h, "d"), "d"), (2, 2))
    h = F.concatenate(h, convolved(activated(convolved(activated(h, "e"), "e"), "f"), "f"), axis=1)
    return PF.affine(F.mean(activated(h, "last"), axis=(2, 3)), 10, name="scores")


def _activated_sums(h: Any) -> Any:
    """Residual blocks without normalization, rectified before the sum, behind it, and on both sides."""
    import atled.functions as F
    import atled.parametric_functions as PF

    def convolved(h: Any, name: str) -> Any:
        return PF.convolution(h, 16, (3, 3), pad=(1, 1), name=name)

    h = F.relu(convolved(h, "first"))
    h = h + F.relu(convolved(h, "before"))
    h = F.relu(h + convolved(h, "behind"))
    h = F.relu(F.relu(convolved(F.relu(convolved(h, "a")), "b")) + h)
    h = F.relu(F.relu(convolved(h, "c")) + convolved(h, "shortcut"))
    return PF.affine(F.mean(h, axis=(2, 3)), 10, name="scores")


def _normalized_positions(h: Any) -> Any:
    """Blocks that normalize the channels of each position between convolutions of each channel, as in ConvNeXt."""
    import atled.functions as F
    import atled.parametric_functions as PF

    channels = 16
    h = PF.convolution(h, channels, (2, 2), stride=(2, 2), name="first")
    h = F.transpose(_normalized(F.transpose(h, (0, 2, 3, 1)), "first"), (0, 3, 1, 2))
    for name in ("one", "two"):
        inner = PF.convolution(h, channels, (7, 7), pad=(3, 3), group=channels, name=name)
        inner = _normalized(F.transpose(inner, (0, 2, 3, 1)), name)
        inner = _gelu(PF.affine(inner, 4 * channels, base_axis=3, name=name + "in"))
        inner = PF.affine(inner, channels, base_axis=3, name=name + "out")
        h = h + F.transpose(inner, (0, 3, 1, 2))
    return PF.affine(_normalized(F.mean(h, axis=(2, 3)), "scores"), 10, name="scores")


def _normalized(h: Any, name: str) -> Any:
    """Layer normalization of the last axis."""
    import atled as nn
    import atled.functions as F

    axis = len(h.shape) - 1
    shape = (1,) * axis + h.shape[axis:]
    scale, shift = (nn.parameter.get_parameter_or_create(name + each, shape) for each in ("scale", "shift"))
    centred = h - F.mean(h, axis=axis, keepdims=True)
    return centred * (F.mean(centred**2, axis=axis, keepdims=True) + 1e-5) ** -0.5 * scale + shift


def _gelu(h: Any) -> Any:
    import atled.functions as F

    return h * (F.tanh((h + h * h * h * 0.044715) * (2 / math.pi) ** 0.5) + 1.0) * 0.5


def _inverted_residual(activation: Callable[[Any], Any], is_weighed: bool) -> _Network:
    """A block as MobileNetV2 has it, with what is before and behind; is_weighed: by channel, as in EfficientNet."""
    import atled.functions as F
    import atled.parametric_functions as PF

    def normalized(h: Any, maps: int, name: str, **window: Any) -> Any:
        h = PF.convolution(h, maps, with_bias=False, name=name, **window)
        return PF.batch_normalization(h, batch_stat=False, name=name)

    def weights(h: Any) -> Any:
        h = activation(PF.convolution(F.mean(h, axis=(2, 3), keepdims=True), 4, (1, 1), name="squeeze"))
        return F.sigmoid(PF.convolution(h, 64, (1, 1), name="excite"))

    def scores(h: Any) -> Any:
        three = {"kernel": (3, 3), "pad": (1, 1)}
        h = activation(normalized(h, 16, "first", stride=(2, 2), **three))
        inner = activation(normalized(h, 64, "in", kernel=(1, 1)))
        inner = activation(normalized(inner, 64, "each", group=64, **three))
        inner = inner * weights(inner) if is_weighed else inner
        h = h + normalized(inner, 16, "out", kernel=(1, 1))
        return PF.affine(F.mean(h, axis=(2, 3)), 10, name="scores")

    return scores


def _encoder(h: Any) -> Any:
    """Two layers of a transformer's encoder, one with rectifiers, one with GELU."""
    import atled.functions as F
    import atled.parametric_functions as PF

    _, steps, size = h.shape
    heads = 4

    def apart(h: Any) -> Any:
        return F.transpose(F.reshape(h, (-1, steps, heads, size // heads)), (0, 2, 1, 3))

    def attended(h: Any, name: str) -> Any:
        q, k, v = (apart(PF.affine(h, size, base_axis=2, name=name + part)) for part in "qkv")
        weights = F.softmax(F.batch_matmul(q, k, transpose_b=True) * (size // heads) ** -0.5, 3)
        joined = F.reshape(F.transpose(F.batch_matmul(weights, v), (0, 2, 1, 3)), (-1, steps, size))
        return PF.affine(joined, size, base_axis=2, name=name + "o")

    for name, activation in (("first", F.relu), ("second", _gelu)):
        h = _normalized(h + attended(h, name), name + "attended")
        inner = activation(PF.affine(h, 4 * size, base_axis=2, name=name + "in"))
        h = _normalized(h + PF.affine(inner, size, base_axis=2, name=name + "out"), name + "scores")
    return h


def _train(network: _Network, solver: Any, decay: float = 0.0, losses: Sequence[Callable[..., Any]] = ()) -> None:
    """One step by each of some losses; by default of the two usual ones."""
    import atled as nn
    import atled.functions as F

    for loss_of in losses or (F.softmax_cross_entropy, F.squared_error):
        nn.clear_parameters()
        x = nn.Variable((8, 1, 28, 28))
        y = network(x)
        loss = F.mean(loss_of(y, nn.Variable((8, 1) if loss_of is F.softmax_cross_entropy else y.shape)))
        solver.set_parameters(nn.get_parameters())
        loss.forward()
        solver.zero_grad()
        loss.backward()
        if decay:
            solver.weight_decay(decay)
        solver.update()


def _infer(network: _Network, shape: tuple[int, ...] = (1, 28, 28)) -> None:
    """The outputs of one input and of several, whose arrays have an axis more."""
    import numpy as np

    import atled as nn

    for batch in (1, 8):
        nn.clear_parameters()
        x = nn.Variable((batch, *shape))
        nn.inference(network(x), [x])(np.zeros(x.shape, np.float32))
