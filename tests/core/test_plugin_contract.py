"""Plugins that break the contract are refused or set aside, with a reason, before they break every call."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.arrays.place import ArrayClass, Place
from atled.call import Native, Prepared
from atled.doctor.examination import examine
from atled.reference import adopt_reference
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    ContextError,
    Implementation,
    PluginInfo,
    PluginWarning,
    Unusable,
    hookimpl,
    plugins,
    register_plugin,
    unregister_plugin,
)
from wrong_plugin import WrongPlugin


class Boxes(ArrayClass):
    """Arrays of a device, which are NumPy's."""

    name = "Boxes"

    def allocate(self, desc: ArrayDesc, device_id: str):
        return np.empty(desc.shape, desc.dtype)

    def upload(self, source, target):
        target[...] = source

    def download(self, source, target):
        target[...] = source

    def view(self, array, shape):
        return array.reshape(shape)


class DevicePlugin:
    """A device backend `box` with the array classes that a test gives it."""

    def __init__(self, declared=(), **registered) -> None:
        self.declared, self.registered = declared, registered

    @hookimpl
    def atled_info(self):
        return PluginInfo("box", API_VERSION, "atled-box", "1", (BackendInfo("box", array_classes=self.declared),))

    @hookimpl
    def atled_register(self, registrar):
        registrar.family("box", lambda op: adopt_reference(op, "box"))
        for name, array_class in self.registered.items():
            registrar.array_class(name, array_class, "box")


@pytest.fixture
def put():
    """Register a plugin object for the test: `put(plugin)` gives its record."""
    names = []

    def register(plugin):
        name = f"tried-{len(names)}"
        register_plugin(name, plugin)
        names.append(name)
        return next(record for record in plugins() if record.name == name)

    yield register
    for name in names:
        unregister_plugin(name)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (DevicePlugin(), "backend 'box' computes on a device, and no array class is registered for it"),
        (DevicePlugin(("Boxes",)), "backend 'box' computes on a device, and no array class is registered for it"),
        (DevicePlugin(Boxes=object()), "what it registers as array class 'Boxes' is none: it is of type object, not"),
        (DevicePlugin(("Boxes",), Boxes=Boxes), "'Boxes' is none: it is the class Boxes, not an instance"),
    ],
)
def test_a_device_without_an_array_class_is_unusable_and_doctor_says_why(put, plugin, reason):
    record = put(plugin)
    assert record.state == "unusable" and reason in record.reason
    assert "registrar.array_class(name, an instance of a subclass of ArrayClass, 'box')" in record.remedy
    with pytest.raises(ContextError, match="none of its backends is usable"):
        nn.Context("box")
    (shown,) = (one for one in examine(with_self_tests=False)["plugins"] if one["name"] == record.name)
    assert (shown["state"], shown["reason"]) == ("unusable", record.reason)
    with nn.context_scope(nn.Context(["box", "reference"])):
        assert F.relu(nn.NdArray.from_numpy_array([-1.0, 2.0])).data.tolist() == [0.0, 2.0]


def test_where_the_plugin_that_brings_the_arrays_is_unusable_its_reason_is_told(put):
    class Crate:
        @hookimpl
        def atled_info(self):
            backend = BackendInfo("crate", device_family="box")
            return PluginInfo("crate", API_VERSION, "atled-crate", "1.0", (backend,))

    class Unpacked(DevicePlugin):
        @hookimpl
        def atled_probe(self):
            return Unusable("there is no box", "buy one")

    owner = put(Unpacked(("Boxes",), Boxes=Boxes()))
    record = put(Crate())
    assert record.reason == f"plugin {owner.name!r}, which brings its arrays, is unusable: there is no box"
    assert record.remedy == "buy one"


def test_an_array_class_need_not_be_declared_to_be_used(put):
    assert put(DevicePlugin(Boxes=Boxes())).usable
    with nn.context_scope(nn.Context(["box", "reference"], fallback="raise")), nn.trace() as trace:
        y = F.relu(nn.NdArray.from_numpy_array([-1.0, 2.0]))
        assert y.data.tolist() == [0.0, 2.0]
    assert [row.backend for row in trace.rows() if row.op == "ReLU"] == ["box"]


class Fragile(WrongPlugin):
    """Fails when it is asked for Tanh."""

    @hookimpl
    def atled_register(self, registrar):
        def accepts(call):
            if call.spec.name == "Tanh":
                raise KeyError("tanh table")
            return True

        registrar.family("wrong", lambda op: Implementation(op, "wrong", self._prepare, accepts=accepts))


