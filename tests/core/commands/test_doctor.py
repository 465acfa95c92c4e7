"""`python -m atled doctor`: states, settings, devices, self-tests, hints, verdict and exit status."""

import io
import json

import pytest

from atled.commands import main
from atled.doctor import hardware
from atled.doctor.examination import examine
from atled.doctor.report import report_lines, show
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    PluginInfo,
    declare_setting,
    entry_points,
    hookimpl,
    plugins,
    reload_plugins,
    reset_default_context,
    settings,
)
from fake_installed import installed
from wrong_plugin import WrongPlugin, off_by_one


class Incompatible(WrongPlugin):
    """Written for a plugin API of long ago."""

    @hookimpl
    def atled_info(self):
        return PluginInfo("old", "0.1", "atled-old", "0.1", (BackendInfo("old"),))


@pytest.fixture
def doctor(monkeypatch):
    """Examine a process with these installed plugins and settings: `doctor({"name": object}, ATLED_X="y")`."""
    with pytest.MonkeyPatch.context() as patch:

        def prepare(objects, **settings):
            found = installed(objects)
            patch.setattr(entry_points, "installed", lambda: found)
            for name, value in settings.items():
                patch.setenv(name, value)
            reload_plugins()
            reset_default_context()

        yield prepare
    reload_plugins()


@pytest.fixture
def clinic(doctor):
    """One usable, one broken, one blocked, one incompatible plugin."""
    doctor(
        {
            "wrong": WrongPlugin({}),
            "broken": ImportError("libdevice.so.1: cannot open shared object file"),
            "shut": WrongPlugin({}),
            "old": Incompatible({}),
        },
        ATLED_PLUGINS_BLOCK="shut",
    )


def test_every_plugin_has_its_state_reason_and_remedy(clinic):
    report = examine()
    found = {plugin["name"]: plugin for plugin in report["plugins"]}
    assert {name: plugin["state"] for name, plugin in found.items()} == {
        "broken": "unusable",
        "old": "incompatible",
        "reference": "usable",
        "shut": "blocked",
        "wrong": "experimental",
    }
    assert "libdevice.so.1" in found["broken"]["reason"] and "libdevice.so.1" in found["broken"]["exception"]
    assert found["broken"]["remedy"].startswith("pip install --upgrade atled-broken")
    assert found["old"]["remedy"] == "pip install --upgrade atled-old"
    assert found["wrong"]["backends"] == ["wrong"] and found["wrong"]["distribution"] == "atled-wrong"
    assert report["ok"] and report["problems"] == []


def test_every_usable_backend_is_tested_on_every_device(clinic):
    tests = examine()["self_tests"]
    assert [(test["backend"], test["device"], test["passed"]) for test in tests] == [
        ("reference", "0", True),
        ("wrong", "0", True),
    ]
    assert all(test["op"] == "Add2" and test["seconds"] > 0 and test["error"] == "" for test in tests)
    assert examine(with_self_tests=False)["self_tests"] == []


@pytest.mark.parametrize("name", ["broken", "old", "shut", "atled-broken", "never-heard-of"])
def test_what_is_asked_for_and_unusable_is_a_problem(clinic, name):
    report = examine([name])
    assert not report["ok"] and name in report["problems"][0]


@pytest.mark.parametrize("name", ["wrong", "reference", "atled-wrong"])
def test_what_is_asked_for_and_usable_is_fine(clinic, name):
    assert examine([name])["ok"]


def test_settings_ask_too(doctor):
    doctor({"wrong": WrongPlugin({})}, ATLED_BACKENDS="nowhere, wrong")
    report = examine()
    assert report["asked"] == ["nowhere", "wrong"] and report["context"]["backends"] == ["nowhere:float", "wrong:float"]
    assert not report["ok"] and "nowhere is no plugin or backend" in report["problems"][0]
    values = {setting["name"]: (setting["value"], setting["source"]) for setting in report["settings"]}
    assert values["ATLED_BACKENDS"] == (["nowhere", "wrong"], "environment")
    assert values["ATLED_FALLBACK"] == ("warn", "default")


def test_a_plugin_that_a_setting_names_and_that_is_not_there_is_a_problem(doctor):
    doctor({"wrong": WrongPlugin({})}, ATLED_PLUGINS_ONLY="wrnog,reference")
    report = examine()
    assert not report["ok"]
    assert any("plugin wrnog is absent" in problem for problem in report["problems"])


def test_a_setting_that_cannot_be_read_is_a_problem_and_the_rest_is_shown(doctor):
    doctor({"wrong": WrongPlugin({})}, ATLED_FALLBACK="sometimes")
    report = examine()
    assert not report["ok"] and "ATLED_FALLBACK='sometimes'" in report["problems"][0]
    assert any(setting["error"] for setting in report["settings"])


def test_a_setting_of_a_plugin_that_cannot_be_read_is_a_problem(doctor, monkeypatch):
    def parse(text):
        raise ValueError("is too odd")

    monkeypatch.setattr(settings, "_declared", dict(settings._declared))
    declare_setting("ATLED_ODD", parse, 0, "how odd")
    doctor({"wrong": WrongPlugin({})}, ATLED_ODD="7")
    report = examine()
    assert not report["ok"] and len(report["problems"]) == 1 and "ATLED_ODD='7': is too odd" in report["problems"][0]


