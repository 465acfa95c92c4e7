"""Scopes: which Context is in force in blocks, threads and tasks."""

import asyncio
import threading

import pytest

from atled_contexts import (
    API_VERSION,
    BackendInfo,
    Context,
    ContextError,
    ContextScopeError,
    PluginError,
    PluginInfo,
    Unusable,
    bind,
    context_in_force,
    context_scope,
    get_current_context,
    get_extension_context,
    hookimpl,
    register_plugin,
    reset_default_context,
    set_default_context,
    trace,
    unregister_plugin,
    using,
)
from atled_contexts.observation import active_trace
from fake_plugins import FakePlugin


def in_a_thread(function):
    """What `function` gives in a new thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_outside_of_scopes_the_default_context_is_in_force(host):
    assert get_current_context() == Context()
    assert get_current_context() is get_current_context()


def test_scopes_nest_and_end_also_by_an_exception(host):
    outer, inner = Context("reference"), Context("fast:double")
    with context_scope(outer) as given:
        assert given is outer and get_current_context() is outer
        with pytest.raises(KeyError), context_scope(inner):
            assert get_current_context() is inner
            raise KeyError
        assert get_current_context() is outer
    assert get_current_context() == Context()


def test_the_default_can_be_set_for_all_threads_and_taken_back(host):
    ctx = Context("reference:double")
    set_default_context(ctx)
    assert get_current_context() is ctx and in_a_thread(get_current_context) is ctx
    reset_default_context()
    assert get_current_context() == Context()


def test_the_default_cannot_be_set_inside_a_scope(host):
    with context_scope(Context("reference")), pytest.raises(AssertionError, match="inside a scope with") as caught:
        set_default_context(Context())
    assert isinstance(caught.value, ContextScopeError) and "What to do: " in str(caught.value)
    assert get_current_context() == Context()


@pytest.mark.parametrize("function", [context_scope, set_default_context])
def test_only_a_context_is_taken(host, function):
    with pytest.raises(TypeError, match=r"What to do: pass Context"):
        function("fast")


def test_the_default_follows_the_plugins(host):
    assert get_current_context().backend == ["fast:float"]
    unregister_plugin("fast")
    assert get_current_context().backend == ["reference:float"]


def test_using_overrides_the_backends_for_a_block(device):
    with context_scope(Context("gpu:half", "GpuArray", "1", fallback="quiet")):
        with using("reference") as ctx:
            assert get_current_context() is ctx
            assert ctx == Context("reference:half", "CpuCachedArray", "0", fallback="quiet")
        assert get_current_context().backend == ["gpu:half"]


def test_a_thread_starts_outside_of_scopes_and_bind_carries_them_in(host):
    ctx = Context("reference")
    with context_scope(ctx), trace() as t:
        assert in_a_thread(get_current_context) == Context()
        assert in_a_thread(bind(get_current_context)) is ctx
        assert in_a_thread(bind(active_trace)) is t
        bound = bind(get_current_context)
    assert in_a_thread(bound) is ctx and get_current_context() == Context()


def test_a_bound_function_runs_in_several_threads_at_once(host):
    barrier = threading.Barrier(3, timeout=10)
    seen = []

    def work(backend):
        with using(backend):
            barrier.wait()
            seen.append(get_current_context().backend[0])

    with context_scope(Context("fast:double")):
        bound = bind(work)
    threads = [threading.Thread(target=bound, args=(name,)) for name in ("fast", "reference", "reference:float")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == ["fast:double", "reference:double", "reference:float"]
    assert bound.__name__ == "work"


def test_asyncio_tasks_have_scopes_of_their_own(host):
    async def work(backend):
        with using(backend):
            await asyncio.sleep(0)
            return get_current_context().backend

    async def both():
        return await asyncio.gather(work("fast"), work("reference"))

    assert asyncio.run(both()) == [["fast:float"], ["reference:float"]]
    assert get_current_context() == Context()


def test_an_extension_context_is_the_preset_of_its_plugin(host):
    assert get_extension_context("fast") == Context("fast:float")
    assert get_extension_context("fast", type_config="double", device_id=0, array_class="CpuArray") == Context(
        "fast:double", "CpuArray"
    )


def test_an_extension_context_takes_the_fields_of_every_context(host):
    ctx = get_extension_context("fast", fallback="raise", deterministic=True)
    assert (ctx.fallback, ctx.deterministic) == ("raise", True)


def test_what_a_preset_raises_passes_through(host):
    with pytest.raises(ValueError, match="'fast' does not offer type config 'half'"):
        get_extension_context("fast", type_config="half")


def test_an_unknown_extension_gets_the_nearest_name_and_all_reasons(host):
    register_plugin("sick", FakePlugin("sick", (), probe=Unusable("no driver", "x"), extension_names=("sickdnn",)))
    with pytest.raises(PluginError) as caught:
        get_extension_context("fsat")
    assert str(caught.value) == (
        "get_extension_context('fsat'): no usable plugin has an extension of that name\n"
        "Considered:\n"
        "  usable are fast\n"
        "  atled-sick 0.1 is unusable: no driver\n"
        "What to do: did you mean 'fast'?"
    )
    with pytest.raises(PluginError, match="What to do: x"):
        get_extension_context("sickdnn")


def test_an_extension_name_of_several_plugins_is_ambiguous(host):
    register_plugin("other", FakePlugin("other", extension_names=("fast",)))
    with pytest.raises(PluginError, match="several plugins have a preset of that name"):
        get_extension_context("fast")


def test_a_preset_that_gives_no_context_is_an_error(reference):
    register_plugin("bare", FakePlugin("bare", extension_names=("bare",)))
    with pytest.raises(PluginError, match=r"atled-bare 0.1 lists this extension name, but its atled_preset gave None"):
        get_extension_context("bare")


class Plain:
    """A plugin without presets."""

    def __init__(self, name: str, backend: str) -> None:
        self.info = PluginInfo(name, API_VERSION, f"atled-{name}", "0.1", (BackendInfo(backend),), (name,))

    @hookimpl
    def atled_info(self):
        return self.info


def test_without_a_preset_an_extension_is_its_backend_and_the_reference(reference):
    register_plugin("plain", Plain("plain", "plain"))
    assert get_extension_context("plain", fallback="raise") == Context(
        ["plain:float", "reference:float"], fallback="raise"
    )
    with pytest.raises(TypeError, match="nonsense"):
        get_extension_context("plain", nonsense=1)


def test_without_a_preset_an_extension_needs_a_backend_of_its_name(reference):
    register_plugin("other", Plain("other", "special"))
    with pytest.raises(PluginError, match="neither a backend of that name nor the hook atled_preset"):
        get_extension_context("other")


def test_using_overrides_other_arguments_with_or_without_backends(host):
    with using(fallback="raise", deterministic=True) as ctx:
        assert (ctx.backend, ctx.fallback, ctx.deterministic) == (["fast:float"], "raise", True)
        with using("reference:double", fallback="quiet") as inner:
            assert (inner.backend, inner.fallback, inner.deterministic) == (["reference:double"], "quiet", True)
    with pytest.raises(TypeError, match=r"did you mean 'fallback'\?"):
        using(falback="raise")
    with pytest.raises(ContextError, match=r"did you mean 'quiet'\?"):
        using(fallback="quit")


def test_an_assignment_holds_wherever_the_context_is_in_force(device):
    ctx = Context("gpu")
    with context_scope(ctx):
        before = context_in_force()
        ctx.device_id = "1"
        assert get_current_context() is ctx and context_in_force().device_id == "1"
        assert before.device_id == "0"
    get_current_context().backend = "gpu"  # the default, which nobody set: it is chosen now
    unregister_plugin("fast")
    assert get_current_context().backend == ["gpu:float"]
    reset_default_context()
    assert get_current_context().backend == ["reference:float"]
