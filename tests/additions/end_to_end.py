"""What must work of the things that `test_touched_files.py` adds to a copy of the tree; pytest runs this there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.conformance.checks import check_op

ROOT = Path(__file__).resolve().parents[2]
CPU = nn.Context("cpu:float")


def test_the_copy_is_imported() -> None:
    import atled_contexts
    import atled_cpu_numba

    for package in (nn, atled_contexts, atled_cpu_numba):
        assert Path(package.__file__).is_relative_to(ROOT), package.__file__


def computes(op: str, function: str, note: str, *shape: int) -> None:
    """The checks of the conformance kit, gradients included, on both backends; and who computes it on `cpu`."""
    assert getattr(F, function).spec.name == op
    assert check_op(op, "reference") >= 5
    assert check_op(op, "cpu") >= 5
    with nn.context_scope(CPU), nn.trace() as trace:
        assert note in str(nn.explain(getattr(F, function), nn.Variable(shape)))
        x = nn.Variable.from_numpy_array(np.ones(shape, np.float32), need_grad=True)
        getattr(F, function)(x).forward()
    (row,) = (row for row in trace.rows() if row.op == op)
    assert row.backend == "cpu" and [note in made for made in row.implementations] == [True]


def test_an_elementwise_op() -> None:
    computes("SoftShrink", "soft_shrink", "formula", 2, 3)


def test_another_op() -> None:
    computes("SquareSum", "square_sum", "adopted reference", 2, 3)


def test_a_family_of_ops() -> None:
    computes("SoftSign", "soft_sign", "formula", 2, 3)


def test_an_implementation() -> None:
    computes("ClipGradByNorm", "clip_grad_by_norm", "kernel", 2, 3)


def training(x: nn.Variable, y: nn.Variable, solver: S.Solver) -> list[float]:
    """The losses of ten steps towards 2 x."""
    loss = F.mean(F.squared_error(y, 2 * x))
    solver.set_parameters(nn.get_parameters())
    losses = []
    for _ in range(10):
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    return losses


@pytest.fixture
def x() -> nn.Variable:
    nn.clear_parameters()
    return nn.Variable.from_numpy_array(np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))


@pytest.mark.parametrize(("layer", "shape"), [("affine", (8, 3)), ("convolution", (8, 3, 4))])
def test_a_layer_that_transforms_its_weight(layer: str, shape: tuple[int, ...]) -> None:
    nn.clear_parameters()
    x = nn.Variable.from_numpy_array(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    with nn.context_scope(CPU):
        y = getattr(PF, f"centred_{layer}")(x, 3, *[(1,)] * (layer == "convolution"), name="first")
        losses = training(x, y, S.Sgd(0.1))
    assert losses[-1] < 0.9 * losses[0]
    assert all(key.startswith("first/centred_") for key in nn.get_parameters())


def test_another_layer(x: nn.Variable) -> None:
    with nn.context_scope(CPU):
        y = PF.channel_scale(x, name="first")
        assert list(nn.get_parameters()) == ["first/channel_scale/s"]
        losses = training(x, y, S.Sgd(0.5))
    assert losses[-1] < 0.5 * losses[0]
    assert PF.channel_scale.__module__ == "atled.parametric_functions"


def test_a_solver(x: nn.Variable) -> None:
    with nn.context_scope(CPU), nn.trace() as trace:
        losses = training(x, PF.affine(x, 3), S.Lion(0.1))
    assert losses[-1] < 0.5 * losses[0]
    (row,) = (row for row in trace.rows() if "LionUpdate" in row.op)
    assert row.backend == "cpu"


def test_a_file_format(x: nn.Variable, tmp_path: Path) -> None:
    PF.affine(x, 4)
    saved = {key: param.d.copy() for key, param in nn.get_parameters().items()}
    nn.save_parameters(tmp_path / "parameters.json")
    nn.clear_parameters()
    nn.load_parameters(tmp_path / "parameters.json")
    assert list(nn.get_parameters()) == list(saved)
    for key, values in saved.items():
        np.testing.assert_array_equal(nn.get_parameters()[key].d, values)


def test_a_device() -> None:
    x = nn.Variable.from_numpy_array(np.array([[-1, 2, 3]], np.float32))
    with nn.context_scope(nn.get_extension_context("gate", fallback="raise")), nn.trace() as trace:
        y = F.relu(F.flip(x, [1]))
        y.forward()
    assert y.d.tolist() == [[3, 2, 0]]
    assert {row.op: row.backend for row in trace.rows()}.items() >= {"Flip": "gate", "ReLU": "gate"}.items()
    assert check_op("Flip", "gate") >= 3 and check_op("ReLU", "gate") >= 3
