"""The formulas that common programs need: `tools/kernel_objects.py` compiles them.

An elementwise op or a chain of some is written and compiled when it is first needed, which takes 30 ms on Zen 3, and
loading LLVM before another 80. Those of the programs below are in the package, so that these, and others of the same
layers, compile nothing. What a program needs is found by having it planned; no kernel is run, for the process may
be one that pretends to have another processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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

    for activation in (F.relu, F.tanh, F.sigmoid):
        yield lambda activation=activation: _train(_perceptron(activation), S.Adam())
    yield lambda: _train(_lenet, S.Adam())
    for solver in (S.Sgd(), S.Momentum()):
        yield lambda solver=solver: _train(_residual(batch_stat=True), solver, decay=1e-4)
    yield lambda: _infer(_perceptron(F.relu))
    yield lambda: _infer(_lenet)
    yield lambda: _infer(_residual(batch_stat=False))
    yield lambda: _infer(_inverted_residual(lambda h: F.minimum_scalar(F.relu(h), 6), is_weighed=False))
    yield lambda: _infer(_inverted_residual(lambda h: h * F.sigmoid(h), is_weighed=True))
    yield lambda: _infer(_encoder, (8, 16, 64))


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
    import atled as nn
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

    def normalized(h: Any, name: str) -> Any:
        scale, shift = (nn.parameter.get_parameter_or_create(name + each, (1, 1, size)) for each in ("scale", "shift"))
        centred = h - F.mean(h, axis=2, keepdims=True)
        return centred * (F.mean(centred**2, axis=2, keepdims=True) + 1e-5) ** -0.5 * scale + shift

    def gelu(h: Any) -> Any:
        return h * (F.tanh((h + h * h * h * 0.044715) * (2 / math.pi) ** 0.5) + 1.0) * 0.5

    for name, activation in (("first", F.relu), ("second", gelu)):
        h = normalized(h + attended(h, name), name + "attended")
        inner = activation(PF.affine(h, 4 * size, base_axis=2, name=name + "in"))
        h = normalized(h + PF.affine(inner, size, base_axis=2, name=name + "out"), name + "scores")
    return h


def _train(network: _Network, solver: Any, decay: float = 0.0) -> None:
    """One step by each of the two usual losses."""
    import atled as nn
    import atled.functions as F

    for loss_of in (F.softmax_cross_entropy, F.squared_error):
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


def _infer(network: _Network, shape: tuple[int, ...] = (8, 1, 28, 28)) -> None:
    import numpy as np

    import atled as nn

    nn.clear_parameters()
    x = nn.Variable(shape)
    nn.inference(network(x), [x])(np.zeros(x.shape, np.float32))
