"""Selection: order, placement, fallback, caching, guards."""

import math
import signal
import threading
import warnings

import pytest

from atled_contexts import (
    BackendInfo,
    Context,
    ContextError,
    FallbackCount,
    FallbackWarning,
    Implementation,
    PluginWarning,
    SelectionError,
    clear_selection_cache,
    consider,
    count_fallback,
    fallback_counts,
    plugin_generation,
    plugins,
    register_plugin,
    reload_plugins,
    reset_fallback_counts,
    select,
    selection,
    unregister_plugin,
)
from fake_plugins import FakeCall, FakePlugin, nothing


def states(decision_or_candidates):
    """(entry, state) of all candidates, in order."""
    candidates = getattr(decision_or_candidates, "candidates", decision_or_candidates)
    return [(candidate.entry, candidate.state) for candidate in candidates]


def test_the_first_backend_that_accepts_computes(host):
    ctx = Context(["fast:double", "reference"])
    decision = select("Foo", ctx, 1, FakeCall)
    assert (decision.op, decision.context, decision.backend, decision.plugin) == ("Foo", ctx, "fast", "fast")
    assert (decision.type_config, decision.call.type_config, decision.device_id) == ("double", "double", "0")
    assert (decision.implementation.note, decision.fallback, decision.reason) == ("tiled", False, "")
    assert states(decision) == [("fast:double", "chosen"), ("reference:float", "not asked")]


def test_a_listed_backend_on_the_same_device_is_placement(device):
    device.lib = "only even shapes"
    decision = select("Foo", Context(["gpulib:half", "gpu"], fallback="raise"), 1, FakeCall)
    assert (decision.backend, decision.fallback) == ("gpu", False)
    assert decision.reason == "gpulib:half: only even shapes"
    assert states(decision)[:2] == [("gpulib:half", "refused"), ("gpu:float", "chosen")]


def test_the_reference_that_is_listed_is_placement_on_the_host(host):
    host.foo = "too odd"
    decision = select("Foo", Context(["fast", "reference"], fallback="raise"), 1, FakeCall)
    assert (decision.backend, decision.fallback) == ("reference", False)


def test_the_unlisted_reference_is_fallback_and_takes_the_first_type_config(host):
    host.foo = "too odd"
    with pytest.warns(FallbackWarning) as caught:
        decision = select("Foo", Context("fast:double"), 1, FakeCall)
    assert (decision.backend, decision.type_config, decision.fallback) == ("reference", "double", True)
    assert decision.reason == "fast:double: too odd; reference:double: backend 'reference' is not listed"
    assert str(caught[0].message) == (
        "Foo(float32[2, 3]) under Context(['fast:double'], 'CpuCachedArray', '0'): "
        "it runs on 'reference:double' as a fallback\n"
        "Considered: fast:double: too odd; reference:double: backend 'reference' is not listed\n"
        "What to do: put that backend first in the Context, accept it with fallback='quiet', or refuse it with 'raise'"
    )
    assert caught[0].filename == __file__


def test_the_reference_takes_the_first_type_config_that_it_knows(device):
    device.lib = "no"
    ctx = Context(["gpulib:bf16", "gpulib:half", "fast:double"], fallback="quiet")
    assert [entry for entry, _ in states(consider("Bar", ctx, FakeCall))][-1] == "reference:half"


def test_warn_tells_once_per_op_and_reason(host):
    host.foo = "too odd"
    ctx = Context("fast")
    with pytest.warns(FallbackWarning):
        select("Foo", ctx, 1, FakeCall)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select("Foo", ctx, 1, FakeCall)
        select("Foo", ctx, 2, FakeCall)
    host.foo = "too long"
    with pytest.warns(FallbackWarning, match="too long"):
        select("Foo", ctx, 3, FakeCall)
    assert fallback_counts() == {("Foo", "reference"): FallbackCount(4)}


def test_a_warning_that_is_an_error_is_one_every_time(host):
    host.foo = "too odd"
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FallbackWarning):
                select("Foo", Context("fast"), 1, FakeCall)


