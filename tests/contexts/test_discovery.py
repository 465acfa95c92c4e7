"""Discovery: states, guards, settings that block, conflicts, laziness."""

import json
import os
import subprocess
import sys
import threading
from types import ModuleType

import pytest

import atled_contexts
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    Context,
    PluginError,
    SettingError,
    Unusable,
    Usable,
    add_builtin,
    array_class,
    backend_info,
    backend_status,
    backends,
    declare_setting,
    devices,
    entry_points,
    extension_names,
    hookimpl,
    implementations,
    native_executor,
    parse_int,
    plugin_generation,
    plugins,
    register_plugin,
    reload_plugins,
    unregister_plugin,
)
from fake_plugins import FakePlugin, nothing


def record(name):
    """The record of the plugin of that name."""
    return next(found for found in plugins() if found.name == name)


def states():
    """State of every plugin by name."""
    return {found.name: found.state for found in plugins()}


def test_importing_the_package_is_lazy():
    code = (
        "import sys, atled_contexts\n"
        "heavy = {'pluggy', 'importlib.metadata', 'difflib', 'json', 'dataclasses', 'logging', 'textwrap', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "print(any(name.split('.')[0] == 'atled' for name in sys.modules))\n"
        "from atled_contexts import hookimpl\n"
        "print('pluggy' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(atled_contexts.__file__))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["[]", "False", "True"]


def test_a_distribution_on_the_path_is_found_by_its_entry_point(tmp_path):
    (tmp_path / "thing_plugin.py").write_text(
        "from atled_contexts import BackendInfo, PluginInfo, hookimpl\n"
        "@hookimpl\n"
        "def atled_info():\n"
        "    return PluginInfo('thing', '1.0', 'atled-thing', '4.5', (BackendInfo('thing'),))\n"
    )
    metadata = tmp_path / "atled_thing-4.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: atled-thing\nVersion: 4.5\n")
    (metadata / "entry_points.txt").write_text("[atled.plugins]\nthing = thing_plugin\n")
    code = (
        "import sys, atled_contexts as c\n"
        "print('thing_plugin' in sys.modules)\n"
        "found = next(record for record in c.plugins() if record.name == 'thing')\n"
        "print(found.state, found.source, found.distribution, found.version, c.backends())\n"
    )
    room = os.path.dirname(os.path.dirname(atled_contexts.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([room, str(tmp_path)]), "ATLED_PLUGINS_ONLY": "thing"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["False", "experimental installed atled-thing 4.5 ('thing',)"]


def test_nothing_is_loaded_before_it_is_needed(install):
    plugin = FakePlugin("late")
    install(late=plugin)
    assert plugin.probed == 0 and isinstance(plugin_generation(), int)
    assert states() == {"late": "experimental"} and plugin.probed == 1
    plugins()
    assert plugin.probed == 1


def test_a_module_can_be_a_plugin(install):
    module = ModuleType("some_plugin")
    info = FakePlugin("mod", (BackendInfo("mod"),)).info

    @hookimpl
    def atled_info():
        return info

    module.atled_info = atled_info
    install(mod=module)
    assert states() == {"mod": "experimental"} and backends() == ("mod",)
    assert devices("mod") == ("0",)


def test_a_backend_without_the_hook_has_the_devices_of_its_family(install):
    install(
        cards=FakePlugin("cards", (BackendInfo("cards", device_family="cards"),), devices=["0", "1", "7"]),
        library=FakePlugin("library", (BackendInfo("a_library", device_family="cards"),)),
        other=FakePlugin("other", (BackendInfo("other"),)),
    )
    assert devices("a_library") == devices("cards") == ("0", "1", "7")
    assert devices("other") == ("0",)
    assert Context("a_library:float", device_id="7").device_id == "7"


def test_a_family_whose_plugin_fails_to_list_devices_is_told_so(install):
    install(
        cards=FakePlugin("cards", (BackendInfo("cards", device_family="cards"),), devices=lambda backend: 1 / 0),
        library=FakePlugin("library", (BackendInfo("a_library", device_family="cards"),)),
    )
    with pytest.raises(PluginError, match=r"devices of backend 'cards': atled-cards 0.1 failed to list them"):
        devices("a_library")


def test_records_tell_who_it_is(install, reference):
    install(one=FakePlugin("one", (BackendInfo("one"),)))
    one = record("one")
    assert (one.source, one.distribution, one.version, one.usable) == ("installed", "atled-one", "0.1", True)
    assert record("reference").source == "built-in"
    assert [found.name for found in plugins()] == ["one", "reference"]


def broken(*_):
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("plugin", "stage"),
    [
        (ImportError("boom"), "import"),
        (SystemExit("boom"), "import"),
        (FakePlugin("sick", info=broken), "atled_info"),
        (FakePlugin("sick", probe=broken), "atled_probe"),
        (FakePlugin("sick", (BackendInfo("sick"),), register=broken), "atled_register"),
    ],
)
def test_a_broken_plugin_takes_no_other_one_down(install, plugin, stage):
    first, last = FakePlugin("first", (BackendInfo("first"),)), FakePlugin("zlast", (BackendInfo("zlast"),))
    install(first=first, sick=plugin, zlast=last)
    assert states() == {"first": "experimental", "sick": "unusable", "zlast": "experimental"}
    sick = record("sick")
    assert sick.reason.startswith(f"its {stage} failed: ") and sick.reason.endswith("boom")
    assert str(sick.exception) == "boom"
    assert sick.remedy == "pip install --upgrade atled-sick, or set ATLED_PLUGINS_BLOCK=sick"
    assert backends() == ("first", "zlast")


class _Misspelt:
    @hookimpl
    def atled_info(self):
        return FakePlugin("odd").info

    @hookimpl
    def atled_prob(self):
        return Usable()


class _WrongArguments:
    @hookimpl
    def atled_devices(self, device):
        return []


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (
            object(),
            "its atled_info failed: TypeError: what the entry point names has no hook atled_info; hooks are marked by",
        ),
        (FakePlugin, "its reading of its hooks failed: TypeError: FakePlugin is a class"),
        (_Misspelt(), "atled_prob"),
        (_WrongArguments(), "atled_devices"),
        (FakePlugin("odd", probe=lambda: True), "atled_probe gave True instead of Usable"),
        (FakePlugin("odd", register=lambda r: r.implementation("Foo", "cpu", nothing)), "did not declare this backend"),
        (FakePlugin("odd", info=lambda: FakePlugin("odd", api_version="one").info), "is not 'major.minor'"),
    ],
)
def test_a_plugin_that_breaks_the_contract_is_unusable(install, plugin, reason):
    install(odd=plugin)
    assert states() == {"odd": "unusable"}
    assert reason in record("odd").reason


