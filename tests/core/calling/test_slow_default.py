"""Where nothing faster than the reference is installed, the first computation says so."""

import warnings

import pytest

import atled as nn
import atled.functions as F
from atled.doctor.examination import examine
from atled.doctor.report import report_lines
from atled.neon.backends import cleanup_backend, gen_backend
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    PluginInfo,
    entry_points,
    hookimpl,
    reload_plugins,
    reset_default_context,
    scopes,
)
from fake_installed import installed
from wrong_plugin import WrongPlugin


@pytest.fixture
def alone(monkeypatch):
    """A process with these installed plugins only, that has computed nothing yet: `alone(name=object)`."""
    for name in ("ATLED_BACKENDS", "ATLED_PLUGINS_BLOCK", "ATLED_PLUGINS_ONLY"):
        monkeypatch.delenv(name, raising=False)

    def prepare(**objects):
        found = installed(objects)
        monkeypatch.setattr(entry_points, "installed", lambda: found)
        monkeypatch.setattr(scopes, "_told_slow", False)
        reload_plugins()
        reset_default_context()

    outside = scopes._scope.set(None)  # of whatever scope the tests may run in
    yield prepare
    scopes._scope.reset(outside)
    monkeypatch.undo()
    reload_plugins()


def compute():
    return F.relu(nn.NdArray.from_numpy_array([-1.0, 2.0])).data.tolist()


def test_the_first_computation_on_the_default_reference_names_the_extra_once(alone):
    alone()
    x = nn.Variable((2,))
    with pytest.warns(nn.ReferenceWarning) as caught:
        assert F.relu(x).shape == (2,)
    (told,) = caught
    assert str(told.message) == (
        "the default Context is the reference, in plain NumPy, which is slow: nothing faster is installed "
        '(what to do: pip install "atled[cpu]"; ATLED_BACKENDS=reference says that the reference is meant)'
    )
    assert told.filename == __file__
    assert compute() == [0.0, 2.0]  # warnings are errors: it is not told again


def test_a_plugin_that_is_broken_is_named_instead(alone):
    alone(fast=ImportError("libfast.so.1 is missing"))
    with pytest.warns(nn.ReferenceWarning, match="plugin fast is unusable: .*libfast.so.1 .*pip install --upgrade"):
        compute()


def test_asking_for_the_reference_is_not_told(alone, monkeypatch):
    alone()
    with nn.context_scope(nn.Context("reference")):
        compute()
    nn.set_default_context(nn.Context("reference"))
    compute()
    reset_default_context()
    monkeypatch.setenv("ATLED_BACKENDS", "reference")
    reload_plugins()
    compute()
    monkeypatch.delenv("ATLED_BACKENDS")
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "fast")
    alone(fast=WrongPlugin({}))
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "fast")
    reload_plugins()
    compute()


def test_looking_at_the_context_is_no_computation(alone):
    alone()
    assert nn.get_current_context().backend == ["reference:float"]
    with pytest.warns(nn.ReferenceWarning):
        compute()


def test_it_can_be_filtered_and_made_an_error(alone):
    alone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nn.ReferenceWarning)
        compute()
    alone()
    for _ in range(2):
        with pytest.raises(nn.ReferenceWarning):
            compute()


def test_a_faster_default_is_not_told(alone):
    class Fast(WrongPlugin):
        @hookimpl
        def atled_info(self):
            backend = BackendInfo("wrong", ("float",), default_priority=10, host=True)
            return PluginInfo("fast", API_VERSION, "atled-fast", "0.1", (backend,))

    alone(fast=Fast({}))
    assert nn.get_current_context().backend == ["wrong:float"]
    compute()


def test_the_verdict_of_doctor_names_the_extra(alone, monkeypatch):
    alone()
    monkeypatch.setenv("ATLED_NUM_THREADS", "2")
    report = examine(with_self_tests=False)
    assert report["ok"] and 'pip install "atled[cpu]"' in report["slow"]
    lines = [marked + rest for _, marked, rest in report_lines(report)]
    assert 'pip install "atled[cpu]"' in " ".join(line.strip() for line in lines[lines.index("Verdict") :])


def test_a_backend_of_neon_that_can_only_be_the_reference_tells_it_once(alone):
    alone()
    with pytest.warns(nn.ReferenceWarning, match="the best Context for the host is the reference") as caught:
        gen_backend("cpu")
    assert caught[0].filename == __file__
    gen_backend("mkl")  # warnings are errors: it is not told again
    alone()
    gen_backend("reference")
    cleanup_backend()
