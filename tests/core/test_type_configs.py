"""Computing under bf16, tf32 and type configs that a plugin declares."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.conformance.checks import check_op
from atled.ops.spec import SPECS
from atled.plugin import (
    API_VERSION,
    BackendInfo,
    Implementation,
    PluginInfo,
    Prepared,
    TypeConfig,
    hookimpl,
    reference_run,
)
from atled.type_configs import computable, compute_dtype, precise_dtype
from atled_contexts import ContextError, register_plugin, unregister_plugin

BF16 = np.dtype(ml_dtypes.bfloat16)
EIGHT = TypeConfig("eight", "float8_e5m2")
LOOSE = TypeConfig("loose", "float32", precise="float64", precision="bfloat16")


class Small:
    """A host backend with two type configs of its own, on the reference; keeps the calls that it prepares."""

    def __init__(self) -> None:
        self.calls = []

    @hookimpl
    def atled_info(self):
        backend = BackendInfo("small", ("float", EIGHT, LOOSE, "named"), host=True)
        return PluginInfo("small", API_VERSION, "atled-small", "1", (backend,))

    @hookimpl
    def atled_register(self, registrar):
        registrar.family("small", lambda op: Implementation(op, "small", self.prepare, op_version=None))

    def prepare(self, call):
        self.calls.append(call)
        return Prepared(reference_run(call))


@pytest.fixture
def small() -> Iterator[Small]:
    plugin = Small()
    register_plugin("small", plugin)
    yield plugin
    unregister_plugin("small")


def on(entry: str) -> nn.Context:
    return nn.Context([entry], fallback="raise")


def test_inputs_are_cast_to_what_the_plugin_declares(small):
    x = nn.Variable.from_numpy_array(np.float32([[1.1, 2.2], [3.3, 4.4]]))
    with nn.context_scope(on("small:eight")):
        y = F.exp(x)
        y.forward()
        PF.batch_normalization(x).forward()
    assert y.d.dtype == ml_dtypes.float8_e5m2
    exp, normalization = (
        next(call for call in small.calls if call.spec.name == op) for op in ("Exp", "BatchNormalization")
    )
    assert exp.inputs[0].dtype == ml_dtypes.float8_e5m2 and exp.type_config == "eight"
    by_name = dict(zip(SPECS["BatchNormalization"].input_names, normalization.inputs, strict=True))
    assert {name: desc.dtype.name for name, desc in by_name.items()} == {
        "x": "float8_e5m2",
        "beta": "float8_e5m2",
        "gamma": "float8_e5m2",
        "mean": "float32",
        "variance": "float32",
    }


def test_a_call_says_how_exact_its_products_must_be(small):
    for entry, precision in (("small:loose", "bfloat16"), ("small:float", "float32"), ("small:eight", "float32")):
        with nn.context_scope(on(entry)):
            F.affine(nn.NdArray((2, 3)), nn.NdArray((3, 2)))
        assert small.calls[-1].precision == precision


def test_equal_dtypes_under_two_type_configs_are_two_calls(small):
    x, w = nn.NdArray((2, 3)), nn.NdArray((3, 2))
    for entry in ("small:float", "small:loose", "small:float"):
        with nn.context_scope(on(entry)):
            F.affine(x, w)
    assert [call.type_config for call in small.calls if call.spec.name == "Affine"] == ["float", "loose"]


def test_precise_inputs_have_a_dtype_of_their_own(small):
    assert (compute_dtype("loose"), precise_dtype("loose")) == (np.float32, np.float64)


def test_explain_shows_the_type_config_and_how_it_is_computed(small):
    asked = nn.explain(F.exp, nn.NdArray((2,)), using="small:eight")
    assert asked.calls[0].call == "Exp(float8_e5m2[2])"
    assert asked.calls[0].chosen.type_config == "eight"
    assert "\neight: float8_e5m2 arrays, sums and precise inputs in float32" in str(asked)
    assert asked.to_json()[0]["types"] == asked.calls[0].types != ""


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("small:float", ""),
        ("reference:double", ""),
        ("reference:half", "half: float16 arrays, sums and precise inputs in float32"),
        ("reference:tf32", "tf32: float32 arrays, factors of products in tf32"),
        ("small:loose", "loose: float32 arrays, sums and precise inputs in float64, factors of products in bfloat16"),
    ],
)
def test_explain_says_how_products_are_computed(small, entry, words):
    call = nn.explain(F.affine, nn.NdArray((2, 3)), nn.NdArray((3, 2)), using=entry).calls[0]
    assert call.types == words


def test_verification_allows_the_errors_of_the_type_config(small):
    x = np.linspace(-1, 1, 12, dtype=np.float32)
    with nn.context_scope(on("small:eight")), nn.verify(1.0) as checks:
        F.tanh(nn.NdArray.from_numpy_array(x))
        F.affine(nn.NdArray.from_numpy_array(x.reshape(3, 4)), nn.NdArray.from_numpy_array(x.reshape(4, 3)))
    assert {"Tanh", "Affine"} <= set(checks.by_op)


def test_the_errors_allowed_follow_from_dtype_and_products(small):
    product, formula = SPECS["Convolution"], SPECS["Tanh"]
    assert formula.allowed_error("tf32") == formula.allowed_error("float") < product.allowed_error("tf32")
    assert formula.allowed_error("half") < formula.allowed_error("bf16") < formula.allowed_error("eight")
    assert formula.allowed_error("loose") == formula.allowed_error("float")
    assert product.allowed_error("loose") == product.allowed_error("bf16")


def test_ops_are_checked_under_the_type_configs_of_a_plugin(small):
    assert computable(["float", "eight", "named", "bf16"]) == ["float", "eight", "bf16"]
    assert check_op("Tanh", "small")
    assert {"eight", "loose", "float"} <= {call.type_config for call in small.calls}


@pytest.mark.parametrize("backend", ["reference", "sim"])
def test_training_in_bf16_keeps_parameters_and_states_in_float32(backend):
    pytest.importorskip("atled_sim")
    nn.clear_parameters()
    rng = np.random.default_rng(0)
    x = nn.Variable.from_numpy_array(rng.standard_normal((16, 8)).astype(np.float32))
    t = nn.Variable.from_numpy_array(rng.integers(0, 3, (16, 1)))
    losses = {}
    for type_config in ("float", "bf16"):
        with nn.context_scope(on(f"{backend}:{type_config}")), nn.parameter_scope(type_config):
            np.random.seed(1)
            h = F.tanh(PF.batch_normalization(PF.affine(x, 8, name="first")))
            loss = F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="second"), t))
            solver = S.Adam(0.05)
            solver.set_parameters(nn.get_parameters())
            step = nn.compile_step(loss, solver, weight_decay=1e-4)
            losses[type_config] = [float(step().d) for _ in range(20)]
            parameters = nn.get_parameters(grad_only=False).values()
            assert {p.data.dtype for p in parameters} == {np.dtype(np.float32)}
            assert loss.d.dtype == (BF16 if type_config == "bf16" else np.float32)
    assert losses["bf16"] != losses["float"]
    np.testing.assert_allclose(losses["bf16"], losses["float"], atol=0.05)
    assert losses["bf16"][-1] < 0.5 * losses["bf16"][0]
    nn.clear_parameters()


def test_gradients_of_arrays_in_bf16_have_their_dtype_and_flow():
    x = nn.Variable.from_numpy_array(np.float32([0.5, -1, 2]).astype(BF16), need_grad=True)
    with nn.context_scope(on("reference:float")):
        y = F.sum(x**2)
        y.forward()
        y.backward()
    assert x.g.dtype == BF16 and x.g.tolist() == [1, -2, 4]


def test_parameters_in_bf16_are_saved_and_loaded(tmp_path):
    values = np.linspace(-3, 3, 7, dtype=np.float32).astype(BF16)
    for ending in ("h5", "protobuf", "npz"):
        nn.clear_parameters()
        nn.parameter.set_parameter("w", nn.Variable.from_numpy_array(values, need_grad=True))
        path = str(tmp_path / f"parameters.{ending}")
        nn.save_parameters(path)
        nn.clear_parameters()
        nn.load_parameters(path)
        loaded = nn.get_parameters()["w"].d
        assert loaded.dtype == np.float32 and np.array_equal(loaded, values.astype(np.float32)), ending
    nn.clear_parameters()


def test_files_are_loaded_into_parameters_in_bf16(tmp_path):
    path = str(tmp_path / "parameters.h5")
    nn.clear_parameters()
    nn.parameter.set_parameter("w", nn.Variable.from_numpy_array(np.float32([1.01, 2])))
    nn.save_parameters(path)
    w = nn.get_parameters(grad_only=False)["w"]
    w.data.cast(BF16)
    w.d = 0
    nn.load_parameters(path)
    assert w.d.dtype == BF16 and w.d.tolist() == [1.0078125, 2]
    nn.clear_parameters()


class Only(Small):
    """A host backend with the type configs given."""

    def __init__(self, *type_configs) -> None:
        super().__init__()
        self.type_configs = type_configs

    @hookimpl
    def atled_info(self):
        return PluginInfo("only", API_VERSION, "atled-only", "1", (BackendInfo("small", self.type_configs, host=True),))


def trained_on(context, is_compiled):
    w = nn.Variable.from_numpy_array(np.ones(3, np.float32), need_grad=True)
    with nn.context_scope(context):
        loss = F.sum(w**2)
        solver = S.Sgd(0.25)
        solver.set_parameters({"w": w})
        if is_compiled:
            nn.compile_step(loss, solver)()
        else:
            loss.forward()
            loss.backward()
            solver.update()
    return w.d


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("offered", [("float",), ("half", "tf32"), (EIGHT, "float")], ids=str)
def test_a_backend_trains_float32_parameters_without_offering_float64(offered, is_compiled):
    register_plugin("only", Only(*offered))
    try:
        name = offered[0] if isinstance(offered[0], str) else offered[0].name
        assert trained_on(on(f"small:{name}"), is_compiled).tolist() == [0.5] * 3
    finally:
        unregister_plugin("only")


@pytest.mark.parametrize("is_compiled", [False, True])
def test_updates_need_a_type_config_of_the_parameters_dtype(is_compiled):
    register_plugin("only", Only(EIGHT))
    try:
        with pytest.raises(ContextError, match=r"it offers no type config of that dtype(.|\n)*plugin offer 'float'"):
            trained_on(on("small:eight"), is_compiled)
    finally:
        unregister_plugin("only")


@pytest.mark.parametrize("type_config", ["half", "bf16"])
def test_what_is_too_large_for_a_narrow_dtype_becomes_infinite_without_a_warning(type_config):
    x = nn.NdArray.from_numpy_array(np.array([1e39, -1e300, 2.0]))
    with nn.context_scope(on(f"reference:{type_config}")):
        assert F.mul_scalar(x, 2.0).data.tolist() == [np.inf, -np.inf, 4.0]


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        (TypeConfig("rounds", "float32", precision="tf31"), "dtype 'tf31': neither NumPy nor ml_dtypes has a dtype"),
        (TypeConfig("whole", "int8"), "dtype 'int8': it is no floating-point dtype"),
        (TypeConfig("bits", "tf32"), "dtype 'tf32': neither NumPy nor ml_dtypes has a dtype"),
    ],
)
def test_a_type_config_of_no_floating_point_dtypes_is_refused(config, wrong):
    class Odd(Small):
        @hookimpl
        def atled_info(self):
            return PluginInfo("odd", API_VERSION, "atled-odd", "1", (BackendInfo("odd", (config,), host=True),))

        @hookimpl
        def atled_register(self, registrar):
            """It computes nothing."""

    register_plugin("odd", Odd())
    try:
        with pytest.raises(ContextError, match=f"type config '{config.name}' has {wrong}"):
            nn.Context(f"odd:{config.name}")
    finally:
        unregister_plugin("odd")
