"""Settings and files of data sets, made anew for each test."""

import numpy as np
import pytest

from atled.config import DEFAULTS, nnabla_config


@pytest.fixture
def config():
    """Change settings of data iterators for one test: `config(data_source_file_cache_size=4)`."""

    def change(**values):
        for name, value in values.items():
            nnabla_config.set("DATA_ITERATOR", name, str(value))

    yield change
    for name, value in DEFAULTS["DATA_ITERATOR"].items():
        nnabla_config.set("DATA_ITERATOR", name, value)


@pytest.fixture
def table(tmp_path):
    """Write a CSV file; gives its path."""

    def write(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return str(path)

    return write


@pytest.fixture
def sample():
    """A sample of a number and its square."""
    return lambda i: (np.array([i]), np.array([i * i], np.float32))
