"""What completion offers: the public names of the public modules, nothing of what they are made with."""

import ast
import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import atled as nn
from atled.compat.nnabla_names import NNABLA

ARRAYS = "atled.arrays.array"  # stands for NNabla's `_nd_array`; not public under its own name
PUBLIC = sorted({*NNABLA.modules.values(), "atled.op_spec", "atled.plugin", "atled_contexts"} - {ARRAYS})


@pytest.mark.parametrize("name", PUBLIC)
def test_dir_shows_public_names_only_and_all_of_them_are_there(name):
    module = importlib.import_module(name)
    packages = set(nn._MODULES) if module is nn else set()
    if hasattr(module, "__path__") and not hasattr(module, "__all__"):
        pytest.skip("a package without names of its own")
    names = dir(module)
    assert names == sorted(set(names)) and set(getattr(module, "__all__", ())) <= set(names)
    for public in names:
        found = getattr(module, public)
        assert public == "__version__" or not public.startswith("_")
        # `nn.logger` is the logger, or the module of that name, which answers like it.
        assert isinstance(found, ModuleType) == (public in packages) or public == "logger", public


def test_the_fronts_offer_what_scripts_write():
    wanted = {
        nn: {"Variable", "NdArray", "Context", "save_parameters", "memory_statistics", "functions", "solvers"},
        nn.functions: {"relu", "convolution", "sum"},
        nn.parametric_functions: {"affine", "convolution"},
        nn.solvers: {"Adam", "Sgd"},
        nn.initializer: {"ConstantInitializer"},
        nn.monitor: {"Monitor", "MonitorSeries"},
    }
    for module, names in wanted.items():
        assert names <= set(dir(module))
        assert not {"np", "annotations", "os", "math", "four_parts", "Any", "apply", "epoch"} & set(dir(module))


def test_type_checkers_are_told_of_what_the_front_imports_later():
    checked = (node for node in ast.parse(inspect.getsource(nn)).body if isinstance(node, ast.If))
    (imports,) = (node.body for node in checked if ast.unparse(node.test) == "_TYPE_CHECKING")
    told = {alias.asname or alias.name: line.module for line in imports for alias in line.names}
    assert told == {name: module for name, module in nn._LATER.items() if module != "atled.ext_utils"}


def test_modules_are_found_from_the_front_and_not_before_they_are_asked_for():
    code = "import sys, atled as nn; print('atled.solvers' in sys.modules, nn.solvers.Adam.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "Adam"]


def test_the_import_does_not_bring_what_only_messages_and_settings_need():
    code = "import sys, atled; print(*{'configparser', 'logging'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_import_does_not_bring_what_makes_plans():
    code = """
import sys, atled
import numpy as np

def loaded():
    late = ("backward", "backward_plan", "compile.fusion", "compile.lowering", "compile.plan", "constants.held")
    late += ("forward_plan", "nodes.gradient", "rebuilt")
    return sorted({f"atled.graph.{name}" for name in late} & set(sys.modules))

print(loaded())
x = atled.Variable.from_numpy_array(np.ones(3, np.float32), need_grad=True)
y = x * x
y.forward()
print("atled.graph.forward_plan" in loaded(), "atled.graph.rebuilt" in loaded())
y.backward()
y.backward()
print("atled.graph.rebuilt" in loaded(), x.g.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False", "True 12.0"]


@pytest.mark.parametrize(
    "call",
    [
        "a + b",
        "a * 2",
        "a[0]",
        "(v + v).forward()",
        "v.reshape((3, 1), unlink=True)",
        "a.__iadd__(b)",
        "nn.functions.tanh(a)",
    ],
)
def test_what_calls_ops_is_imported_when_the_first_one_is_called(call: str) -> None:
    code = f"""
import sys, atled as nn
import numpy as np

def is_loaded():
    return "atled.calling.apply" in sys.modules

a, b = (nn.NdArray.from_numpy_array(np.ones(3, np.float32)) for _ in range(2))
v = nn.Variable.from_numpy_array(np.ones(3, np.float32))
before = is_loaded()
{call}
print(before, is_loaded())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_layers_of_further_families_are_imported_when_one_is_asked_for() -> None:
    code = """
import sys, atled.parametric_functions as PF

def is_loaded():
    return "atled.parametric.rounded_weights" in sys.modules

PF.affine, PF.convolution
before = is_loaded()
PF.binary_weight_affine
print(before, is_loaded(), PF.svd_affine.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "atled.parametric_functions"]


def test_all_layers_come_with_a_star() -> None:
    code = "from atled.parametric_functions import *; print(affine.__name__, binary_weight_affine.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["affine", "binary_weight_affine"]


def test_files_of_solvers_are_imported_when_states_are_asked_for() -> None:
    code = """
import sys, atled.solvers as S
before = "atled.files.solver_states" in sys.modules
print(before, S.SolverState.__name__, S.Adam().get_states())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "SolverState", "{}"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^atled\.Varable: no such name\nWhat to do: did you mean 'Variable'\?$"):
        _ = nn.Varable
    with pytest.raises(AttributeError, match=r"^atled\.relu: no such name\nWhat to do: dir\(atled\) lists all"):
        _ = nn.relu
    assert not hasattr(nn, "__wrapped__")


def test_python_suggests_no_other_name_behind_the_nearest_one():
    code = "import atled.functions as F; F.assign"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("\nWhat to do: did you mean 'sign'?\n")
