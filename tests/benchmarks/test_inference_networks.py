"""The networks that are only inferred: their rows, and their layers by atled beside those that are only counted."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import atled as nn
import inference_table
import networks_table
from bench_rows import further_inference, inference, inference_networks, networks
from bench_rows.inference_atled import AtledLayers
from bench_rows.inference_layers import parameter, samples, window_of
from bench_rows.work import _CountedInference

NETWORKS = inference_networks.NETWORKS | further_inference.NETWORKS


def test_rows_have_distinct_names_cases_that_exist_and_goals_of_their_peers():
    rows = [*inference_table.ROWS, *networks_table.ROWS]
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        module, _, function = row.case.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert row.arguments["network"] in NETWORKS
        assert row.goal is None or set(row.goal.peers) <= set(row.libraries[1:])


def test_each_further_network_has_a_row_for_one_sample_and_one_for_eight():
    found = {(row.arguments["network"], row.arguments["batch"]) for row in networks_table.ROWS}
    assert found == {(name, batch) for name in further_inference.NETWORKS for batch in (1, 8)}


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_counted_has_the_shape_of_what_is_computed(name):
    network = NETWORKS[name]
    shapes: dict[tuple[str, str], tuple[int, ...]] = {}

    def unwritten(name: str, kind: str, shape: tuple[int, ...]) -> np.ndarray:
        assert shapes.setdefault((name, kind), shape) == shape, "two layers have the same name"
        return np.empty(shape, np.float32)

    made = network.result(AtledLayers(unwritten), nn.Variable((2, *network.shape)))
    counted = network.result(_CountedInference(), networks.Shape(network.shape))
    assert made.shape == (2, *counted.shape)


def test_a_network_that_is_loaded_computes_what_it_did_before_it_was_stored(tmp_path):
    network = NETWORKS["LeNet"]
    x = nn.Variable((2, *network.shape))
    x.d = samples(network, 2)
    before = network.result(AtledLayers(parameter), x)
    before.forward()
    inference.store("atled", network, 2, str(tmp_path))
    loaded = inference.loaded("atled", network, 2, str(tmp_path))
    np.testing.assert_allclose(loaded(x.d), before.d, rtol=1e-5, atol=1e-6)
    assert not nn.get_parameters(grad_only=False), "left behind by the row"


def test_a_window_is_padded_so_that_odd_kernels_leave_the_size():
    assert window_of((3, 5), None, 2, is_padded=True) == ((3, 5), (1, 1), (2, 4), (2, 2))
    assert window_of((4,), (4,), 1, is_padded=False) == ((4,), (4,), (0,), (1,))


@pytest.fixture
def layers():
    return AtledLayers(parameter)


def test_gelu_is_that_of_its_definition(layers):
    h = np.linspace(-4, 4, 9, dtype=np.float32)
    x = nn.Variable.from_numpy_array(h)
    expected = h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))) / 2
    y = layers.gelu(x)
    y.forward()
    np.testing.assert_allclose(y.d, expected, atol=1e-6)


def test_shuffled_channels_are_those_of_the_groups_in_turn(layers):
    h = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)
    y = layers.channel_shuffle(nn.Variable.from_numpy_array(h), 2, 6, 1)
    y.forward()
    assert y.d.ravel().tolist() == [0, 3, 1, 4, 2, 5]


def test_shuffled_pixels_are_a_larger_image(layers):
    h = np.arange(8, dtype=np.float32).reshape(1, 4, 1, 2)
    y = layers.pixel_shuffle(nn.Variable.from_numpy_array(h), 2, 1)
    y.forward()
    assert y.d[0, 0].tolist() == [[0, 2, 1, 3], [4, 6, 5, 7]]


def test_the_halves_of_channels_are_together_all(layers):
    h = np.arange(24, dtype=np.float32).reshape(2, 4, 1, 3)
    y = layers.concatenate(*layers.halves(nn.Variable.from_numpy_array(h), 4))
    y.forward()
    np.testing.assert_array_equal(y.d, h)
