"""What the plugin object says and brings."""

import subprocess
import sys

import pytest

import atled as nn
from atled_contexts import ContextError, backend_info, devices


def test_the_preset_falls_back_to_the_reference():
    context = nn.get_extension_context("sim", device_id="1", type_config="half")
    assert context.backend == ["sim:half", "reference:half"]
    assert (context.array_class, context.device_id) == ("SimArray", "1")


def test_it_is_never_the_default():
    assert backend_info("sim").default_priority == 0
    assert not backend_info("sim").host


def test_there_are_two_devices():
    assert devices("sim") == ("0", "1")
    with pytest.raises(ContextError, match="no usable backend of the list has a device '2'"):
        nn.Context("sim", device_id="2")


def test_importing_the_plugin_object_imports_no_compiler_and_no_device_library():
    program = (
        "import sys; from atled_sim.plugin import PLUGIN;"
        "print([name for name in ('numba', 'llvmlite', 'cupy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_training_on_it_imports_no_compiler_either():
    program = (
        "import sys, atled as nn, atled.functions as F, atled_contexts, atled_sim.plugin\n"
        "if 'sim' not in atled_contexts.backends(): atled_contexts.register_plugin('sim', atled_sim.plugin.PLUGIN)\n"
        "with nn.context_scope(nn.get_extension_context('sim')): y = F.relu(nn.NdArray((3,)))\n"
        "print(y.data.tolist(), [name for name in ('numba', 'llvmlite', 'cupy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0.0, 0.0, 0.0] []"
