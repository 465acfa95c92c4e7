"""NNabla's names mean atled where that is asked for, say what is missing, and mean nothing otherwise."""

import importlib
import logging
import subprocess
import sys
from types import ModuleType

import pytest

import atled
import atled.functions
import atled.solvers
from atled.compat.nnabla_names import NNABLA

pytestmark = pytest.mark.usefixtures("drop_in")


def fresh(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)


def test_names_are_those_of_atled():
    import nnabla as nn
    import nnabla.functions as F
    import nnabla.solvers as S

    assert nn.Variable is atled.Variable and nn.functions is F
    assert F.relu is atled.functions.relu
    assert S.Adam is atled.solvers.Adam
    assert importlib.import_module("nnabla.solver").Solver is atled.solvers.Solver
    assert importlib.import_module("nnabla.function_bases").relu is F.relu
    assert importlib.import_module("nnabla._nd_array").NdArray is atled.NdArray
    assert importlib.import_module("nnabla.parameter").save_parameters is atled.save_parameters


@pytest.mark.parametrize("name", [name for name in NNABLA.modules if NNABLA.has(name)])
def test_every_module_imports(name):
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert dir(module)


def test_functions_win_over_modules_of_their_name():
    import nnabla
    import nnabla.auto_forward
    import nnabla.logger

    assert nnabla.auto_forward is atled.auto_forward
    assert isinstance(nnabla.logger, logging.Logger)
    from nnabla.auto_forward import get_auto_forward
    from nnabla.logger import logger

    assert get_auto_forward is atled.get_auto_forward
    assert logger is nnabla.logger


def test_modules_are_there_as_attributes():
    import nnabla as nn

    assert nn.utils.data_iterator.data_iterator_simple
    assert nn.parametric_functions.affine


def test_modules_of_later_releases_that_scripts_import():
    import nnabla as nn
    from nnabla.random import prng
    from nnabla.solver import Solver
    from nnabla.utils.data_source_loader import download, get_data_home
    from nnabla.utils.download import download as same
    from nnabla.utils.learning_rate_scheduler import CosineScheduler

    assert download is same and get_data_home().endswith("nnabla_data")
    assert nn.solver.Adam is nn.solvers.Adam and issubclass(nn.solvers.Adam, Solver)
    assert prng.rand(2).shape == (2,) and nn.seed is atled.seed
    assert CosineScheduler(2.0, 10).get_learning_rate(5) == pytest.approx(1)


def test_messages_have_the_names_of_nnablas_generated_module():
    pytest.importorskip("google.protobuf")
    from nnabla.utils import nnabla_pb2

    proto = nnabla_pb2.NNablaProtoBuf()
    proto.network.add(name="net").function.add(type="ReLU").relu_param.inplace = True
    again = nnabla_pb2.NNablaProtoBuf()
    again.ParseFromString(proto.SerializeToString())
    assert again.network[0].function[0].relu_param.inplace
    assert isinstance(proto.network[0], nnabla_pb2.Network) and "Parameter" in dir(nnabla_pb2)
    with pytest.raises(AttributeError, match="did you mean 'Network'"):
        nnabla_pb2.Netwrk  # noqa: B018  # asked for its error


def test_star_import_brings_the_public_names():
    namespace = {}
    exec("from nnabla.functions import *", namespace)
    assert namespace["convolution"] is atled.functions.convolution
    assert len(namespace) > 100


def test_present_values_are_seen_not_those_of_the_import():
    import nnabla as nn

    before = nn.available_contexts
    nn.add_available_context("one more")
    try:
        assert "one more" in nn.available_contexts and "one more" not in before
    finally:
        importlib.import_module("atled.ext_utils")._added.remove("one more")


def test_the_version_is_that_of_the_api():
    import nnabla

    assert nnabla.__version__ == "1.0.0"
    assert atled.__version__ != nnabla.__version__


def test_extensions():
    import nnabla_ext.reference
    from nnabla_ext import reference

    assert nnabla_ext.reference is reference
    assert reference.context().backend == ["reference:float"]
    assert importlib.import_module("nnabla.ext_utils").import_extension_module("reference").get_devices() == ["0"]


# What is missing.


@pytest.mark.parametrize(
    "statement, error, words",
    [
        ("import nnabla.functions as F; F.softmx", AttributeError, "did you mean 'softmax'?"),
        ("import nnabla as nn; nn.Varable", AttributeError, "did you mean 'Variable'?"),
        ("from nnabla.functions import lstmm", ImportError, "nnabla.functions.lstmm: atled does not have it"),
        ("from nnabla import nothing", ImportError, "import nnabla.nothing: atled has no such"),
        ("import nnabla.utils.nvml", ModuleNotFoundError, "import nnabla.utils.nvml: atled has no such"),
        ("import nnabla.utils.data_iteratr", ModuleNotFoundError, "did you mean 'nnabla.utils.data_iterator'?"),
        ("import nnabla.nothing.more", ModuleNotFoundError, "import nnabla.nothing: atled has no such"),
        ("import nnabla_ext.nonesuch", ImportError, "usable are"),
        ("from nnabla_ext import nonesuch", ImportError, "usable are"),
        ("import nnabla_ext.reference as r; r.nothing", AttributeError, "nnabla_ext.reference.nothing"),
        ("import nnabla.communicators", ModuleNotFoundError, "trains on one device"),
        ("from nnabla.communicators import MultiProcessDataParallelCommunicator", ModuleNotFoundError, "leave out the"),
        ("import nnabla as nn; nn.communicators", AttributeError, "trains on one device"),
        ("import nnabla.utils.converter", ModuleNotFoundError, "converts no files"),
    ],
)
def test_what_is_missing_is_named(statement, error, words):
    with pytest.raises(error) as raised:
        exec(statement, {})
    assert words in str(raised.value)


def test_modules_that_atled_uses_itself_are_no_part_of_the_api():
    import nnabla as nn

    assert not hasattr(nn, "graph") and not hasattr(nn, "__nothing__")
    assert hasattr(nn, "Variable")


# What is changed, and what is not.


def test_nothing_is_changed_before_it_is_asked_for():
    done = fresh(
        "import sys, atled, atled.compat, atled.ext_utils, importlib.util\n"
        "assert not any('compat' in type(finder).__module__ for finder in sys.meta_path)\n"
        "assert importlib.util.find_spec('nnabla') is None\n"
    )
    assert done.returncode == 0, done.stderr


def test_installing_twice_is_once(drop_in):
    count = len(sys.meta_path)
    drop_in.install()
    assert len(sys.meta_path) == count


def test_uninstalling_frees_the_names(drop_in):
    import nnabla  # noqa: F401  # to be forgotten

    drop_in.uninstall()
    assert not any(name.partition(".")[0] in ("nnabla", "nnabla_ext") for name in sys.modules)
    assert not any("compat" in type(finder).__module__ for finder in sys.meta_path)


def test_the_real_one_is_refused_if_it_is_there_already(drop_in, monkeypatch):
    drop_in.uninstall()
    monkeypatch.setitem(sys.modules, "nnabla", ModuleType("nnabla"))
    with pytest.raises(ImportError) as raised:
        drop_in.install()
    assert "the real nnabla is imported already" in str(raised.value)
    assert "restart the notebook's kernel" in str(raised.value)


def test_an_installed_one_is_not_found(tmp_path):
    (tmp_path / "nnabla.py").write_text("raise RuntimeError('the real one')\n")
    done = fresh(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import atled.compat.nnabla, nnabla\n"
        "print(nnabla.__version__)"
    )
    assert done.stdout == "1.0.0\n", done.stderr
