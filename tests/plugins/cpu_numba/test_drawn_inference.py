"""Inference of networks drawn from a seed: other batch sizes, several counts of threads, several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.type_configs import compute_dtype
from atled_contexts import Context
from drawn_calls import THREADS, assert_close, guarded_memory, threads

TOLERANCE = {"float": 1e-4, "half": 6e-2, "bf16": 3e-1}
STEPS = {"relu": F.relu, "swish": F.swish, "tanh": F.tanh, "relu6": lambda x: F.minimum_scalar(F.relu(x), 6.0)}
LAYERS = ("convolution", "convolution", "depthwise", "residual", "pooling", "gate", "joined", "transposed", "centred")
CHANNELS = (3, 8, 16, 17, 24, 32)
MOST = 1 << 14  # elements of an image

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_parameters")]


def network(rng: np.random.Generator, x: nn.Variable) -> tuple[nn.Variable, str]:
    """Layers drawn from rng on (N, C, H, W), with their words; the parameters are those of the current scope."""
    words = [f"{x.shape[1:]}"]
    for number in range(rng.integers(2, 9)):
        with nn.parameter_scope(f"{number}"):
            x, word = layer(rng, x)
        words.append(word)
        if np.prod(x.shape[1:]) > MOST:
            break
    if rng.random() < 0.6:
        x = F.softmax(PF.affine(x, int(rng.choice([1, 3, 10, 33]))))
        words.append("affine, softmax")
    return x, ", ".join(words)


def layer(rng: np.random.Generator, x: nn.Variable) -> tuple[nn.Variable, str]:
    channels, least = x.shape[1], min(x.shape[2:])
    name, kernel, stride = str(rng.choice(LAYERS)), int(rng.choice([1, 3, 3, 5])), int(rng.choice([1, 1, 2]))
    around = {"pad": (kernel // 2, kernel // 2), "stride": (stride, stride), "with_bias": bool(rng.random() < 0.5)}
    if name in ("convolution", "depthwise"):
        if name == "depthwise":
            y = PF.depthwise_convolution(x, (kernel, kernel), **around)
        else:
            y = PF.convolution(x, int(rng.choice(CHANNELS)), (kernel, kernel), **around)
        if rng.random() < 0.6:
            y = PF.batch_normalization(y, batch_stat=False)
        step = str(rng.choice(list(STEPS)))
        return STEPS[step](y), f"{name} {kernel}/{stride}, {step}"
    if name == "residual":
        y = PF.batch_normalization(PF.convolution(x, channels, (3, 3), pad=(1, 1)), batch_stat=False)
        return F.relu(x + y), name
    if name == "pooling" and least >= 3:
        function, pad = (F.max_pooling, F.average_pooling)[rng.integers(2)], int(rng.integers(2))
        return function(x, (3, 3), stride=(stride, stride), pad=(pad, pad)), f"pooling /{stride} + {pad}"
    if name == "gate":
        mean = F.global_average_pooling(x) if rng.random() < 0.5 else F.mean(x, axis=(2, 3), keepdims=True)
        return x * F.sigmoid(PF.convolution(mean, channels, (1, 1))), name
    if name == "joined":
        return F.concatenate(x, F.relu(x), axis=1), name
    if name == "transposed":
        return PF.deconvolution(x, 8, (2, 2), stride=(2, 2)), name
    return x - F.mean(x, axis=1, keepdims=True), "centred"


def fill(rng: np.random.Generator) -> None:
    """Draw all parameters: values of the size of 1 stay so."""
    for name, parameter in sorted(nn.get_parameters(grad_only=False).items()):
        values = rng.standard_normal(parameter.shape)
        if name.endswith("/var"):
            values = rng.uniform(0.5, 2, parameter.shape)
        elif name.endswith("/W"):
            values /= max(1, np.prod(parameter.shape[1:] if parameter.ndim > 2 else parameter.shape[:1])) ** 0.5
        parameter.d = values.astype(np.float16)


def attempt(rng: np.random.Generator, config: str) -> None:
    seed, shape = int(rng.integers(1 << 30)), rng.choice([1, 3, 5, 8, 12, 16, 17, 28], 3).tolist()
    recorded, counts = int(rng.integers(1, 4)), rng.integers(1, 10, 3).tolist()
    batches = [rng.standard_normal((count, *shape)).astype(np.float16) for count in counts]
    wanted = []
    with nn.context_scope(Context("reference:double")):
        for count, batch in zip(counts, batches, strict=True):
            x = nn.Variable((count, *shape))
            y, words = network(np.random.default_rng(seed), x)
            if not wanted:
                fill(rng)
            x.d = batch
            y.forward()
            wanted.append(y.d.astype(np.float64))
    what = f"{words}; batches of {counts}, recorded for {recorded}"
    found = []
    for count in THREADS:
        with threads(count), guarded_memory(), nn.context_scope(Context(f"cpu:{config}", fallback="raise")):
            x = nn.Variable((recorded, *shape))
            y, _ = network(np.random.default_rng(seed), x)
            infer = nn.inference(y, x)
            given = [batch.astype(compute_dtype(config)) for batch in batches]
            found.append([infer(batch).astype(np.float64) for batch in given])
            with ThreadPoolExecutor(3) as several:
                together = list(several.map(infer, given * 2))
            del infer
        for one, other in zip(together, found[-1] * 2, strict=True):
            np.testing.assert_array_equal(one.astype(np.float64), other, f"several at once, {what}")
    for one, other, exact in zip(*found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, f"on {THREADS} threads, {what}")
        assert_close(one, exact, TOLERANCE[config], what)


@pytest.mark.parametrize("config, seed", [("float", 0), ("float", 1), ("float", 2), ("half", 3), ("bf16", 4)])
def test_networks_are_inferred_as_they_are_computed_forward(config: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with nn.auto_forward(False):
        for _ in range(6):
            nn.clear_parameters()
            attempt(rng, config)
