"""The formulas that common programs need: `tools/kernel_objects.py` compiles them.

An elementwise op or a chain of some is written and compiled when it is first needed, which takes 30 ms on Zen 3, and
loading LLVM before another 80. Those of the programs below are in the package, so that these, and others of the same
layers, compile nothing. What a program needs is found by having it planned; no kernel is run, for the process may
be one that pretends to have another processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_ANY_ADDRESS = 1 << 12  # of code that is never called


def common_formulas() -> list[Any]:
    """Kernels of LLVM IR, each text once, for the processor that this process compiles for.

    In a process of its own: what it plans must not be run.
    """
    from atled_cpu_numba import pool, store

    found: dict[str, Any] = {}

    def noted(kernel: Any) -> int:
        if isinstance(kernel, store.TransientKernel):
            found.setdefault(kernel.ir, store.IRKernel(kernel.name, kernel.ir))
        return _ANY_ADDRESS

    store._StoredKernel.address = noted  # type: ignore[method-assign]
    pool.run_program = pool.run_call = lambda *_: 0
    pool.loop_kernel = lambda: (_ANY_ADDRESS, 0)
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


_Network = Callable[[Any], Any]  # images (8, 1, 28, 28) -> scores (8, 10)


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


def _infer(network: _Network) -> None:
    import numpy as np

    import atled as nn

    nn.clear_parameters()
    x = nn.Variable((8, 1, 28, 28))
    nn.inference(network(x), [x])(np.zeros(x.shape, np.float32))