def test_remedies_name_the_distribution_that_is_installed(install):
    says_otherwise = FakePlugin("elsewhere", (BackendInfo("odd"),), probe=lambda: True)
    install(odd=says_otherwise)
    found = record("odd")
    assert (found.info.distribution, found.distribution) == ("atled-elsewhere", "atled-odd")
    assert found.remedy.startswith("pip install --upgrade atled-odd,")


def test_half_a_registration_leaves_nothing(install):
    def register(registrar):
        registrar.implementation("Foo", "half", nothing)
        registrar.array_class("HalfArray", object(), "half")
        raise RuntimeError("boom")

    install(half=FakePlugin("half", (BackendInfo("half"),), register=register))
    assert backends() == () and implementations("Foo", "half") == ()
    with pytest.raises(PluginError):
        array_class("HalfArray")


def test_a_probe_that_says_no_keeps_reason_remedy_and_cause(install):
    cause = OSError("no such device")
    install(
        yes=FakePlugin("yes", (BackendInfo("yes"),), probe=Usable()),
        no=FakePlugin("no", (BackendInfo("no"),), probe=Unusable("no driver", "install the driver", cause)),
    )
    no = record("no")
    assert (no.state, no.reason, no.remedy, no.exception) == ("unusable", "no driver", "install the driver", cause)
    assert backends() == ("yes",)
    status = backend_status("no")
    assert (status.state, status.reason, status.plugin, status.info.name) == ("unusable", "no driver", "no", "no")


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("2.0", "pip install --upgrade atled"),
        ("1.7", "pip install --upgrade atled"),
        ("0.9", "pip install --upgrade atled-odd"),
    ],
)
def test_another_plugin_api_is_refused_with_both_sides_named(install, monkeypatch, version, remedy):
    monkeypatch.setattr(entry_points, "version_of", lambda distribution: "3.2.1")
    plugin = FakePlugin("odd", (BackendInfo("odd"),), api_version=version)
    install(odd=plugin)
    odd = record("odd")
    assert odd.state == "incompatible" and plugin.probed == 0
    assert odd.reason == (
        f"atled-odd 0.1 is written for plugin API {version}, atled 3.2.1 offers plugin API {API_VERSION}"
    )
    assert odd.remedy == remedy
    with pytest.raises(PluginError, match=r"backend 'odd': incompatible: atled-odd 0.1 is written for"):
        backend_info("odd")


