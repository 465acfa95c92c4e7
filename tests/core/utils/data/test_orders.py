"""Samples come in NNabla's order, for the same generator of random numbers."""

import json
from pathlib import Path

import pytest

import atled.config
import atled.utils.data_iterator
import atled.utils.data_source
import atled.utils.data_source_implements

from .orders import Names, orders

EXPECTED = json.loads((Path(__file__).parent / "nnabla_orders.json").read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    library = Names(
        atled.config, atled.utils.data_source, atled.utils.data_source_implements, atled.utils.data_iterator
    )
    before = atled.config.nnabla_config.get("DATA_ITERATOR", "data_source_file_cache_size")
    yield orders(library, str(tmp_path_factory.mktemp("orders")))
    atled.config.nnabla_config.set("DATA_ITERATOR", "data_source_file_cache_size", before)


@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_order_is_nnablas(found, scenario):
    assert found[scenario] == EXPECTED[scenario]


def test_no_scenario_is_left_out(found):
    assert list(found) == list(EXPECTED)
