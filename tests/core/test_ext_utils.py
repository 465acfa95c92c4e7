"""Extensions as modules, preferred array classes."""

import threading

import pytest

import atled as nn
from atled import ext_utils as e
from atled.arrays.storage import POOL
from atled.contrib.context import extension_context
from atled_contexts import backend_info

NAMES = e.list_extensions()


def test_the_core_brings_one():
    assert "reference" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_extension_is_a_module_of_nnablas_form(name):
    module = e.import_extension_module(name)
    assert module is e.import_extension_module(name) and module.__name__ == f"nnabla_ext.{name}"
    assert module.get_device_count() == len(module.get_devices()) >= 1
    # The last type config that it offers: not every backend has half.
    offered = backend_info(name).type_configs[-1]
    assert module.context(type_config=offered).backend[0] == f"{name}:{offered}"
    for device in module.get_devices():
        module.device_synchronize(device)
        module.synchronize(device_id=device)
        assert module.context(device_id=device).device_id == device
    module.clear_memory_cache()
    assert module.array_classes()[0] == module.context().array_class
    assert module.__version__
    assert e.get_extension_context(name) == nn.get_extension_context(name)


def test_device_numbers_and_further_options():
    context = e.get_extension_context("reference", device_id=0, fallback="raise")
    assert context.device_id == "0" and context.fallback == "raise"


def test_clearing_gives_host_memory_back():
    array = nn.NdArray((1000,))
    array.fill(1)
    del array
    e.import_extension_module("reference").clear_memory_cache()
    assert POOL.kept_bytes == 0


def test_an_extension_that_is_not_there_is_an_import_error():
    with pytest.raises(ImportError, match=r"usable are .*reference") as raised:
        e.import_extension_module("nonesuch")
    assert raised.value.name == "nnabla_ext.nonesuch" and raised.value.__cause__ is not None
    with pytest.raises(ImportError):
        e.get_extension_context("nonesuch")


def test_names_out_of_use_still_work_and_say_so(caplog):
    with caplog.at_level("WARNING", logger="atled"):
        assert extension_context("reference") == nn.get_extension_context("reference")
        with pytest.raises(ImportError, match="'cudnn'"):
            e.import_extension_module("cuda.cudnn")
    assert "use ext_utils.get_extension_context('reference')" in caplog.messages[0]
    assert "use 'cudnn'" in caplog.messages[1]


def test_the_preference_of_a_thread_is_its_own_and_goes_along_with_bind():
    found = {}

    def look(name):
        found[name] = nn.array_classes()[0]

    def prefer():
        nn.prefer_cached_array(False)
        look("own")
        bound = threading.Thread(target=nn.bind(look), args=("bound",))
        bound.start()
        bound.join()

    for target in (prefer, lambda: look("other")):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    look("here")
    assert found == {"own": "CpuArray", "bound": "CpuArray", "other": "CpuCachedArray", "here": "CpuCachedArray"}


def test_the_preferred_array_class_is_that_of_presets():
    assert nn.array_classes() == ["CpuCachedArray", "CpuArray"]
    try:
        nn.prefer_cached_array(False)
        assert nn.array_classes() == ["CpuArray", "CpuCachedArray"]
        assert e.get_extension_context("reference").array_class == "CpuArray"
    finally:
        nn.reset_array_preference()
    assert e.get_extension_context("reference").array_class == "CpuCachedArray"


def test_available_contexts_can_be_added_to():
    assert nn.available_contexts == NAMES
    nn.add_available_context("mine")
    nn.add_available_context("mine")
    try:
        assert nn.available_contexts == [*NAMES, "mine"]
    finally:
        e._added.remove("mine")


def test_the_front_names_what_it_imports_late():
    assert {"array_classes", "available_contexts", "logger"} <= set(dir(nn))
    with pytest.raises(AttributeError, match=r"atled\.nothing: no such name"):
        nn.nothing  # noqa: B018  # the access is what is tested
