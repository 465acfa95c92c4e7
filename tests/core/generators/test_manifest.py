"""Manifests: what they say, how they are written, and the matrix made from them."""

import json

import pytest

from atled.call import Call
from atled.commands import USER_ERROR, main
from atled.generators.catalogue import catalogue
from atled.generators.manifest import make_manifest, manifest_text
from atled.generators.support_matrix import support_matrix
from atled.ops.elementwise import with_numbers
from atled.ops.spec import SPECS
from atled_contexts import API_VERSION, Implementation, Unusable, hookimpl, register_plugin, unregister_plugin
from wrong_plugin import WrongPlugin


class Partial(WrongPlugin):
    """Computes two ops, one of them by halves, and cannot work here."""

    @hookimpl
    def atled_probe(self):
        return Unusable("there is no such device", "buy one")

    @hookimpl
    def atled_register(self, registrar):
        def only_matrices(call: Call):
            return True if len(call.inputs[0].shape) == 2 else "not a matrix"

        def only_float(call: Call):
            return True if call.type_config == "float" else "only float"

        registrar.implementation("ReLU", "wrong", self._prepare, accepts=only_float, note="simple")
        registrar.implementation(
            "ReLU", "wrong", self._prepare, accepts=only_float, prefers=lambda call: 1, note="best"
        )
        registrar.implementation("Softmax", "wrong", self._prepare, accepts=only_matrices)
        registrar.implementation("Tanh", "wrong", self._prepare, note="old", op_version=99)


@pytest.fixture
def partial():
    """The plugin, registered."""
    register_plugin("partial", Partial({}))
    yield "partial"
    unregister_plugin("partial")


def test_the_catalogue_holds_every_spec_but_what_follows_from_formulas():
    numbered = with_numbers(SPECS["Add2"], {1: int})
    names = [spec.name for spec in catalogue()]
    assert numbered.name in SPECS and numbered.name not in names
    assert names == sorted(names) and {"Convolution", "ReLU", "AdamUpdate", "MaxPoolingGrad"} <= set(names)
    assert "TanhGradX" not in names and set(names) <= set(SPECS)


def test_a_manifest_says_what_a_plugin_offers_though_it_is_unusable_here(partial):
    found = make_manifest(partial)
    assert (found["plugin"], found["distribution"], found["api_version"]) == (
        "wrong-plugin",
        "atled-wrong",
        API_VERSION,
    )
    backend = found["backends"]["wrong"]
    assert backend["type_configs"] == ["float", "half", "double"] and backend["host"] is True
    assert set(backend["ops"]) == {"ReLU", "Softmax"}
    assert backend["ops"]["ReLU"] == {"version": 1, "float": ["best"]}
    softmax = backend["ops"]["Softmax"]
    assert softmax["float"] == ["implementation"] and softmax["partial"] == ["float", "half", "double"]


def test_the_file_has_a_line_per_op_and_reads_back(partial):
    found = make_manifest(partial)
    text = manifest_text(found)
    assert json.loads(text) == found
    assert '    "ReLU": {"version": 1, "float": ["best"]},\n' in text


def test_the_reference_computes_everything():
    ops = make_manifest("reference")["backends"]["reference"]["ops"]
    assert list(ops) == [spec.name for spec in catalogue()]
    assert all(entry[kind] == ["NumPy"] for entry in ops.values() for kind in ("float", "half", "double"))


def test_manifests_are_printed_and_unknown_plugins_refused(partial, capsys):
    assert main(["manifest", "partial", "--print"]) == 0
    assert json.loads(capsys.readouterr().out)["plugin"] == "wrong-plugin"
    assert main(["manifest", "partail", "--print"]) == USER_ERROR
    assert "did you mean 'partial'?" in capsys.readouterr().err


def test_a_plugin_without_a_package_has_no_file(partial, capsys):
    assert main(["manifest", "partial"]) == USER_ERROR
    assert "not in an installed package" in capsys.readouterr().err


def test_drift_is_a_failure(partial, monkeypatch, tmp_path, capsys):
    path = tmp_path / "atled-manifest.json"
    monkeypatch.setattr("atled.generators.manifest.manifest_path", lambda plugin: path)
    assert main(["manifest", "partial", "--check"]) == 1
    assert main(["manifest", "partial"]) == 0
    assert main(["manifest", "partial", "--check"]) == 0
    path.write_text(path.read_text().replace("best", "good"))
    assert main(["manifest", "partial", "--check"]) == 1
    assert "run python -m atled manifest partial" in capsys.readouterr().err
    assert [found.name for found in tmp_path.iterdir()] == ["atled-manifest.json"]


def test_the_matrix_has_a_column_per_backend_and_type_configs_that_differ(partial):
    lines = support_matrix([partial]).splitlines()
    assert (
        "| op | reference<br>float<br>half<br>double<br>bf16<br>tf32 | wrong<br>float | wrong<br>half<br>double |"
        in lines
    )
    (relu,) = (line for line in lines if line.startswith("| ReLU "))
    assert relu == "| ReLU (`F.relu`) | ● | ● | - |"
    (softmax,) = (line for line in lines if line.startswith("| Softmax "))
    assert softmax == "| Softmax (`F.softmax`) | ● | ◐ | ◐ |"
    assert f"| `wrong:half` | 0 | 1 | 0 | {len(catalogue()) - 1} |" in lines


def test_adopted_references_are_told_from_kernels(monkeypatch):
    from atled.reference import adopt_reference

    class Adopting(WrongPlugin):
        @hookimpl
        def atled_register(self, registrar):
            registrar.family("wrong", lambda op: adopt_reference(op, "wrong"))
            registrar.implementation("Tanh", "wrong", self._prepare)

    register_plugin("adopting", Adopting({}))
    try:
        text = support_matrix(["adopting"])
    finally:
        unregister_plugin("adopting")
    assert "| ReLU (`F.relu`) | ● | ○ |" in text
    assert "| Tanh (`F.tanh`) | ● | ● |" in text


def test_the_matrix_is_written_and_checked(partial, tmp_path, capsys):
    path = tmp_path / "support.md"
    words = ["support-matrix", "partial", "--out", str(path)]
    assert main([*words, "--check"]) == 1
    assert main(words) == 0 and path.read_text() == support_matrix(["partial"])
    assert main([*words, "--check"]) == 0
    assert main(["support-matrix", "--check"]) == USER_ERROR
    assert "add --out FILE" in capsys.readouterr().err


def test_providers_are_asked_only_for_what_was_not_handed_over():
    from atled_contexts import BackendInfo, PluginInfo, Registrar

    info = PluginInfo("p", API_VERSION, "atled-p", "1", (BackendInfo("b"),))
    registrar = Registrar(info)
    asked = []

    def provider(op):
        asked.append(op)
        return Implementation(op, "b", len, note="family") if op == "Tanh" else None

    registrar.family("b", provider)
    registrar.implementation("ReLU", "b", len, note="own")
    assert [made.note for made in registrar.offered("ReLU", "b")] == ["own"]
    assert [made.note for made in registrar.offered("Tanh", "b")] == ["family"]
    assert registrar.offered("Exp", "b") == () and asked == ["Tanh", "Exp"]
