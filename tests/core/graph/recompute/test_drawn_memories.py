"""Graphs drawn from a seed, in several memories: forwards that store less, backwards behind them, writes in between."""

from __future__ import annotations

import random

import numpy as np
import pytest

from atled.variable import Variable
from atled_contexts import Context
from drawn_graphs import SHAPE, drawn_graph, drawn_leaves

pytest.importorskip("atled_sim")

CONTEXTS = [Context(names) for names in (["cpu:float"], ["sim:float", "cpu:float"], ["reference:float"])]
FLAGS = (True, False, True, None)


def anew(seed: int, values: list[np.ndarray]) -> tuple[Variable, list[Variable]]:
    """The graph on leaves of these values, computed by the reference alone, and the leaves."""
    copies = [Variable.from_numpy_array(each, need_grad=flag) for each, flag in zip(values, FLAGS, strict=True)]
    root, _ = drawn_graph(seed, copies, contexts=[Context(["reference:float"])] * len(CONTEXTS))
    root.forward()
    return root, copies


@pytest.mark.parametrize("seed", range(20, 44))
def test_values_and_gradients_are_those_of_a_graph_that_is_recorded_anew(seed: int) -> None:
    choose = random.Random(seed)
    leaves = drawn_leaves(seed, FLAGS)
    values = [leaf.d.copy() for leaf in leaves]  # later that would count as a write
    root, _ = drawn_graph(seed, leaves, contexts=CONTEXTS)
    for step in range(3):
        for number in choose.sample(range(len(leaves)), choose.randint(0, 2)):
            values[number] = np.random.default_rng(100 * seed + step).standard_normal(SHAPE).astype(np.float32)
            leaves[number].d = values[number]
        for _ in range(4 if step == 0 else choose.randint(1, 3)):  # the third that clears is believed
            root.forward(clear_buffer=step == 0 or choose.random() < 0.8)
        expected, copies = anew(seed, values)
        if choose.random() < 0.8:
            for x in (*leaves, *copies):
                x.grad.zero()
            root.backward()
            expected.backward()
            for x, copy in zip(leaves, copies, strict=True):
                if x.need_grad:
                    np.testing.assert_allclose(x.g, copy.g, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(root.d, expected.d, rtol=1e-4, atol=1e-4)