def test_version_of_tells_what_is_installed():
    assert entry_points.version_of("pytest") == pytest.__version__
    assert entry_points.version_of("atled-of-nowhere") == "(not installed)"


def test_block_keeps_plugins_unloaded(install, monkeypatch):
    one, two, three = (FakePlugin(name, (BackendInfo(name),)) for name in ("one", "two", "three"))
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "one, Atled_Two")
    install(one=one, two=two, three=three)
    assert states() == {"one": "blocked", "three": "experimental", "two": "blocked"}
    assert one.registered == two.registered == 0
    assert record("one").reason == "ATLED_PLUGINS_BLOCK names it"
    assert backend_status("one").state == "blocked"
    assert "atled-one 0.1 is blocked" in backend_status("other").reason


def test_only_keeps_all_others_unloaded_and_tells_of_what_is_missing(install, monkeypatch, reference):
    monkeypatch.setenv("ATLED_PLUGINS_ONLY", "one,tow")
    install(one=FakePlugin("one"), two=FakePlugin("two"))
    register_plugin("mine", FakePlugin("mine"))
    assert states() == {
        "mine": "usable",
        "one": "experimental",
        "reference": "usable",
        "tow": "absent",
        "two": "blocked",
    }
    assert record("tow").remedy == "did you mean 'two'?"


def test_two_plugins_with_one_backend_are_both_refused(install):
    install(one=FakePlugin("one", (BackendInfo("same"),)), two=FakePlugin("two", (BackendInfo("same"),)))
    assert states() == {"one": "unusable", "two": "unusable"} and backends() == ()
    for name in ("one", "two"):
        assert record(name).reason == "backend 'same' is claimed by atled-one 0.1 and atled-two 0.1"
        assert f"ATLED_PLUGINS_BLOCK={name}" in record(name).remedy


def test_an_unusable_plugin_claims_nothing(install):
    install(
        one=FakePlugin("one", (BackendInfo("same"),), probe=Unusable("no", "x")),
        two=FakePlugin("two", (BackendInfo("same"),)),
    )
    assert states() == {"one": "unusable", "two": "experimental"}
    assert backend_status("same").plugin == "two"


def test_a_built_in_plugin_keeps_what_it_claims(install, reference):
    install(thief=FakePlugin("thief", (BackendInfo("reference"),)))
    assert states() == {"reference": "usable", "thief": "unusable"}


def test_an_array_class_can_be_claimed_only_once(install):
    def register(backend):
        return lambda registrar: registrar.array_class("Same", object(), backend)

    install(
        one=FakePlugin("one", (BackendInfo("one"),), register=register("one")),
        two=FakePlugin("two", (BackendInfo("two"),), register=register("two")),
    )
    assert states() == {"one": "unusable", "two": "unusable"}
    assert "array class 'Same' is claimed by" in record("one").reason


def test_a_name_that_the_program_gave_wins_over_an_installed_one(install):
    install(same=FakePlugin("same"))
    register_plugin("same", FakePlugin("same"))
    assert {found.source: found.state for found in plugins()} == {"registered": "usable", "installed": "unusable"}
    assert any("another plugin is named 'same' already" in found.reason for found in plugins())


def test_a_name_is_registered_once_and_taken_back_by_it(reference):
    register_plugin("mine", FakePlugin("mine"))
    with pytest.raises(PluginError, match="taken by a plugin that is registered"):
        register_plugin("mine", FakePlugin("mine"))
    with pytest.raises(PluginError, match="taken by a plugin that is built-in"):
        register_plugin("reference", FakePlugin("reference"))
    with pytest.raises(PluginError, match="did you mean 'mine'"):
        unregister_plugin("mien")
    with pytest.raises(PluginError, match="no plugin was registered"):
        unregister_plugin("reference")
    unregister_plugin("mine")
    assert states() == {"reference": "usable"}