def test_quiet_only_counts(host):
    ctx = Context("fast", fallback="quiet")
    for _ in range(3):
        select("Bar", ctx, 1, FakeCall)
    count_fallback("Bar", "reference", calls=10, bytes_moved=640)
    assert fallback_counts() == {("Bar", "reference"): FallbackCount(13, 640)}
    reset_fallback_counts()
    assert fallback_counts() == {}


def test_a_caller_who_counts_what_it_runs_is_told_but_not_counted(host):
    with pytest.warns(FallbackWarning):
        select("Bar", Context("fast"), 1, FakeCall, count=False)
    assert fallback_counts() == {}


def test_raise_refuses_with_all_candidates_and_a_remedy(host):
    host.foo = "too odd"
    with pytest.raises(SelectionError) as caught:
        select("Foo", Context(["cuda", "fast"], fallback="raise"), 1, FakeCall)
    text = str(caught.value)
    assert text.startswith("Foo(float32[2, 3]) under Context(['cuda:float', 'fast:float'], ")
    assert "no backend that the Context allows computes it" in text
    for words in ("absent", "no usable plugin offers", "too odd", "forbidden", "fallback='raise'"):
        assert words in text
    assert "What to do: add 'reference:float' to the Context's list, if running there is fine" in text
    assert fallback_counts() == {}


def test_a_listed_backend_on_another_device_is_fallback(device):
    device.foo = "too odd"
    with pytest.warns(FallbackWarning, match=r"on another device than the Context's first backend \(host, not gpu\)"):
        decision = select("Foo", Context(["gpu", "fast"]), 1, FakeCall)
    assert (decision.backend, decision.fallback) == ("fast", True)
    with pytest.raises(SelectionError, match="or put 'fast:float' first"):
        select("Foo", Context(["gpu", "fast"], fallback="raise"), 1, FakeCall)


def test_raise_passes_over_a_fallback_to_a_later_backend_on_the_device(device):
    device.foo = "too odd"
    decision = select("Foo", Context(["gpu", "fast", "gpulib"], fallback="raise"), 1, FakeCall)
    assert states(decision)[:3] == [("gpu:float", "refused"), ("fast:float", "forbidden"), ("gpulib:float", "chosen")]


@pytest.mark.parametrize("fallback", ["raise", "warn", "quiet"])
def test_a_context_without_a_host_backend_never_leaves_its_device(device, fallback):
    device.foo = "too odd"
    with pytest.raises(SelectionError) as caught:
        select("Foo", Context("gpu", fallback=fallback), 1, FakeCall)
    assert "lists no usable host backend, so it never leaves its device" in " ".join(str(caught.value).split())
    allow = " with fallback='warn'" if fallback == "raise" else ""
    assert f"add 'reference:float' to the Context's list{allow}, if running there is fine" in str(caught.value)
    assert fallback_counts() == {}


@pytest.mark.parametrize(("fallback", "allow"), [("raise", " with fallback='warn'"), ("quiet", "")])
def test_a_listed_backend_of_another_device_is_allowed_by_one_of_the_host(device, fallback, allow):
    def register(registrar):
        registrar.array_class("NpuArray", "the device array", "npu", default=True)
        registrar.implementation("Foo", "npu", nothing)

    register_plugin("npu", FakePlugin("npu", (BackendInfo("npu"),), register=register))
    device.foo = "too odd"
    with pytest.raises(SelectionError, match=f"put 'npu:float' first, or add a backend of the host to .* list{allow}$"):
        select("Foo", Context(["gpu", "npu"], fallback=fallback), 1, FakeCall)
    host_too = Context(["gpu", "npu", "reference"], fallback="quiet")
    assert select("Foo", host_too, 1, FakeCall).backend == "npu"


def test_an_absent_first_backend_leaves_the_context_at_home_on_the_next(host):
    decision = select("Foo", Context(["cuda", "fast"], fallback="raise"), 1, FakeCall)
    assert (decision.backend, decision.fallback) == ("fast", False)
    assert decision.reason == "cuda:float: no usable plugin offers it"


