"""Context: its values, its checks and their messages."""

import copy
import pickle

import pytest

from atled_contexts import (
    BackendInfo,
    Context,
    ContextError,
    SettingError,
    Unusable,
    discovery,
    plugin_generation,
    register_plugin,
)
from fake_plugins import FakePlugin


def test_the_default_is_the_backend_of_highest_priority_as_float(host):
    assert Context().backend == ["fast:float"]


def test_the_reference_is_the_default_where_nothing_else_offers_itself(reference):
    register_plugin("gpu", FakePlugin("gpu", (BackendInfo("gpu", ("float",), 0),)))
    assert Context() == Context("reference:float", "CpuCachedArray", "0")


def test_the_environment_overrides_the_default_backends(host, monkeypatch):
    monkeypatch.setenv("ATLED_BACKENDS", "cuda:half, reference")
    assert Context().backend == ["cuda:half", "reference:float"]


def test_a_bad_entry_of_the_environment_is_named_as_such(host, monkeypatch):
    monkeypatch.setenv("ATLED_BACKENDS", "fast:")
    with pytest.raises(ContextError, match=r"ATLED_BACKENDS='fast:': the entry 'fast:' has no type config"):
        Context()


def test_an_error_names_the_setting_that_its_backends_come_from(host, monkeypatch):
    monkeypatch.setenv("ATLED_BACKENDS", "fsat")
    with pytest.raises(ContextError, match=r"^Context\(\) with ATLED_BACKENDS='fsat': none of its backends is usable"):
        Context()
    with pytest.raises(ContextError, match=r"^Context\('fsat'\): none"):
        Context("fsat")


def test_making_one_discovers_the_plugins(reference):
    assert reference.registered == 0
    Context()
    assert reference.registered == 1


def test_backend_is_a_fresh_list_and_backends_are_pairs(host):
    ctx = Context(["fast:double", "reference"])
    ctx.backend.append("x")
    assert ctx.backend == ["fast:double", "reference:float"]
    assert ctx.backends == (("fast", "double"), ("reference", "float"))


def test_a_repeated_entry_counts_once(host):
    assert Context(["fast", "fast:float", "fast:double"]).backend == ["fast:float", "fast:double"]


def test_equal_values_are_equal_and_hash_alike(host):
    same, other = Context("fast:float", "CpuCachedArray", "0"), Context(["fast"])
    assert same == other and hash(same) == hash(other)
    for change in ({"backend": "reference"}, {"device_id": ""}, {"fallback": "quiet"}, {"deterministic": True}):
        assert same != same.replace(local_errors=True)
        assert same != same.replace(**change)
    assert same != "fast:float"


def test_repr_makes_an_equal_one(device):
    for ctx in (Context(), Context(["gpu:half", "fast"], "GpuArray", "1", fallback="raise", local_errors=True)):
        assert eval(repr(ctx)) == ctx


def test_an_assigned_attribute_is_checked_as_the_argument_is(device):
    ctx = Context("gpu:half")
    ctx.device_id = "1"
    ctx.fallback = "raise"
    assert ctx == Context("gpu:half", "GpuArray", "1", fallback="raise")
    for name, value, error, words in (
        ("device_id", "7", ContextError, "has a device '7'"),
        ("device_id", 1, TypeError, "write device_id='1'"),
        ("backend", ["gpu:duble"], ContextError, "did you mean 'double'|type config"),
        ("local_errors", 1, TypeError, "local_errors is int"),
        ("device", "1", AttributeError, "did you mean 'device_id'"),
    ):
        with pytest.raises(error, match=words):
            setattr(ctx, name, value)
    assert ctx == Context("gpu:half", "GpuArray", "1", fallback="raise")
    with pytest.raises(AttributeError, match="every attribute of a Context has a value"):
        del ctx.fallback


def test_an_assigned_backend_list_keeps_what_fits_it(device):
    ctx = Context("gpu", "GpuArray", "1")
    ctx.backend = ["gpulib:half", "gpu"]
    assert ctx == Context(["gpulib:half", "gpu"], "GpuArray", "1")
    ctx.backend = "fast"
    assert ctx == Context("fast", "CpuCachedArray", "0")


def test_its_frozen_form_keeps_the_values_and_cannot_be_changed(device):
    ctx = Context("gpu")
    frozen = ctx.frozen
    assert frozen == ctx and ctx.frozen is frozen and frozen.frozen is frozen
    ctx.device_id = "1"
    assert frozen.device_id == "0" and ctx.frozen.device_id == "1"
    with pytest.raises(AttributeError, match=r"calls .* hold this Context.*\n.*make another: ctx.replace\(device_id="):
        frozen.device_id = "1"
    changed = frozen.replace(device_id="1")
    changed.device_id = "0"
    assert changed == frozen