def test_unregistering_removes_all_that_the_plugin_brought(reference):
    def register(registrar):
        registrar.implementation("Foo", "mine", nothing)
        registrar.array_class("MyArray", "array", "mine")
        registrar.native_executor("mine", "executor")

    register_plugin("mine", FakePlugin("mine", (BackendInfo("mine"),), register=register, extension_names=("mine",)))
    assert len(implementations("Foo", "mine")) == 1 and array_class("MyArray") == "array"
    assert native_executor("mine") == "executor" and native_executor("reference") is None
    assert extension_names() == ("mine",)
    unregister_plugin("mine")
    assert implementations("Foo", "mine") == () and backends() == ("reference",) and extension_names() == ()
    for lookup in (lambda: array_class("MyArray"), lambda: native_executor("mine"), lambda: devices("mine")):
        with pytest.raises(PluginError):
            lookup()


def test_changes_move_the_generation_and_examine_only_what_is_new(reference):
    plugins()
    before = plugin_generation()
    register_plugin("mine", FakePlugin("mine"))
    middle = plugin_generation()
    plugins()
    unregister_plugin("mine")
    assert before < middle < plugin_generation()
    plugins()
    assert reference.registered == 1


def test_reload_examines_everything_anew(install, reference):
    plugin = FakePlugin("late", probe=Unusable("not yet", "wait"))
    install(late=plugin)
    assert states()["late"] == "unusable"
    plugin.probe = Usable()
    assert states()["late"] == "unusable"
    reload_plugins()
    assert states()["late"] == "experimental" and reference.registered == 2


def test_a_plugin_whose_import_brings_the_core_is_no_riddle(install):
    core = FakePlugin("reference", (BackendInfo("reference", host=True),))

    class Importing(FakePlugin):
        @hookimpl
        def atled_probe(self):
            add_builtin("reference", lambda: core)
            return Usable()

    install(late=Importing("late"))
    assert states() == {"late": "experimental", "reference": "usable"}


def test_a_plugin_that_needs_a_context_to_register_gets_told(install, reference):
    install(early=FakePlugin("early", (BackendInfo("early"),), register=lambda registrar: Context()))
    assert states() == {"early": "unusable", "reference": "usable"}
    assert "plugins were asked for while they are being discovered" in record("early").reason


def test_threads_discover_once(reference):
    barrier = threading.Barrier(4, timeout=10)
    seen = []

    def work():
        barrier.wait()
        seen.append(backends())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [("reference",)] * 4 and reference.registered == 1


def test_an_unknown_setting_is_an_error_once_all_plugins_had_their_say(install, monkeypatch):
    class Declaring(FakePlugin):
        @hookimpl
        def atled_probe(self):
            declare_setting("ATLED_SPECIAL", parse_int, 1, "a number")

    monkeypatch.setenv("ATLED_SPECIAL", "3")
    install(special=Declaring("special"))
    assert states() == {"special": "experimental"}
    monkeypatch.setenv("ATLED_SPECAIL", "3")
    reload_plugins()
    with pytest.raises(SettingError, match=r"environment variable ATLED_SPECAIL: .*\n.*\nWhat to do: did you mean"):
        plugins()


def test_an_unknown_setting_may_be_that_of_a_plugin_that_did_not_load(install, monkeypatch):
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "special")
    monkeypatch.setenv("ATLED_QUITE_ANOTHER", "3")
    install(special=FakePlugin("special"))
    assert states() == {"special": "blocked"}
    monkeypatch.setenv("ATLED_FALBACK", "raise")
    reload_plugins()
    with pytest.raises(SettingError, match="did you mean 'ATLED_FALLBACK'"):
        plugins()


def test_backend_info_of_an_unknown_name_gets_the_nearest(host):
    assert backend_info("fast").default_priority == 10
    with pytest.raises(PluginError, match="did you mean 'fast'"):
        backend_info("fsat")


@pytest.fixture
def packaged(install, monkeypatch, tmp_path):
    """Install a plugin whose package folder holds these files: `packaged(plugin, name=contents)`."""

    def put(plugin, **files: object) -> None:
        package = tmp_path / "some_package"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("raise RuntimeError('reading its files imports nothing')")
        (package / "plugin.py").write_text("")
        for name, contents in files.items():
            text = contents if isinstance(contents, str) else json.dumps(contents)
            (package / f"atled-{name}.json").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))

        def load():
            if isinstance(plugin, Exception):
                raise plugin
            return plugin

        found = entry_points.InstalledPlugin("some", "atled-some", "0.1", load, "some_package.plugin")
        monkeypatch.setattr(entry_points, "installed", lambda: (found,))
        reload_plugins()

    return put