def test_backends_that_went_after_the_context_was_made_are_no_way_to_the_reference(host):
    ctx = Context("fast")
    unregister_plugin("fast")
    with pytest.raises(SelectionError, match="absent"):
        select("Foo", ctx, 1, FakeCall)


def test_a_device_id_that_only_one_backend_has(device):
    seen = []

    def make_call(type_config, device_id):
        seen.append(device_id)
        return FakeCall(type_config, device_id)

    register_plugin("one", FakePlugin("one", (BackendInfo("one"),), devices=["0"]))
    candidates = consider("Foo", Context(["one", "gpu", "fast"], device_id="1"), make_call)
    assert states(candidates)[0] == ("one:float", "refused") and "has no device '1'" in candidates[0].reason
    assert seen == ["1", ""]  # the device's own, and the host's


def test_consider_asks_all_and_has_no_effect(device):
    device.foo = "too odd"
    ctx = Context(["gpu", "gpulib", "fast"])
    assert states(consider("Foo", ctx, FakeCall)) == [
        ("gpu:float", "refused"),
        ("gpulib:float", "chosen"),
        ("fast:float", "accepted"),
        ("reference:float", "accepted"),
    ]
    device.lib = "too odd as well"
    assert ("fast:float", "chosen") in states(consider("Foo", ctx, FakeCall))
    assert fallback_counts() == {}
    assert states(consider("Nix", ctx, FakeCall)) == [
        ("gpu:float", "missing"),
        ("gpulib:float", "missing"),
        ("fast:float", "missing"),
        ("reference:float", "missing"),
    ]


def several(*rows):
    """Register backend `many` with implementations of Foo given as (note, accepts, prefers)."""

    def register(registrar):
        for note, accepts, prefers in rows:
            registrar.implementation("Foo", "many", nothing, accepts=accepts, prefers=prefers, note=note)

    register_plugin("many", FakePlugin("many", (BackendInfo("many", host=True),), register=register))


def test_among_those_of_one_backend_the_preferred_one_computes(reference):
    several(
        ("plain", None, None),
        ("best", None, lambda call: 3.5),
        ("refusing", lambda call: "no", lambda call: 9),
        ("good", None, lambda call: 2),
    )
    decision = select("Foo", Context("many"), 1, FakeCall)
    assert decision.implementation.note == "best" and decision.reason == ""
    assert [candidate.state for candidate in decision.candidates[:4]] == ["accepted", "chosen", "refused", "accepted"]


def test_of_equals_the_first_computes(reference):
    several(("first", None, None), ("second", None, None))
    assert select("Foo", Context("many"), 1, FakeCall).implementation.note == "first"


def decided(size, context="many"):
    """The decision for a call that is told by its size."""

    def make_call(*where):
        call = FakeCall(*where)
        call.size = size
        return call

    return select("Foo", Context(context), size, make_call)


def test_one_of_a_fixed_rank_is_asked_only_about_what_none_of_that_rank_before_it_accepts(reference):
    asked = []
    several(
        ("first", lambda call: asked.append("first") or call.size < 3 or "too large", None),
        ("second", lambda call: asked.append("second") or True, 0.0),
        ("last", lambda call: asked.append("last") or True, -1.0),
    )
    small, large = decided(1), decided(3)
    assert [each.implementation.note for each in (small, large)] == ["first", "second"]
    assert "last" not in asked and asked[0] != asked[-1] == "second"
    assert [candidate.state for candidate in small.candidates[:3]] == ["chosen", "not asked", "not asked"]
    assert [candidate.state for candidate in large.candidates[:3]] == ["refused", "chosen", "not asked"]


def test_all_are_asked_where_all_are_to_be_considered(reference):
    several(("first", None, None), ("second", None, 0.0), ("last", None, -1.0))
    found = consider("Foo", Context("many"), FakeCall)
    assert [candidate.state for candidate in found[:3]] == ["chosen", "accepted", "accepted"]


def test_one_of_a_higher_fixed_rank_is_asked_although_another_accepts(reference):
    several(("plain", None, None), ("best", None, 2.0), ("by call", None, lambda call: 1))
    assert select("Foo", Context("many"), 1, FakeCall).implementation.note == "best"


