"""Type configs: what their names mean, who may declare them, and Contexts that ask for them."""

import pytest

from atled_contexts import (
    BackendInfo,
    Context,
    ContextError,
    TypeConfig,
    check_type_configs,
    consider,
    plugins,
    register_plugin,
    type_config,
)
from fake_plugins import FakePlugin

EIGHT = TypeConfig("eight", "float8_e5m2")


@pytest.fixture
def eight(host):
    """A host backend that declares a type config of its own, and one that only names one."""

    def register(registrar):
        registrar.implementation("Foo", "small", lambda call: None)

    info = BackendInfo("small", ("float", EIGHT, "named"), host=True)
    register_plugin("small", FakePlugin("small", (info,), register=register))


def test_wide_dtypes_are_computed_as_they_are_and_narrow_ones_in_float32():
    assert (EIGHT.precise, EIGHT.precision) == ("float32", "float32")
    double = TypeConfig("d", "float64")
    assert (double.precise, double.precision) == ("float64", "float64")
    assert TypeConfig("t", "float32", precision="tf32").precise == "float32"


def test_equal_declarations_are_equal():
    assert TypeConfig("eight", "float8_e5m2", precise="float32") == EIGHT
    assert len({EIGHT, TypeConfig("eight", "float8_e5m2"), TypeConfig("eight", "float8_e4m3fn")}) == 2


def test_a_declaration_takes_names_of_dtypes():
    with pytest.raises(TypeError, match=r"dtype is type, not a string\nWhat to do: write names of dtypes"):
        TypeConfig("eight", float)


def test_a_backend_lists_names_and_declares_what_it_invented():
    info = BackendInfo("small", ("float", EIGHT, "named"))
    assert info.type_configs == ("float", "eight", "named")
    assert info.declared == {"float": TypeConfig("float", "float32"), "eight": EIGHT}


@pytest.mark.parametrize("name", ["float", "bf16"])
def test_a_standard_name_keeps_its_meaning(name):
    with pytest.raises(ValueError, match="What to do: give it a name of its own"):
        BackendInfo("small", (TypeConfig(name, "float8_e5m2"),))


def test_tf32_and_bf16_are_standard():
    assert type_config("tf32") == TypeConfig("tf32", "float32", precision="tf32")
    assert type_config("bf16") == TypeConfig("bf16", "bfloat16", precise="float32")
    assert type_config("mixed") is None


def test_a_backend_is_asked_under_a_type_config_of_its_own(eight):
    assert type_config("eight") == EIGHT
    assert Context("small:eight").backend == ["small:eight"]
    with pytest.raises(ContextError, match="type config 'eight' of 'fast:eight' is unknown"):
        Context("fast:eight")


def test_the_reference_computes_what_a_plugin_invented(eight):
    assert Context("reference:eight").backend == ["reference:eight"]
    found = consider("Bar", Context("small:eight", fallback="quiet"), lambda types, device_id: None)
    assert [(one.entry, one.state) for one in found] == [("small:eight", "missing"), ("reference:eight", "chosen")]


def test_a_type_config_that_is_only_a_name_is_refused(eight):
    with pytest.raises(ContextError) as caught:
        Context(["small:float", "small:named"])
    assert "backend 'small' only names type config 'named': nothing says its dtypes" in str(caught.value)
    assert "have the plugin declare it: TypeConfig('named', DTYPE)" in str(caught.value)


def test_a_type_config_whose_dtypes_are_missing_here_is_refused_with_the_remedy(eight, monkeypatch):
    monkeypatch.setattr("atled_contexts.type_configs._why_missing", None)
    check_type_configs(lambda config: ("its library is missing", "pip install it") if config == EIGHT else None)
    assert Context("small:float").backend == ["small:float"]
    with pytest.raises(ContextError) as caught:
        Context(["small:float", "small:eight"])
    assert str(caught.value).endswith("its library is missing\nWhat to do: pip install it")


def test_two_plugins_that_mean_different_things_by_a_name_are_both_refused(eight):
    other = BackendInfo("other", ("float", TypeConfig("eight", "float8_e4m3fn")), host=True)
    register_plugin("other", FakePlugin("other", (other,)))
    refused = {record.name: record for record in plugins() if not record.usable}
    assert sorted(refused) == ["other", "small"]
    assert "type config 'eight' is declared with other dtypes by another plugin" in refused["other"].reason
    assert "give it another name, or set ATLED_PLUGINS_BLOCK=other" in refused["other"].remedy


def test_two_plugins_may_mean_the_same_by_a_name(eight):
    other = BackendInfo("other", ("float", TypeConfig("eight", "float8_e5m2")), host=True)
    register_plugin("other", FakePlugin("other", (other,)))
    assert Context(["other:eight", "small:eight"]).backend == ["other:eight", "small:eight"]
