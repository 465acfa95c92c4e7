"""Structures in files: what comes back, and what is refused."""

import numpy as np
import pytest

from atled.structures import load_structure, save_structure

VALUE = {
    "text": "ä",
    "numbers": [1, 2.5, True, None, (3, 4)],
    "arrays": {
        "float": np.arange(6.0).reshape(2, 3),
        "int": np.arange(3),
        "none": np.zeros((0, 2)),
        "one": np.ones(()),
    },
    "array": {"array": 0, "dict": {}},
}


def test_a_structure_comes_back(tmp_path):
    save_structure(tmp_path / "s.h5", VALUE)
    found = load_structure(tmp_path / "s.h5")
    arrays, wanted = found.pop("arrays"), dict(VALUE)
    for name, each in wanted.pop("arrays").items():
        np.testing.assert_array_equal(arrays[name], each)
        assert arrays[name].dtype == each.dtype
    assert found == wanted


def test_numbers_of_numpy_are_numbers(tmp_path):
    save_structure(tmp_path / "s.h5", [np.float32(0.5), np.int64(3), np.bool_(True)])
    assert load_structure(tmp_path / "s.h5") == [0.5, 3, True]


@pytest.mark.parametrize("value", [{1: 2}, [b"bytes"], {"a": [object()]}, np.array(["text"]), {3}])
def test_anything_else_is_refused(tmp_path, value):
    with pytest.raises(TypeError, match="is of type"):
        save_structure(tmp_path / "s.h5", value)
    assert list(tmp_path.iterdir()) == []
