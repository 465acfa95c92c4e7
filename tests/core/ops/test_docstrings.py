"""What the docstrings of functions say of inputs and outputs: a shape and a dtype each, which the samples bear out."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from atled.calling import composites
from atled.calling.composites import CATEGORIES
from atled.generators.catalogue import SampleCalls, all_specs
from atled.generators.pages.docstring import take_apart

# A shape, such as (B..., C, S...) or "shape of x,", and then a dtype.
_FORM = re.compile(
    r"(?:\((?:[^()]|\([^()]*\))*\)|shape of (?P<like>\w+),) "
    r"(?P<dtype>float32|float|u?int\d+|whole numbers?|any dtype|dtype of \w+)\b"
)
_KINDS = {"float": "f", "whole number": "iu", "whole numbers": "iu"}


def _entries(doc: str, head: str) -> dict[str, str]:
    """The text of each input or output by name; an entry of the docstring may be that of several."""
    found = {}
    for names, text in take_apart(doc).sections.get(head, []):
        found |= dict.fromkeys(names.removesuffix(" (auxiliary)").split(", "), text)
    return found


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_every_input_and_output_has_a_shape_and_a_dtype(spec):
    for head, names in ("Args", spec.input_names), ("Returns", spec.outputs):
        texts = _entries(spec.doc, head)
        for name in (name.rstrip(".") for name in names):
            assert name in texts, f"{spec.name}: {head} does not mention {name}"
            assert _FORM.match(texts[name]), (
                f"{spec.name}: '{name}: {texts[name]}' states no shape with a dtype behind it; "
                "write it as 'x: (..., K, ...) float; ...' or 'y: shape of x, float'"
            )


@pytest.mark.parametrize("name", sorted(CATEGORIES))
def test_every_array_that_a_composite_takes_or_gives_has_a_shape_and_a_dtype(name):
    function = getattr(composites, name)
    doc = inspect.getdoc(function)
    parameters = inspect.signature(function).parameters.values()
    arrays = [parameter.name for parameter in parameters if "Array" in parameter.annotation]
    given = _entries(doc, "Args")
    assert all(_FORM.match(given[array]) for array in arrays), name
    results = _entries(doc, "Returns")
    assert results and all(_FORM.match(text) for text in results.values()), name


@pytest.mark.parametrize("spec", [spec for spec in all_specs() if spec.samples()], ids=lambda spec: spec.name)
def test_outputs_have_the_shape_and_dtype_stated(spec):
    stated = {name: _FORM.match(text) for name, text in _entries(spec.doc, "Returns").items()}
    for call in SampleCalls(spec).of("float"):
        arrays = dict(zip(spec.input_names, call.inputs, strict=False)) | dict(
            zip(spec.outputs, call.outputs, strict=False)
        )
        for name, output in zip(spec.outputs, call.outputs, strict=False):
            form = stated[name.rstrip(".")]
            if form["like"]:
                assert output.shape == arrays[form["like"]].shape, (spec.name, name)
            if form["dtype"] in _KINDS:
                assert output.dtype.kind in _KINDS[form["dtype"]], (spec.name, name)
            elif form["dtype"].startswith(("float", "int")):
                assert output.dtype == np.dtype(form["dtype"]), (spec.name, name)
