"""The plugin as users meet it: presets, doctor, caches, a training step."""

import gc
import json
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.commands import main
from atled.warming import warm_up
from atled_contexts import reload_plugins
from atled_cuda_cupy import compiling
from atled_cuda_cupy.devices import device_ids


@pytest.mark.parametrize(
    ("type_config", "backends"),
    [
        ("float", ["cuda:float", "cpu:float"]),
        ("tf32", ["cuda:tf32", "cpu:float"]),
        ("half", ["cuda:half", "cuda:float", "cpu:float"]),
        ("bf16", ["cuda:bf16", "cpu:bf16"]),
        ("double", ["cuda:double", "cpu:double"]),
    ],
)
def test_presets_fall_back_to_the_host(type_config, backends):
    last = device_ids()[-1]
    context = nn.get_extension_context("cuda", type_config=type_config, device_id=int(last), fallback="quiet")
    assert context.backend == backends
    assert (context.array_class, context.device_id, context.fallback) == ("CudaCachedArray", last, "quiet")


def test_doctor_says_where_kernels_run(emulated, capsys):
    main(["doctor", "--json", "--no-self-test"])
    report = json.loads(capsys.readouterr().out)
    (found,) = (one for one in report["plugins"] if one["name"] == "cuda-cupy")
    assert "emulator" in found["facts"]["runs on"]
    assert {"backend": "cuda", "devices": device_ids(), "error": ""} in report["devices"]


def test_devices_survive_a_reload_of_the_plugins(cuda):
    with nn.context_scope(cuda):
        x = nn.Variable.from_numpy_array(np.ones(3, np.float32))
        y = x + 1
        y.forward()
        reload_plugins()
        y.forward()
        np.testing.assert_array_equal(y.d, [2, 2, 2])


def step(cuda):
    """A small training step, and what it trains."""
    rng = np.random.default_rng(0)
    x, w = (nn.Variable.from_numpy_array(rng.standard_normal((64, 64)).astype("f")) for _ in range(2))
    w.need_grad = True
    loss = F.tanh(x * w + 1) ** 2
    solver = S.Adam(0.1)
    solver.set_parameters({"w": w})
    return x, w, solver, nn.compile_step(loss, solver)


@pytest.mark.parametrize("observed", [False, True])
def test_a_step_learns_as_on_the_reference_with_rates_that_change(cuda, observed):
    found = []
    for context in (cuda.replace(fallback="quiet"), nn.Context(["reference"])):
        with nn.context_scope(context):
            x, w, solver, train = step(context)
            for number in range(6):
                solver.set_learning_rate(0.1 / (1 + number // 2))
                x.d = x.d + 0.1
                if observed:
                    with nn.trace():
                        train()
                else:
                    train()
            found.append(w.d.copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_steps_let_memory_neither_grow_nor_stay(cuda, where, arrays):
    in_use = lambda: arrays.statistics("0")["bytes_in_use"]  # noqa: E731 - read often
    before = in_use()
    with nn.context_scope(cuda.replace(fallback="quiet")):
        x, w, solver, train = step(cuda)
        for _ in range(4):
            train()
        gc.collect()
        running = in_use()
        for _ in range(50):
            train()
        gc.collect()
        assert in_use() == running
    del x, w, solver, train
    nn.clear_memory_cache()
    gc.collect()
    assert in_use() == before


def test_a_warm_up_waits_for_what_threads_compile(where, monkeypatch):
    gate, seen = threading.Event(), []
    monkeypatch.setattr(compiling, "_compile", lambda where, text, name: gate.wait())
    monkeypatch.setattr(compiling, "_progress", compiling._Progress())
    monkeypatch.setattr("atled.warming.all_specs", lambda: ())

    def progress(done, total, name):
        seen.append((done, total, name))
        gate.set()

    compiling.function(where, "a text that nobody else has", "slow")
    warm_up("cuda", progress=progress)
    assert seen == [(0, 1, "slow (1)"), (1, 1, "")] and not compiling.underway()


def test_compiled_kernels_are_counted_and_forgotten(cuda):
    with nn.context_scope(cuda):
        y = F.tanh(nn.Variable.from_numpy_array(np.ones(3, "f")))
        y.forward()
        assert nn.memory_statistics()["caches"]["cuda kernels"] > 0
        nn.clear_memory_cache()
        assert nn.memory_statistics()["caches"]["cuda kernels"] == 0
        y.forward()
        np.testing.assert_allclose(y.d, np.tanh(np.ones(3)), rtol=1e-6)
