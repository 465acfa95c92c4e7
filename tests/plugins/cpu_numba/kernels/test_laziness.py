"""Modules of kernels load late: those that a call needs, numba and llvmlite only when a kernel is compiled."""

import json
import subprocess
import sys

import pytest

from atled_cpu_numba.computed_by import KERNELS


def test_importing_the_families_imports_no_compiler():
    imports = "; ".join(f"import atled_cpu_numba.{name}" for name in KERNELS)
    program = f"import sys; {imports}; assert not {{'numba', 'llvmlite'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_widens_narrow_floats_is_not_imported_where_there_are_none():
    program = """
import sys
import numpy as np
import atled as nn
import atled.functions as F

F.softmax(nn.NdArray.from_numpy_array(np.ones((2, 3), np.float32))).data
assert "atled_cpu_numba.kernels.softmax" in sys.modules and "atled_cpu_numba.widened" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


_NETWORK = """
import json, sys
import numpy as np
import atled as nn
import atled.functions as F

def variable(*shape):
    return nn.Variable.from_numpy_array(np.ones(shape, np.float32))

def loaded():
    before = "atled_cpu_numba.kernels."
    return sorted(name.removeprefix(before) for name in sys.modules if name.startswith(before))
"""

_LENET = """
x = h = nn.Variable((1, 1, 28, 28))
for channels in (1, 16):
    h = F.convolution(h, variable(16, channels, 5, 5), pad=(2, 2)) + variable(1, 16, 1, 1)
    h = F.relu(F.max_pooling(h, (2, 2), stride=(2, 2)))
h = F.affine(F.relu(F.affine(F.reshape(h, (-1, 784)), variable(784, 50), variable(50))), variable(50, 10), variable(10))
nn.inference(h, [x])(np.ones(x.shape, np.float32))
"""

_TRAINING = """
w = nn.Variable.from_numpy_array(np.ones((16, 16, 3, 3), np.float32), need_grad=True)
loss = F.mean(F.convolution(variable(2, 16, 20, 20), w))
loss.forward()
loss.backward()
"""


@pytest.mark.parametrize(
    ("program", "folders"),
    [(_LENET, {"convolution", "pooling", "products", "shared", "winograd"}), (_TRAINING, {"convolution"})],
    ids=["LeNet", "training"],
)
def test_of_the_ways_to_compute_a_convolution_those_are_imported_that_are_asked(program, folders):
    done = subprocess.run(
        [sys.executable, "-c", f"{_NETWORK}{program}print(json.dumps(loaded()))"], capture_output=True, check=True
    )
    loaded = json.loads(done.stdout)
    assert "convolution.choice" in loaded and folders <= {name.split(".")[0] for name in loaded}
    assert not {"convolution.slices", "convolution.residues"} & set(loaded)
    assert not [name for name in loaded if name.startswith(("chwn", "depthwise"))]


def test_a_stand_in_has_what_the_module_has():
    from atled_cpu_numba.kernels.convolution import rows
    from atled_cpu_numba.on_demand import on_demand

    (stand_in,) = on_demand("kernels.convolution", "rows")
    assert stand_in.suits is rows.suits and "kernels.convolution.rows" in repr(stand_in)
    with pytest.raises(AttributeError):
        stand_in.no_such_name  # noqa: B018  # asking is what is tested
