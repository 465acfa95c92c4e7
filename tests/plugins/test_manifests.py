"""What every installed plugin ships beside its code, and what its import costs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from atled_contexts import API_VERSION, MANIFEST, entry_points, handed_over, package_folder, read_package_file

ROOT = Path(__file__).parents[2]
INSTALLED = entry_points.installed()
# Those of this repository; others in the environment are their authors' business.
OURS = [plugin for plugin in INSTALLED if ROOT in (package_folder(plugin.module) or Path("/")).parents]

HEAVY = (
    "cupy",
    "h5py",
    "jax",
    "llvmlite",
    "matplotlib",
    "numba",
    "pandas",
    "pyopencl",
    "rich",
    "scipy",
    "sklearn",
    "tensorflow",
    "torch",
)
"""Libraries that take long to import, or start a device."""


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)


def test_there_are_plugins_to_look_at():
    assert {plugin.name for plugin in INSTALLED} >= {plugin.name for plugin in OURS}


@pytest.mark.parametrize("plugin", OURS, ids=lambda plugin: plugin.name)
def test_the_manifest_is_there_and_read_without_an_import(plugin):
    done = python(
        "import sys\n"
        "from atled_contexts import read_package_file\n"
        f"found = read_package_file({plugin.module!r}, {MANIFEST!r})\n"
        f"print(found['api_version'], {plugin.module.partition('.')[0]!r} in sys.modules)\n"
    )
    version, is_loaded = done.stdout.split()
    assert version in ("1.0", API_VERSION) and is_loaded == "False", done.stderr


def test_manifests_and_support_matrix_are_what_the_plugins_register():
    # In a fresh process: here tests may have registered op specs of their own.
    names = [plugin.name for plugin in OURS]
    done = python(
        "import sys\n"
        "from atled.commands import main\n"
        f"names = {names!r}\n"
        "status = main(['manifest', '--check', *names]) if names else 0\n"
        "shown = ['cpu-numba', 'sim', 'cuda-cupy', 'cudnn']\n"
        "if set(shown) <= set(names):\n"
        "    page = ['support-matrix', *shown, '--out', 'docs/support.md', '--check']\n"
        "    status = main(page) or status\n"
        "sys.exit(status)\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("plugin", INSTALLED, ids=lambda plugin: plugin.name)
def test_importing_the_plugin_object_loads_no_heavy_library(plugin):
    done = python(
        "import json, sys\n"
        "from atled_contexts import entry_points\n"
        f"found = next(p for p in entry_points.installed() if p.name == {plugin.name!r})\n"
        "before = set(sys.modules)\n"
        "found.load()\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))\n"
    )
    assert done.returncode == 0, done.stderr
    assert not set(json.loads(done.stdout)) & set(HEAVY)


@pytest.mark.parametrize("plugin", OURS, ids=lambda plugin: plugin.name)
def test_the_manifest_names_the_backends_that_the_plugin_declares(plugin):
    manifest = read_package_file(plugin.module, MANIFEST)
    info, _, _ = handed_over(plugin.name)
    assert set(manifest["backends"]) == {backend.name for backend in info.backends}
