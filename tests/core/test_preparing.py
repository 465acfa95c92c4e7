"""What `prepare` and `layout` of a plugin raise or answer wrongly is told with plugin, backend and call."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import API_VERSION, BackendInfo, Implementation, PluginInfo, Prepared, hookimpl, reference_run
from atled.warming import warm_up
from atled_contexts import register_plugin, unregister_plugin

TANH = r"Tanh\(float32\[3\]\)"
WHO = "backend 'forgetful' of plugin 'forgets'"


class Forgets:
    """A plugin whose implementations have the `prepare`, and what else of theirs, that a test gives it."""

    def __init__(self, prepare, others) -> None:
        self.prepare, self.others = prepare, others

    @hookimpl
    def atled_info(self):
        return PluginInfo("forgets", API_VERSION, "atled-forgets", "1", (BackendInfo("forgetful", host=True),))

    @hookimpl
    def atled_register(self, registrar):
        registrar.family("forgetful", lambda op: self._made(op) if op in ("Tanh", "MaxPooling") else None)

    def _made(self, op):
        return Implementation(op, "forgetful", self.prepare, op_version=None, **self.others)


@pytest.fixture
def on():
    """`on(prepare, ...)`: a Context on a backend whose implementations have these."""

    def register(prepare, **others):
        register_plugin("forgets", Forgets(prepare, others))
        return nn.Context(["forgetful"], fallback="raise")

    yield register
    unregister_plugin("forgets")


def fails(call):
    return 1 // 0


@pytest.mark.parametrize("answer", [None, np.tanh])
def test_what_is_no_prepared_is_refused(on, answer):
    x = nn.Variable.from_numpy_array(np.float32([1, 2, 3]))
    with nn.context_scope(on(lambda call: answer)):
        y = F.tanh(x)
        with pytest.raises(TypeError, match=f"prepare of {TANH} by {WHO}: it returned .*, not a Prepared\nWhat to do"):
            y.forward()
        assert "not a Prepared" in str(nn.explain(y))
    with pytest.raises(TypeError, match=f"{WHO}: it returned"):
        warm_up("forgetful")


def test_what_prepare_raises_has_a_note(on):
    with nn.context_scope(on(fails)), pytest.raises(ZeroDivisionError) as caught:
        F.tanh(nn.NdArray.from_numpy_array(np.float32([1, 2, 3])))
    assert caught.value.__notes__ == [f"while {WHO} prepared Tanh(float32[3])"]


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ({"attaches": ("x", "nope")}, "'nope' is no input or output of the op"),
        ({"omits": ("y",)}, "'y' is no auxiliary output of the op"),
        ({"omits": ("plaec",)}, "'plaec' is no auxiliary output of the op\n.*place\n.*did you mean 'place'"),
    ],
)
def test_names_that_the_op_does_not_have_are_refused(on, names, wrong):
    context = on(lambda call: Prepared(reference_run(call)), **names)
    (field,) = names
    with nn.context_scope(context), pytest.raises(TypeError, match=f"{field}=.* of MaxPooling by {WHO}: {wrong}"):
        F.max_pooling(nn.NdArray((1, 2, 4, 4)), (2, 2))


def test_names_that_the_op_has_are_taken(on):
    x = nn.NdArray.from_numpy_array(np.float32([[[[1, 2], [3, 4]]]]))
    with nn.context_scope(on(lambda call: Prepared(reference_run(call)), attaches=("x", "y"))):
        assert F.max_pooling(x, (2, 2)).data.tolist() == [[[[4]]]]


def test_what_layout_raises_has_a_note(on):
    x = nn.Variable((1, 2, 4, 4))
    with nn.context_scope(on(fails, layout=fails)):
        y = F.max_pooling(x, (2, 2))
        with pytest.raises(ZeroDivisionError) as caught:
            y.forward()
    (note,) = caught.value.__notes__
    assert note.startswith(f"while {WHO} said the layout of MaxPooling(float32[1, 2, 4, 4]")
