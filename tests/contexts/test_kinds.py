"""The best backend of a kind is found by what plugins say, not by name."""

import pytest

from atled_contexts import BackendInfo, Context, PluginError, Unusable, best_backend, best_context
from fake_plugins import FakePlugin


def plugin(name, info, **more):
    return FakePlugin(name, (info,), **more)


def test_the_highest_rank_is_the_best_and_of_equals_the_first_by_name(install):
    install(
        b=plugin("b", BackendInfo("b", kind="gpu", rank=5)),
        a=plugin("a", BackendInfo("a", kind="gpu", rank=5)),
        low=plugin("low", BackendInfo("low", kind="gpu")),
        host=plugin("host", BackendInfo("host", host=True, rank=99)),
    )
    assert best_backend("gpu") == "a"
    assert best_backend("cpu") == "host"


def test_a_plugin_that_says_nothing_is_of_the_processor_or_of_another_kind():
    assert BackendInfo("plain", host=True).kind == "cpu"
    assert BackendInfo("plain").kind == "other"


def test_an_unusable_backend_is_not_the_best_and_is_named_where_there_is_none(install):
    sick = plugin("sick", BackendInfo("sick", kind="gpu", rank=50), probe=Unusable("no driver", "install the driver"))
    install(sick=sick, host=plugin("host", BackendInfo("host", host=True)))
    with pytest.raises(PluginError) as caught:
        best_backend("gpu")
    assert "host is cpu" in str(caught.value) and "no driver" in str(caught.value)
    assert "What to do: install the driver" in str(caught.value)


@pytest.mark.parametrize("kind, remedy", [("gpu", 'pip install "atled[cuda'), ("other", "install a plugin for it")])
def test_where_no_plugin_is_of_the_kind_it_is_said_what_to_install(install, kind, remedy):
    install(host=plugin("host", BackendInfo("host", host=True)))
    with pytest.raises(PluginError) as caught:
        best_backend(kind)
    said = str(caught.value).partition("What to do: ")[2]
    assert said.startswith(remedy) and said.endswith("; or ask for another kind")


def test_unknown_kinds_are_refused(install):
    install(host=plugin("host", BackendInfo("host", host=True)))
    with pytest.raises(ValueError, match=r"no such kind(.|\n)*cpu, gpu, simulated"):
        best_backend("tpu")
    with pytest.raises(ValueError, match="kind 'tpu' is unknown"):
        BackendInfo("mine", kind="tpu")


def test_the_context_is_the_one_that_the_plugin_proposes(host):
    assert best_context("cpu", fallback="raise") == Context(["fast:float"], fallback="raise")