@pytest.mark.parametrize(
    ("report", "state", "reason"),
    [
        ({"plugin": "some", "version": "0.1", "passed": 9, "failed": 0}, "usable", ""),
        ({"plugin": "some", "version": "0.0", "passed": 9, "failed": 0}, "experimental", "is of version 0.0"),
        ({"plugin": "some", "version": "0.1", "passed": 9, "failed": 2}, "experimental", "counts 2 failures"),
        ("[1]", "experimental", "is not a JSON object"),
        ({"version": "0.1", "failed": 0, "complete": False}, "experimental", "is of a part of the kit"),
        ("{", "experimental", "is not JSON"),
    ],
)
def test_a_plugin_is_experimental_until_a_conformance_report_finds_its_version_right(packaged, report, state, reason):
    packaged(FakePlugin("some", (BackendInfo("some"),)), conformance=report)
    assert record("some").state == state and reason in record("some").reason
    assert record("some").usable and backends() == ("some",)
    assert backend_status("some").usable and backend_status("some").state == state


def test_what_proves_a_plugin_is_named(packaged):
    packaged(FakePlugin("some", (BackendInfo("some"),)))
    assert record("some").reason == "it has no conformance report"
    assert record("some").remedy == "pytest --pyargs atled.conformance --atled-plugin some"


def test_the_file_of_a_plugin_is_told_without_importing_it(packaged, tmp_path):
    packaged(ImportError("boom"))
    assert record("some").file == str(tmp_path / "some_package" / "plugin.py")
    assert record("some").state == "unusable" and isinstance(record("some").exception, ImportError)


def test_a_manifest_tells_which_backends_a_plugin_that_was_not_loaded_has(packaged, monkeypatch):
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "some")
    packaged(FakePlugin("some"), manifest={"api_version": API_VERSION, "backends": {"gpu": {}, "gpulib": {}}})
    assert record("some").backends == ("gpu", "gpulib") and record("some").info is None
    status = backend_status("gpulib")
    assert (status.state, status.plugin, status.reason) == ("blocked", "some", "ATLED_PLUGINS_BLOCK names it")


def test_a_manifest_tells_that_a_plugin_that_fails_to_load_is_for_another_api(packaged):
    error = ImportError("cannot import name 'OldThing'")
    packaged(error, manifest={"api_version": "0.7", "backends": {"gpu": {}}})
    assert record("some").state == "incompatible" and record("some").exception is error
    assert record("some").reason.startswith("atled-some 0.1 is written for plugin API 0.7, atled")
    assert record("some").remedy == "pip install --upgrade atled-some"


def test_a_broken_manifest_hides_no_failure(packaged):
    packaged(ImportError("boom"), manifest="{")
    assert record("some").state == "unusable" and "boom" in record("some").reason
    assert record("some").backends == ()


def test_a_slip_in_the_block_list_is_not_lost_in_silence(install, monkeypatch):
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "cudn")
    install(cudnn=FakePlugin("cudnn", (BackendInfo("cudnn"),)))
    assert states() == {"cudn": "absent", "cudnn": "experimental"}
    assert record("cudn").reason == "ATLED_PLUGINS_BLOCK names it, but it is not installed"
    assert record("cudn").remedy == "did you mean 'cudnn'?"


def test_a_backend_in_the_place_of_its_plugin_is_told(install, monkeypatch):
    monkeypatch.setenv("ATLED_PLUGINS_BLOCK", "fast")
    install(quick=FakePlugin("quick", (BackendInfo("fast"),)))
    found = record("fast")
    assert found.state == "absent"
    assert found.reason == "ATLED_PLUGINS_BLOCK names it, but that is a backend and no plugin"
    assert found.remedy == "write quick, the plugin that brings it"


def test_requirements_of_a_distribution_leave_extras_out():
    needed = entry_points.requirements_of("pytest")
    assert "pluggy" in needed and "hypothesis" not in needed
    assert entry_points.requirements_of("atled-of-nowhere") == ()