def test_further_calls_are_decided_like_one_for_which_the_first_was_asked_alone(reference):
    asked = []
    several(
        ("first", lambda call: asked.append("first") or (call.size < 3 or "too large"), None),
        ("rest", lambda call: asked.append("rest") or True, -1.0),
    )

    def described(decision):
        said = [(each.entry, each.state, each.reason, each.note) for each in decision.candidates]
        return decision.implementation.note, decision.call.size, decision.reason, decision.fallback, said

    found = [described(decided(size)) for size in (1, 2, 3, 4)]
    assert asked == ["first", "first", "first", "first", "rest", "first", "first", "rest"]
    for size, before in zip((1, 2, 3, 4), found, strict=True):
        clear_selection_cache()
        assert described(decided(size)) == before
    assert [each[0] for each in found] == ["first", "first", "rest", "rest"]


def test_a_failure_behind_a_decision_that_others_are_like_sets_the_plugin_aside(reference):
    def accepts(call):
        return True if call.size < 3 else 1 // 0

    several(("first", accepts, None))

    context = ["many", "reference"]
    assert [decided(size, context).backend for size in (1, 2)] == ["many", "many"]
    with pytest.warns(PluginWarning, match="division"):
        assert decided(3, context).backend == "reference"


def failing(call):
    raise ZeroDivisionError("boom")


def exiting(call):
    raise SystemExit(3)


def test_an_answer_that_is_none_is_a_reason_and_the_next_is_asked(reference):
    several(("b", lambda call: False, None), ("c", lambda call: "", None), ("f", None, lambda call: -1))
    decision = select("Foo", Context("many"), 1, FakeCall)
    assert decision.implementation.note == "f"
    assert [candidate.reason for candidate in decision.candidates[:2]] == [
        "accepts gave False instead of True or a reason in words",
        "it gave no reason",
    ]


def family(provider):
    register_plugin(
        "many", FakePlugin("many", (BackendInfo("many", host=True),), register=lambda r: r.family("many", provider))
    )


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (lambda: several(("a", failing, None), ("b", None, None)), "accepts failed: ZeroDivisionError: boom"),
        (lambda: several(("a", None, failing), ("b", None, None)), "prefers failed: ZeroDivisionError: boom"),
        (lambda: several(("a", None, lambda call: math.nan)), "prefers failed: ValueError: it gave nan"),
        (lambda: several(("a", exiting, None)), "accepts failed: SystemExit: 3"),
        (lambda: several(("a", None, exiting)), "prefers failed: SystemExit: 3"),
        (lambda: family(failing), "its family of implementations failed: ZeroDivisionError: boom"),
        (lambda: family(exiting), "its family of implementations failed: SystemExit: 3"),
    ],
)
def test_a_plugin_that_fails_when_asked_is_set_aside_and_the_next_backend_computes(reference, put, reason):
    put()
    ctx = Context(["many", "reference"])
    before = plugin_generation()
    with pytest.warns(PluginWarning, match=f"^atled-many 0.1, asked for Foo: {reason}; it is set aside"):
        decision = select("Foo", ctx, 1, FakeCall)
    assert decision.backend == "reference" and decision.reason == f"many:float: asked for Foo, {reason}"
    (record,) = (record for record in plugins() if record.name == "many")
    assert (record.state, record.reason) == ("unusable", f"asked for Foo, {reason}")
    assert record.exception is not None and plugin_generation() > before
    # Told once, asked no more; the same call elsewhere sees it too.
    assert select("Bar", ctx, 1, FakeCall).candidates[0].state == "unusable"
    with pytest.raises(ContextError, match="asked for Foo"):
        Context("many")


def test_a_plugin_that_was_set_aside_is_back_after_a_reload(reference):
    answers = [ZeroDivisionError("boom"), True]

    def accepts(call):
        answer = answers.pop(0)
        if answer is not True:
            raise answer
        return answer

    several(("a", accepts, None))
    with pytest.warns(PluginWarning):
        assert select("Foo", Context(["many", "reference"]), 1, FakeCall).backend == "reference"
    reload_plugins()
    assert select("Foo", Context(["many", "reference"]), 1, FakeCall).backend == "many"