def test_one_in_a_set_or_a_dict_keeps_its_values(device):
    ctx = Context("gpu")
    chosen = {ctx: "gpu"}
    with pytest.raises(AttributeError, match="it was hashed, as in a set or a dict"):
        ctx.device_id = "1"
    assert chosen[Context("gpu")] == "gpu"
    free = copy.copy(ctx)
    free.device_id = "1"
    assert ctx.device_id == "0"


def test_it_copies_and_pickles(device):
    ctx = Context(["gpu:half", "fast"], device_id="1", fallback="quiet", deterministic=True, local_errors=True)
    for copied in (copy.copy(ctx), copy.deepcopy(ctx), pickle.loads(pickle.dumps(ctx)), copy.copy(ctx.frozen)):
        assert copied == ctx and copied is not ctx
        copied.device_id = "0"
        assert ctx.device_id == "1"


def test_a_pickled_default_array_class_is_that_of_where_it_arrives(device):
    data = pickle.dumps(Context(["gpu", "fast"]))
    discovery.unregister_plugin("gpu")
    assert pickle.loads(data).array_class == "CpuCachedArray"


def test_fallback_comes_from_the_environment_unless_given(host, monkeypatch):
    assert Context().fallback == "warn"
    discovery.reload_plugins()
    monkeypatch.setenv("ATLED_FALLBACK", "raise")
    assert Context().fallback == "raise" and Context(fallback="quiet").fallback == "quiet"


def test_replace_keeps_what_fits_a_new_list(device):
    ctx = Context("gpu:half", "GpuArray", "1", fallback="quiet")
    assert ctx.replace(backend="gpulib") == Context("gpulib", "GpuArray", "1", fallback="quiet")
    assert ctx.replace(backend="fast") == Context("fast", "CpuCachedArray", "0", fallback="quiet")
    with pytest.raises(TypeError, match="did you mean 'device_id'"):
        ctx.replace(device="1")


def test_using_keeps_the_type_config(host):
    ctx = Context("fast:double")
    assert ctx.using("reference").backend == ["reference:double"]
    assert ctx.using("reference:float", "fast").backend == ["reference:float", "fast:double"]
    assert ctx.using(["reference", "fast"]).backend == ["reference:double", "fast:double"]


def test_the_default_array_class_is_that_of_the_first_usable_backend(device):
    assert Context(["absent", "gpulib", "fast"]).array_class == "GpuArray"
    assert Context(["fast", "gpu"]).array_class == "CpuCachedArray"
    assert Context(["fast", "gpu"], "GpuArray").array_class == "GpuArray"


def test_a_backend_may_declare_which_array_class_is_its_default(reference):
    info = BackendInfo("plain", host=True, array_classes=("CpuArray",))
    register_plugin("plain", FakePlugin("plain", (info,)))
    assert Context("plain").array_class == "CpuArray"


@pytest.mark.parametrize("device_id", ["0", ""])
def test_host_backends_have_the_device_ids_that_nnabla_passes(host, device_id):
    assert Context("fast", "CpuArray", device_id).device_id == device_id


def test_a_backend_that_is_absent_stays_beside_a_usable_one(host):
    assert Context(["cuda:float", "fast:float"]).backend == ["cuda:float", "fast:float"]
    assert Context(["cuda:bf16", "fast"]).backend == ["cuda:bf16", "fast:float"]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("fast:", ["entry 'fast:' has no type config after the colon", "write 'fast:float'"]),
        (":float", ["entry ':float' has no backend before the colon"]),
        ("", ["entry '' is empty"]),
        (["fast", ""], ["entry '' is empty"]),
        ([], ["the list of backends is empty"]),
        ("fast:float:half", ["entry 'fast:float:half' is not 'name:type_config'"]),
        ("fast, reference", ["holds several backends", "write a list: ['fast', 'reference']"]),
        (list("fast:float"), ["the characters of 'fast:float'", "write 'fast:float' or ['fast:float']"]),
        ("fast:flaot", ["type config 'flaot' of 'fast:flaot' is unknown", "float, double", "did you mean 'float'?"]),
        ("fast:float64", ["type config 'float64' of 'fast:float64' is unknown", "'fast:double' for arrays of float64"]),
        ("fast:float16", ["type configs of 'fast': float, double", "did you mean 'float'?"]),
        ("fast:half", ["'fast' does not offer type config 'half'", "type configs of 'fast': float, double"]),
        ("fast:bf16", ["'fast' does not offer type config 'bf16'"]),
        (["cuda:flaot", "fast"], ["type config 'flaot' of 'cuda:flaot' is unknown", "did you mean 'float'?"]),
    ],
)
def test_malformed_entries_are_refused(host, backend, words):
    with pytest.raises(ContextError) as caught:
        Context(backend)
    text = str(caught.value)
    assert text.startswith(f"Context({backend!r}): ") and "\nWhat to do: " in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backend": 3}, ["backend is int", "write 'name:type_config'"]),
        ({"backend": ["fast", 3]}, ["the entry 3 is int"]),
        ({"array_class": None}, ["array_class is NoneType"]),
        ({"device_id": 0}, ["device_id is int", "write device_id='0'"]),
        ({"fallback": True}, ["fallback is bool"]),
        ({"deterministic": 1}, ["deterministic is int"]),
    ],
)
def test_wrong_types_are_refused(host, arguments, words):
    with pytest.raises(TypeError) as caught:
        Context(**arguments)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_fallback_mode_gets_the_nearest(host):
    with pytest.raises(ContextError, match="did you mean 'raise'"):
        Context(fallback="rase")


