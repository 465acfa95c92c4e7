"""Pickles that are read without executing anything."""

import collections
import pickle

import numpy as np
import pytest

from atled.structures import load_pickled


def loaded(tmp_path, content):
    (tmp_path / "p").write_bytes(content)
    return load_pickled(tmp_path / "p")


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "int32", "bool", "uint8"])
def test_arrays_come_back(tmp_path, protocol, order, dtype):
    array = np.asarray(np.arange(6).reshape(2, 3), dtype, order=order)
    found = loaded(tmp_path, pickle.dumps({"a": [array, (array[0], "text", 2.5)]}, protocol))
    np.testing.assert_array_equal(found["a"][0], array)
    np.testing.assert_array_equal(found["a"][1][0], array[0])
    assert found["a"][1][1:] == ("text", 2.5)


def test_numbers_of_numpy_are_numbers(tmp_path):
    assert loaded(tmp_path, pickle.dumps([np.float32(0.5), np.int64(3)])) == [0.5, 3]


def test_texts_of_python_2_are_read(tmp_path):
    assert loaded(tmp_path, b"(dp0\nS'name'\np1\nS'caf\\xe9'\np2\ns.") == {"name": "café"}


class Built:
    pass


BAD = {
    "a call": b"cos\nsystem\n(S'true'\ntR.",
    "a class": pickle.dumps(Built()),
    "a function": pickle.dumps(len),
    "a set": pickle.dumps({3}),
    "an ordered dictionary": pickle.dumps(collections.OrderedDict(a=1)),
    "objects in an array": pickle.dumps(np.array([None, 3], object)),
    "a structured array": pickle.dumps(np.zeros(2, [("a", "f4")])),
    "texts in an array": pickle.dumps(np.array(["a"])),
    "a state for a call": b"cnumpy\nndarray\n(dS'x'\nI1\nsb.",
    "a class of NumPy": b"cnumpy\nndarray\n.",
    "another name of NumPy": b"cnumpy\nload\n(S'x'\ntR.",
    "an array without a state": b"cnumpy.core.multiarray\n_reconstruct\n(tR.",
    "a missing end": pickle.dumps({"a": np.ones(3)})[:-5],
    "nothing": b"",
    "a list in itself": b"(lp0\ng0\na.",
    "a persistent id": b"Pid\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "another count of bytes": pickle.dumps(np.ones(3)).replace(b"K\x03\x85", b"K\x04\x85"),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="What to do"):
        loaded(tmp_path, BAD[name])