@pytest.mark.parametrize("error", [MemoryError(), RecursionError()])
def test_want_of_memory_or_stack_refuses_one_call_and_sets_nothing_aside(reference, error):
    def accepts(call):
        raise error

    several(("a", accepts, None))
    assert select("Foo", Context(["many", "reference"]), 1, FakeCall).backend == "reference"
    assert Context("many").backend == ["many:float"]


def test_an_interrupt_while_asking_passes_through(reference):
    def accepts(call):
        raise KeyboardInterrupt

    several(("a", accepts, None))
    with pytest.raises(KeyboardInterrupt):
        select("Foo", Context("many"), 1, FakeCall)
    assert Context("many").backend == ["many:float"]


class Late(Exception):
    """What a handler of a signal raises to bound the time of a call."""


def stop(number, frame):
    raise Late


class Stopping:
    def __call__(self, number, frame):
        raise Late

    def exit(self, number, frame):
        raise SystemExit(0)


def interrupted(*_args):
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")
@pytest.mark.parametrize(
    ("handler", "error"),
    [(stop, Late), (Stopping(), Late), (Stopping().exit, SystemExit)],
    ids=["function", "object", "method"],
)
@pytest.mark.parametrize(
    "put",
    [
        lambda: several(("a", interrupted, None)),
        lambda: several(("a", None, interrupted)),
        lambda: family(interrupted),
        lambda: register_plugin("many", FakePlugin("many", (BackendInfo("many", host=True),), register=interrupted)),
    ],
    ids=["accepts", "prefers", "family", "register"],
)
def test_what_a_handler_of_a_signal_raises_passes_through_and_sets_nothing_aside(reference, put, handler, error):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(error):
            put()
            select("Foo", Context(["many", "reference"]), 1, FakeCall)
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        states = {record.name: record.state for record in plugins()}
        assert states["many"] == "usable"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_built_in_plugin_is_never_set_aside(reference):
    reference.register = lambda registrar: registrar.implementation("Foo", "reference", nothing, accepts=failing)
    with pytest.raises(SelectionError, match="accepts failed: ZeroDivisionError"):
        select("Foo", Context("reference"), 1, FakeCall)
    assert Context("reference").backend == ["reference:float"]


def test_a_failure_that_leaves_nobody_is_the_cause_of_the_error(reference):
    several(("a", failing, None))
    ctx = Context("many", fallback="raise")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            with pytest.raises(SelectionError, match="accepts failed") as caught:
                select("Foo", ctx, 1, FakeCall)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_explaining_sets_nothing_aside(reference):
    several(("a", failing, None))
    asked = consider("Foo", Context(["many", "reference"]), FakeCall)
    assert [(one.state, one.reason) for one in asked] == [
        ("refused", "accepts failed: ZeroDivisionError: boom"),
        ("chosen", ""),
    ]
    assert Context("many").backend == ["many:float"]


def test_what_the_op_says_of_a_wrong_call_passes_through(host):
    def make_call(type_config, device_id):
        raise TypeError("Foo(x): x must be float")

    with pytest.raises(TypeError, match=r"^Foo\(x\): x must be float$"):
        select("Nix", Context(), 1, make_call)


def test_a_decision_is_made_once_per_op_context_and_key(host):
    made = []

    def make_call(type_config, device_id):
        made.append(type_config)
        return FakeCall(type_config, device_id)

    first = select("Foo", Context("fast"), ("k", 1), make_call)
    assert select("Foo", Context("fast:float"), ("k", 1), make_call) is first
    assert host.asked == 1 and made == ["float"]
    select("Foo", Context("fast"), ("k", 2), make_call)
    select("Foo", Context("fast:double"), ("k", 1), make_call)
    assert host.asked == 3
    clear_selection_cache()
    assert select("Foo", Context("fast"), ("k", 1), make_call) is not first and host.asked == 4


