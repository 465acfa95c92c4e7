"""Contexts as scripts meet them through the front of the package."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F


def test_the_default_context_is_one_backend_in_float():
    (backend,) = nn.Context().backend
    assert backend.endswith(":float")
    assert nn.Context().device_id == "0"


def test_a_string_is_a_list_of_one_backend():
    assert nn.Context("reference:float") == nn.Context(["reference:float"])
    assert nn.Context("reference").backend == ["reference:float"]


def test_a_list_of_characters_is_refused():
    with pytest.raises(ValueError, match="reference"):
        nn.Context(list("reference:float"))


def test_an_absent_backend_in_a_list_is_passed_over():
    with nn.context_scope(nn.Context(["no_such:float", "reference:float"])):
        y = F.exp(nn.NdArray((1,)))
    assert y.data[0] == 1


def test_an_absent_backend_alone_is_refused():
    with pytest.raises(ValueError, match="no_such"):
        nn.Context(["no_such:float"])


def test_a_scope_ends_with_its_block():
    before = nn.get_current_context()
    inner = nn.Context(["reference:half"])
    with nn.context_scope(inner):
        assert nn.get_current_context() == inner
    assert nn.get_current_context() == before


def test_the_default_context_cannot_be_set_within_a_scope():
    with nn.context_scope(nn.Context(["reference:float"])), pytest.raises(AssertionError):
        nn.set_default_context(nn.Context(["reference:float"]))


@pytest.mark.parametrize(("type_config", "dtype"), [("float", "float32"), ("half", "float16"), ("double", "float64")])
def test_the_type_config_says_in_which_dtype_functions_compute(type_config, dtype):
    with nn.context_scope(nn.get_extension_context("reference", type_config=type_config)):
        y = F.exp(nn.Variable.from_numpy_array(np.zeros(2, np.float32)))
    y.forward()
    assert y.d.dtype == dtype


def test_an_unknown_extension_is_refused_with_the_nearest_name():
    with pytest.raises(RuntimeError, match="did you mean 'reference'"):
        nn.get_extension_context("refrence")
