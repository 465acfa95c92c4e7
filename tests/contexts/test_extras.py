"""Extras: what is known of plugins that are not installed, and how to install them."""

import pytest

from atled_contexts import (
    BackendInfo,
    Context,
    ContextError,
    PluginError,
    SettingError,
    get_extension_context,
    plugins,
    settings,
)
from atled_contexts.extras import extras, how_to_install, settings_of_extras
from atled_contexts.settings import idle_settings
from fake_plugins import FakePlugin

CPU = 'pip install "atled[cpu]"'
CUDA = 'pip install "atled[cuda12]" or pip install "atled[cuda13]"'


@pytest.fixture(autouse=True)
def no_settings_of_plugins(monkeypatch):
    """Whatever plugins this process has loaded before: only the settings of this package are declared."""
    own = {name: one for name, one in settings._declared.items() if one.package == "atled_contexts"}
    monkeypatch.setattr(settings, "_declared", own)


def test_settings_of_a_plugin_that_is_not_installed_are_known(reference, monkeypatch):
    assert {"ATLED_NUM_THREADS", "ATLED_CACHE_DIR"} <= set(settings_of_extras())
    monkeypatch.setenv("ATLED_NUM_THREADS", "2")
    monkeypatch.setenv("ATLED_CACHE_DIR", "/nowhere")
    assert [record.name for record in plugins()] == ["reference"]
    assert {name: extra.install for name, extra in idle_settings().items()} == {
        "ATLED_CACHE_DIR": CPU,
        "ATLED_NUM_THREADS": CPU,
    }


def test_a_misspelt_setting_of_a_plugin_that_is_not_installed_is_an_error_with_the_nearest(reference, monkeypatch):
    monkeypatch.setenv("ATLED_NUM_THREAD", "2")
    with pytest.raises(SettingError, match="did you mean 'ATLED_NUM_THREADS'"):
        plugins()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("cpu", CPU),
        ("sim", 'pip install "atled[sim]"'),
        ("gpu", CUDA),
        ("cuda", CUDA),
        ("cudnn", CUDA),
        ("cpv", "did you mean 'cpu'?"),
        ("toaster", "install a plugin that offers 'toaster'"),
    ],
)
def test_a_backend_that_is_not_installed_names_what_brings_it(reference, monkeypatch, name, remedy):
    with pytest.raises(ContextError) as caught:
        Context(name)
    assert f"What to do: {remedy}" in str(caught.value)
    with pytest.raises(PluginError) as caught:
        get_extension_context(name)
    assert f"What to do: {remedy}" in str(caught.value)
    monkeypatch.setenv("ATLED_BACKENDS", name)
    with pytest.raises(ValueError, match="none of its backends is usable") as caught:
        Context()
    assert f"What to do: {remedy}" in str(caught.value)


def test_a_device_family_is_served_by_any_extra_with_a_backend_of_it(monkeypatch):
    extra = extras()[0]._replace(name="rocm6", backends={"hip": "rocm"})
    monkeypatch.setattr("atled_contexts.extras.extras", lambda: (extra,))
    assert how_to_install("rocm") == 'pip install "atled[rocm6]"'


def test_a_blocked_plugin_is_unblocked_not_installed(install, reference, monkeypatch):
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "cpu")
    install(cpu=FakePlugin("cpu", (BackendInfo("cpu"),)))
    with pytest.raises(ValueError, match="What to do: take cpu out of ATLED_PLUGINS_BLOCK"):
        Context("cpu")