def test_a_change_of_the_plugins_makes_decisions_anew(host):
    ctx = Context("fast")
    select("Foo", ctx, 1, FakeCall)
    register_plugin("other", FakePlugin("other"))
    select("Foo", ctx, 1, FakeCall)
    assert host.asked == 2


def test_the_description_of_a_call_is_shared_by_backends_of_one_type_config(host):
    host.foo = "too odd"
    made = []
    select("Foo", Context(["fast", "reference"]), 1, lambda *place: made.append(place) or FakeCall(*place))
    assert made == [("float", "0")]


def test_the_cache_is_bounded(host, monkeypatch):
    monkeypatch.setattr(selection, "CACHE_LIMIT", 3)
    ctx = Context("fast")
    for key in range(10):
        select("Foo", ctx, key, FakeCall)
    assert len(selection._cache) == 3


def test_a_refusal_is_not_cached(host):
    ctx = Context("fast", fallback="raise")
    host.foo = "not now"
    with pytest.raises(SelectionError):
        select("Foo", ctx, 1, FakeCall)
    host.foo = True
    assert select("Foo", ctx, 1, FakeCall).backend == "fast"


def test_threads_select_at_the_same_time(host):
    ctx = Context("fast", fallback="quiet")
    host.foo = "too odd"
    threads = [
        threading.Thread(target=lambda: [select("Foo", ctx, key % 7, FakeCall) for key in range(200)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fallback_counts() == {("Foo", "reference"): FallbackCount(800)}


def test_observers_are_told_of_new_fallbacks_and_cannot_stop_them(host):
    events = []

    def broken(event):
        raise RuntimeError("boom")

    register_plugin("broken", FakePlugin("broken", observe=broken))
    register_plugin("watch", FakePlugin("watch", observe=events.append))
    ctx = Context("fast", fallback="quiet")
    with pytest.warns(PluginWarning, match="atled_observe failed: RuntimeError: boom"):
        select("Bar", ctx, 1, FakeCall)
    select("Bar", ctx, 1, FakeCall)
    assert [(event.op, event.context, event.backend) for event in events] == [("Bar", ctx, "reference")]
    assert "no implementation of Bar" in events[0].reason


class VersionedCall(FakeCall):
    op_version = 2


@pytest.mark.parametrize(
    ("version", "remedy"), [(1, "pip install --upgrade atled-mine"), (3, "pip install --upgrade atled")]
)
def test_an_implementation_for_another_version_of_the_op_spec_is_refused_by_name(reference, version, remedy):
    def register(registrar):
        registrar.implementation("Foo", "mine", nothing, note="tiled", op_version=version)

    register_plugin("mine", FakePlugin("mine", (BackendInfo("mine", host=True),), register=register))
    reference.register = None
    found = consider("Foo", Context("mine"), VersionedCall)
    assert states(found)[0] == ("mine:float", "incompatible")
    assert found[0].reason == (f"atled-mine wrote it for version {version} of op spec Foo, here it is at version 2")
    assert found[0].remedy == remedy and found[0].note == "tiled"
    with pytest.raises(SelectionError) as caught:
        select("Foo", Context("mine", fallback="raise"), 1, VersionedCall)
    assert "atled-mine wrote it for version" in str(caught.value).replace("\n", " ")
    assert remedy in str(caught.value)


def test_implementations_of_the_present_version_or_made_from_the_spec_are_asked(reference):
    def register(registrar):
        registrar.implementation("Foo", "mine", nothing, op_version=2)
        registrar.implementation("Bar", "mine", nothing, op_version=None)

    register_plugin("mine", FakePlugin("mine", (BackendInfo("mine", host=True),), register=register))
    assert select("Foo", Context("mine"), 1, VersionedCall).backend == "mine"
    assert select("Bar", Context("mine"), 1, VersionedCall).backend == "mine"


@pytest.mark.parametrize("version", [0, True, "1", 1.0])
def test_an_op_version_is_a_whole_number_of_at_least_1(version):
    with pytest.raises(TypeError, match="is no version of an op spec"):
        Implementation("Foo", "mine", nothing, op_version=version)