def test_a_misspelled_setting_is_a_problem_with_the_nearest_name(doctor):
    doctor({}, ATLED_FALBACK="warn")
    report = examine()
    assert not report["ok"] and "did you mean 'ATLED_FALLBACK'?" in report["problems"][0]


def test_a_backend_that_computes_wrongly_fails_its_self_test(doctor):
    doctor({"wrong": WrongPlugin({"Add2": off_by_one})})
    report = examine()
    (test,) = (test for test in report["self_tests"] if test["backend"] == "wrong")
    assert not test["passed"] and "wrong values: up to 1 from the reference" in test["error"]
    assert report["ok"], "nobody asked for it"
    assert not examine(["wrong"])["ok"]


def test_a_backend_that_raises_fails_its_self_test(doctor):
    def fails(*arguments):
        raise RuntimeError("the device is on fire")

    doctor({"wrong": WrongPlugin({"Add2": fails})}, ATLED_BACKENDS="wrong")
    report = examine()
    assert not report["ok"] and "the device is on fire" in report["problems"][0]


def test_a_backend_of_one_narrow_dtype_is_tested_in_it(doctor):
    class Narrow(WrongPlugin):
        """Computes in float16 only, and casts nothing to it."""

        @hookimpl
        def atled_info(self):
            backend = BackendInfo("wrong", ("half",), host=True, array_classes=("CpuCachedArray",))
            return PluginInfo("wrong-plugin", API_VERSION, "atled-wrong", "0.1", (backend,))

        @hookimpl
        def atled_register(self, registrar):
            registrar.implementation("Exp", "wrong", self._prepare)

    doctor({"wrong": Narrow({})})
    (test,) = (test for test in examine()["self_tests"] if test["backend"] == "wrong")
    assert (test["op"], test["passed"], test["error"]) == ("Exp", True, "")


def test_devices_that_cannot_be_listed_are_told(doctor):
    class Silent(WrongPlugin):
        @hookimpl
        def atled_devices(self, backend):
            raise RuntimeError("no driver")

    doctor({"wrong": Silent({})})
    (entry,) = (entry for entry in examine()["devices"] if entry["backend"] == "wrong")
    assert entry["devices"] == [] and "no driver" in entry["error"]


def test_the_text_is_readable_at_80_columns(clinic):
    lines = [marked + rest for _, marked, rest in report_lines(examine(["broken"]))]
    # Paths and commands are kept whole.
    assert all(len(line) <= 80 or " " not in line.strip() or "/" in line for line in lines)
    text = "\n".join(lines)
    assert "experimental  wrong           atled-wrong 0.1 (installed)" in text
    assert "    what to do  pip install --upgrade atled-broken, or set" in text
    assert "  - plugin broken is unusable" in text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_it_is_coloured_on_a_terminal_only(clinic, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    report = examine(with_self_tests=False)
    plain, terminal = io.StringIO(), Terminal()
    show(report, plain)
    show(report, terminal)
    assert "\x1b[" not in plain.getvalue() and "\x1b[" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    show(report, terminal)
    assert terminal.getvalue() == plain.getvalue()


def test_the_command_prints_json_and_says_by_its_status_what_is_wrong(clinic, capsys):
    assert main(["doctor", "--json", "--no-self-test", "wrong"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and set(report) >= {"versions", "plugins", "devices", "context", "settings", "hints", "asked"}
    assert main(["doctor", "--no-self-test", "old"]) == 1
    assert "plugin old is incompatible" in capsys.readouterr().out


def test_hardware_without_a_plugin_is_a_hint(tmp_path, monkeypatch, doctor):
    (tmp_path / "nvidia" / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (tmp_path / "nvidia" / "version").write_text("NVRM version: 550")
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "pocl.icd").write_text("libpocl.so")
    monkeypatch.setattr(hardware, "_NVIDIA_DRIVER", tmp_path / "nvidia")
    monkeypatch.setattr(hardware, "_AMD_DRIVER", tmp_path / "no-such")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors))
    doctor({})
    hints = hardware.hardware_hints(plugins())
    missing = "but no usable plugin has a backend of device family"
    remedy = 'pip install "atled[cuda12]" or pip install "atled[cuda13]"'
    assert hints == [
        f"an NVIDIA driver is loaded (1 GPU), {missing} 'cuda': {remedy}",
        f"OpenCL runtimes are installed (pocl), {missing} 'opencl': install a plugin that offers 'opencl'",
    ]


def test_a_plugin_for_the_hardware_that_is_not_usable_is_named_with_its_remedy(tmp_path, monkeypatch, doctor):
    class Cuda(WrongPlugin):
        @hookimpl
        def atled_info(self):
            return PluginInfo("c", "0.1", "atled-c", "0.1", (BackendInfo("c", device_family="cuda"),))

    (tmp_path / "gpus" / "0").mkdir(parents=True)
    (tmp_path / "version").write_text("")
    monkeypatch.setattr(hardware, "_NVIDIA_DRIVER", tmp_path)
    monkeypatch.setattr(hardware, "_AMD_DRIVER", tmp_path / "no-such")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "none"))
    doctor({"c": Cuda({})})
    (hint,) = hardware.hardware_hints(plugins())
    assert "plugin c is incompatible" in hint and hint.endswith("pip install --upgrade atled-c")


def test_no_hardware_no_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "_NVIDIA_DRIVER", tmp_path)
    monkeypatch.setattr(hardware, "_AMD_DRIVER", tmp_path / "no-such")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hardware.hardware_hints(()) == []
