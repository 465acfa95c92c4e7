"""What an op or an array refuses is caught by `except ValueError` and by `except RuntimeError`, as NNabla has it."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.errors import OutOfMemoryError, RefusedError
from atled.graph.record.value import RecordedCall


def variable(*shape):
    return nn.Variable(shape)


def assign(what):
    setattr(variable(2), what, nn.NdArray((3,)))


CALLS = {
    "scalars have no axis to concatenate": lambda: F.concatenate(variable(), variable()),
    "splitting into nothing": lambda: F.split(variable(0, 3), axis=0),
    "shapes": lambda: F.add2(variable(2), variable(3)),
    "operators": lambda: variable(2) + variable(3),
    "at once": lambda: nn.NdArray((2,)) + nn.NdArray((3,)),
    "at once, twice": lambda: [nn.NdArray((2,)) + nn.NdArray(shape) for shape in ((2,), (3,))],
    "axis": lambda: F.sum(variable(2), axis=3),
    "choice": lambda: F.pad(variable(2, 3), (1, 1), "nowhere"),
    "value of an attribute": lambda: F.dropout(variable(2), p=1.5),
    "step": lambda: F.fixed_point_quantize(variable(2), delta=-1),
    "norm": lambda: F.clip_by_norm(variable(2), -1),
    "layer": lambda: PF.convolution(variable(2, 3, 4, 4), 5, (9, 9)),
    "layer's own check": lambda: PF.convolution(variable(2, 3, 4, 4), 5, (3, 3), group=2),
    "recurrent": lambda: F.lstm(variable(2), variable(2), variable(2), variable(2)),
    "reshape": lambda: variable(2).reshape((3,)),
    "reset_shape": lambda: variable(2).reset_shape((3,)),
    "data": lambda: assign("data"),
    "grad": lambda: assign("grad"),
    "rewire_on": lambda: variable(2).rewire_on(variable(3)),
    "copy_from": lambda: nn.NdArray((2,)).copy_from(nn.NdArray((3,))),
    "function object": lambda: F.relu(variable(2)).parent.forward([variable(2)], []),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_caught_under_either_name(name):
    with pytest.raises(RefusedError) as raised:
        CALLS[name]()
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, RuntimeError)


def test_values_that_numpy_itself_would_refuse_are_value_errors_only():
    with pytest.raises(ValueError, match="does not broadcast") as raised:
        variable(2).d = np.zeros(3)
    assert not isinstance(raised.value, RuntimeError)


@pytest.mark.parametrize("kind", [nn.Variable, nn.NdArray])
def test_a_call_for_whose_outputs_there_is_no_memory_says_so(kind, monkeypatch):
    def make_outputs(self, *_):
        raise MemoryError

    monkeypatch.setattr(RecordedCall, "make_outputs", make_outputs)
    with pytest.raises(OutOfMemoryError, match=r"a call of Split on \(5, 2\): memory has run out(.|\n)*What to do: "):
        F.split(kind((5, 2)), axis=0)


def test_a_graph_for_whose_plan_there_is_no_memory_says_so(monkeypatch):
    def lower(*_, **__):
        raise MemoryError

    monkeypatch.setattr("atled.graph.forward_plan.lower", lower)
    with pytest.raises(OutOfMemoryError, match=r"the plan of a graph: memory has run out(.|\n)*What to do: "):
        F.sin(F.sin(variable(7, 3))).forward()