def test_reserved_type_configs_need_a_backend_that_lists_them(device):
    assert Context("gpulib:bf16").backend == ["gpulib:bf16"]
    with pytest.raises(ContextError, match="'gpu' does not offer type config 'bf16'"):
        Context("gpu:bf16")


def test_no_usable_backend_lists_what_is_known_and_why_it_is_not_usable(host):
    sick = FakePlugin("sick", (BackendInfo("sick"),), probe=Unusable("no driver", "install the driver"))
    register_plugin("sick", sick)
    with pytest.raises(ContextError) as caught:
        Context(["sick:float", "fsat:float"])
    assert str(caught.value) == (
        "Context(['sick:float', 'fsat:float']): none of its backends is usable\n"
        "Considered:\n"
        "  sick is unusable: no driver\n"
        "  fsat is absent: no usable plugin offers it\n"
        "  fast is usable, with float, double\n"
        "  reference is usable, with float, half, double\n"
        "What to do: install the driver; did you mean 'fast'?; or name a usable backend behind it, such as 'fast'"
    )


def test_a_plugin_that_could_not_tell_its_backends_shows_in_the_error(host, install):
    install(cuda=ImportError("libfoo is missing"))
    with pytest.raises(ContextError, match=r"cuda is unusable: its import failed: ImportError: libfoo is missing"):
        Context("cuda:float")
    with pytest.raises(ContextError, match=r"cudnn is absent: no usable plugin offers it \(atled-cuda 0.1 is unusable"):
        Context("cudnn:float")


def test_a_broken_extension_does_not_hide_that_there_is_nothing_at_all():
    with pytest.raises(ContextError, match=r"the default Context: no usable plugin offers a backend for it"):
        Context()


def test_an_array_class_of_no_usable_backend_is_refused(device):
    with pytest.raises(ContextError) as caught:
        Context(["cuda", "fast"], "CpuCachedArry")
    assert str(caught.value) == (
        "Context(['cuda', 'fast'], array_class='CpuCachedArry'): "
        "no usable backend of the list works on array class 'CpuCachedArry'\n"
        "Considered:\n"
        "  fast works on CpuCachedArray, CpuArray\n"
        "  cuda is absent: no usable plugin offers it\n"
        "What to do: did you mean 'CpuCachedArray'?"
    )
    with pytest.raises(ContextError, match="array class 'GpuArray'"):
        Context("fast", "GpuArray")


def test_a_device_of_no_usable_backend_is_refused(device):
    assert Context("gpu", device_id="1").device_id == "1"
    with pytest.raises(ContextError) as caught:
        Context(["gpu", "fast"], device_id="2")
    text = str(caught.value)
    assert "no usable backend of the list has a device '2'" in text and "gpu has '0', '1'" in text


def test_a_plugin_that_cannot_list_its_devices_has_none(host):
    def broken(backend):
        raise OSError("driver gone")

    register_plugin("dev", FakePlugin("dev", (BackendInfo("dev"),), devices=broken))
    assert Context(["dev", "fast"]).device_id == "0"
    with pytest.raises(ContextError, match=r"atled-dev 0.1 failed to list them: OSError: driver gone"):
        Context("dev")


def test_the_generation_of_the_plugins_does_not_move_by_making_one(host):
    before = plugin_generation()
    Context()
    assert plugin_generation() == before


def test_local_errors_come_from_the_environment_unless_given(host, monkeypatch):
    assert Context().local_errors is False
    monkeypatch.setenv("ATLED_LOCAL_ERRORS", "1")
    discovery.reload_plugins()
    assert Context().local_errors is True and Context(local_errors=False).local_errors is False


@pytest.mark.parametrize(("text", "value"), [("1", True), ("0", False), ("no", False), ("", False)])
def test_deterministic_comes_from_the_environment_unless_given(host, monkeypatch, text, value):
    monkeypatch.setenv("ATLED_DETERMINISTIC", text)
    assert Context("fast").deterministic is value
    assert Context("fast", deterministic=not value).deterministic is not value


def test_a_word_that_is_no_truth_value_is_refused(host, monkeypatch):
    monkeypatch.setenv("ATLED_DETERMINISTIC", "maybe")
    with pytest.raises(SettingError, match="neither true"):
        Context("fast")