def test_a_graph_goes_on_when_a_plugin_fails_amid_its_planning(put):
    record = put(Fragile({}))
    ctx = nn.Context(["wrong", "reference"])
    with nn.context_scope(ctx):
        x = nn.Variable((3,), need_grad=True)
        y = F.exp(F.tanh(F.relu(x)))
    x.d = [-1, 0, 2]
    with pytest.warns(PluginWarning, match="asked for Tanh: accepts failed: KeyError: 'tanh table'; it is set aside"):
        y.forward()
    for _ in range(2):
        np.testing.assert_allclose(y.d, np.exp(np.tanh([0, 0, 2])), rtol=1e-6)
        x.grad.zero()
        y.backward()
        np.testing.assert_allclose(x.g, [0, 0, np.exp(np.tanh(2)) * (1 - np.tanh(2) ** 2)], rtol=1e-5)
        y.forward()
    with nn.trace() as trace:
        y.forward()
    assert {row.backend for row in trace.rows()} == {"reference"}
    (after,) = (one for one in plugins() if one.name == record.name)
    assert after.state == "unusable" and isinstance(after.exception, KeyError)


def test_at_once_goes_on_when_a_plugin_fails(put):
    put(Fragile({}))
    with nn.context_scope(nn.Context(["wrong", "reference"])):
        x = nn.NdArray.from_numpy_array([-1.0, 2.0])
        assert F.relu(x).data.tolist() == [0.0, 2.0]
        with pytest.warns(PluginWarning, match="set aside"):
            np.testing.assert_allclose(F.tanh(x).data, np.tanh([-1.0, 2.0]), rtol=1e-6)
        assert F.relu(x).data.tolist() == [0.0, 2.0]


class MachineCodeOnly(WrongPlugin):
    """Prepares ReLU for an executor that it does not have."""

    @hookimpl
    def atled_register(self, registrar):
        prepared = Prepared(native=Native(0, np.zeros(2, np.int64), (0, 1)))
        registrar.implementation("ReLU", "wrong", lambda call: prepared)


def test_machine_code_without_an_executor_is_told_with_what_the_plugin_lacks(put):
    put(MachineCodeOnly({}))
    y = F.relu(nn.Variable((2,)), using="wrong")
    with pytest.raises(RuntimeError, match="Prepared needs `run`, too, or the backend an executor"):
        y.forward()


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({"queued": True}, "it needs run= and has no native="),
        ({"run": print, "bind": print}, "needs queued=True"),
    ],
)
def test_what_prepare_returns_must_fit_together(facts, wrong):
    native = None if "run" in facts else Native(0, np.zeros(0, np.int64), ())
    with pytest.raises(TypeError, match=wrong):
        Prepared(native=native, **facts)


@pytest.mark.parametrize("method", ["allocate", "upload", "download", "copy", "fill", "view", "part"])
def test_what_an_array_class_lacks_is_named(method):
    class Bare(ArrayClass):
        pass

    with pytest.raises(NotImplementedError, match=f"{method} of array class Bare: the class does not have it"):
        getattr(Bare(), method)(*([None] * (getattr(ArrayClass, method).__code__.co_argcount - 1)))


@pytest.mark.parametrize("alignment", [0, 3, -64])
def test_an_alignment_is_a_power_of_two(alignment):
    class Aligned(Boxes):
        @property
        def alignment(self):
            return alignment

    with pytest.raises(ValueError, match=f"alignment of array class Aligned: {alignment} is no power of two"):
        _ = Place(Aligned(), "0").alignment


@pytest.mark.parametrize(("alignment", "wanted"), [(1, 64), (64, 64), (512, 512)])
def test_parts_begin_where_the_core_wants_it_too(alignment, wanted):
    class Aligned(Boxes):
        @property
        def alignment(self):
            return alignment

    assert Place(Aligned(), "0").alignment == wanted


def test_words_are_uploaded_where_a_class_has_nothing_quicker():
    words, table = np.arange(3), np.zeros(3, np.int64)
    Boxes().put_words(words, table)
    assert table.tolist() == [0, 1, 2]
    assert Boxes().program([lambda: None], "0") is None


@pytest.mark.parametrize("said", [{"may_fail": "an index is out of range"}, {"heeds_failure": True}])
def test_only_what_is_queued_can_fail_on_the_device(said):
    with pytest.raises(TypeError, match="need queued=True"):
        Prepared(lambda *arrays: None, **said)
