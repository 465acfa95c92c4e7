"""What a plugin hands over: implementations, families, array classes, executors."""

import math

import pytest

from atled_contexts import (
    BackendInfo,
    Implementation,
    PluginError,
    PluginInfo,
    Registrar,
    implementations,
    register_plugin,
)
from fake_plugins import FakePlugin, nothing


@pytest.fixture
def registrar():
    return Registrar(PluginInfo("mine", "1.0", "atled-mine", "0.1", (BackendInfo("mine"),)))


def test_several_implementations_of_one_op_keep_their_order(registrar):
    first = registrar.implementation("Foo", "mine", nothing, note="first")
    second = registrar.implementation("Foo", "mine", nothing, note="second")
    assert registrar.implementations["Foo", "mine"] == [first, second]


@pytest.mark.parametrize(
    "hand_over",
    [
        lambda r: r.implementation("Foo", "mien", nothing),
        lambda r: r.family("mien", lambda op: None),
        lambda r: r.array_class("A", object(), "mien"),
        lambda r: r.native_executor("mien", object()),
    ],
)
def test_a_backend_that_the_plugin_did_not_declare_is_refused(registrar, hand_over):
    with pytest.raises(PluginError, match=r"plugin 'mine' did not declare this backend\n.*\n.*did you mean 'mine'"):
        hand_over(registrar)


@pytest.mark.parametrize("argument", ["prepare", "accepts", "prefers"])
def test_functions_must_be_callable(argument):
    with pytest.raises(TypeError, match=f"{argument}='3' is not callable"):
        Implementation("Foo", "mine", **{"prepare": nothing, argument: "3"})


def test_a_number_ranks_all_calls():
    assert [Implementation("Foo", "mine", nothing, prefers=rank).rank for rank in (3, -0.5, None)] == [3, -0.5, 0]
    assert Implementation("Foo", "mine", nothing, prefers=3).prefers(None) == 3
    for wrong, message in ((math.nan, "prefers=nan ranks nothing"), (True, "prefers=True is not callable")):
        with pytest.raises(TypeError, match=rf"{message}\n.*prefers\(call\), or a number"):
            Implementation("Foo", "mine", nothing, prefers=wrong)


def test_a_family_must_be_callable(registrar):
    with pytest.raises(TypeError, match="is not callable"):
        registrar.family("mine", "Foo")


def test_array_classes_and_executors_are_handed_over_once(registrar):
    registrar.array_class("A", object(), "mine")
    registrar.native_executor("mine", object())
    with pytest.raises(PluginError, match="handed over already"):
        registrar.array_class("A", object(), "mine")
    with pytest.raises(PluginError, match="has one already"):
        registrar.native_executor("mine", object())
    with pytest.raises(PluginError, match="not a name"):
        registrar.array_class("A B", object(), "mine")


def test_a_family_is_asked_once_per_op_and_only_where_nothing_is_handed_over():
    asked = []

    def provider(op):
        asked.append(op)
        return Implementation(op, "mine", nothing, note="of the family") if op == "Baz" else None

    def register(registrar):
        registrar.implementation("Foo", "mine", nothing, note="by itself")
        registrar.family("mine", provider)

    register_plugin("mine", FakePlugin("mine", (BackendInfo("mine"),), register=register))
    assert [made.note for made in implementations("Foo", "mine")] == ["by itself"]
    for _ in range(2):
        assert [made.note for made in implementations("Baz", "mine")] == ["of the family"]
        assert implementations("Bar", "mine") == ()
    assert asked == ["Baz", "Bar"]


def test_omits_is_a_sequence_of_names():
    with pytest.raises(TypeError, match=r"omits='place' is text.*\n.*write omits=\('place',\)"):
        Implementation("Foo", "mine", nothing, omits="place")
