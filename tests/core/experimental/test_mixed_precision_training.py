"""DynamicLossScalingUpdater: NNabla's rules step by step, and the digits network in half precision."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.demo.digits import load_digits
from atled.demo.network import digit_scores
from atled.experimental.mixed_precision_training import DynamicLossScalingUpdater


class FakeLoss:
    """Counts and records what the updater asks for."""

    def __init__(self):
        self.calls = []

    def forward(self, clear_no_need_grad):
        self.calls.append(("forward", clear_no_need_grad))

    def backward(self, scale, clear_buffer):
        self.calls.append(("backward", scale, clear_buffer))


class FakeSolver:
    """Overflows the given number of times."""

    def __init__(self, calls, overflows=0):
        self.calls = calls
        self.overflows = overflows

    def __getattr__(self, name):
        return lambda *values: self.calls.append((name, *values))

    def check_inf_or_nan_grad(self):
        self.overflows -= 1
        return self.overflows >= 0


def make(overflows=0, **options):
    loss = FakeLoss()
    solver = FakeSolver(loss.calls, overflows)
    feeder = options.pop("data_feeder", lambda: loss.calls.append(("feed",)))
    return DynamicLossScalingUpdater(solver, loss, feeder, **options), loss.calls


def test_one_update_in_its_order():
    updater, calls = make(accum_grad=2, weight_decay=0.5, clear_buffer=False)
    updater.update()
    run = [("feed",), ("forward", False), ("backward", 8.0, False)]
    assert calls == [("zero_grad",), *run, *run, ("scale_grad", 0.125), ("weight_decay", 0.5), ("update",)]


def test_gradients_are_exchanged_before_they_are_checked():
    class Comm:
        def all_reduce(self, grads, division, inplace):
            calls.append(("all_reduce", grads, division, inplace))

    updater, calls = make(comm=Comm(), grads=["g"])
    updater.update()
    names = [call[0] for call in calls]
    assert names == ["zero_grad", "feed", "forward", "backward", "all_reduce", "scale_grad", "update"]
    assert calls[4] == ("all_reduce", ["g"], False, False)


def test_an_overflow_shrinks_the_scale_and_tries_again_with_fresh_data():
    updater, calls = make(overflows=3, scale=64.0, scaling_factor=4.0)
    updater._counter = 5
    updater.update()
    assert updater.scale == 1.0 and updater._counter == 1
    assert calls.count(("feed",)) == 4 and calls.count(("update",)) == 1
    assert [call[1] for call in calls if call[0] == "backward"] == [64.0, 16.0, 4.0, 1.0]


def test_after_a_hundred_tries_the_step_is_given_up():
    updater, calls = make(overflows=10**6, scale=1.0)
    updater.update()
    assert ("update",) not in calls and calls.count(("feed",)) == 101
    updater.solver.overflows = 0
    updater.update()
    assert calls[-1] == ("update",)


def test_the_scale_grows_after_more_than_n_updates():
    updater, _ = make(N=3)
    scales = []
    for _ in range(10):
        updater.update()
        scales.append(updater.scale)
    assert scales == [8] * 4 + [16] * 4 + [32] * 2


def test_the_defaults_are_nnablas():
    updater = DynamicLossScalingUpdater(None, None)
    assert (updater.scale, updater.scaling_factor, updater.N, updater.accum_grad) == (8.0, 2.0, 2000, 1)
    assert (updater.clear_buffer, updater.weight_decay, updater.comm, len(updater.grads)) == (True, None, None, 0)
    assert updater.data_feeder() is None


@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_the_digits_network_trains_in_half_precision(name):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    if name not in nn.available_contexts:
        pytest.skip(f"no extension {name}")
    nn.clear_parameters()
    np.random.seed(0)
    rng = np.random.RandomState(0)
    digits = load_digits()
    with nn.context_scope(nn.get_extension_context(name, type_config="half")):
        x, t = nn.Variable((64, 1, 8, 8)), nn.Variable((64, 1))
        y = digit_scores(x, training=True)
        y.persistent = True
        loss = F.mean(F.softmax_cross_entropy(y, t))
        solver = S.Adam(0.005)
        solver.set_parameters(nn.get_parameters())

        def feed():
            chosen = rng.randint(0, len(digits.train_images), 64)
            x.d, t.d = digits.train_images[chosen], digits.train_labels[chosen]

        updater = DynamicLossScalingUpdater(solver, loss, feed, scale=2.0**20)
        for _ in range(40):
            updater.update()
        assert y.data.dtype == np.float16
        assert {p.data.dtype for p in nn.get_parameters().values()} == {np.dtype(np.float32)}
        assert 1 < updater.scale < 2.0**17
        test = nn.Variable(digits.test_images.shape)
        test.d = digits.test_images
        scores = digit_scores(test, training=False)
        scores.forward()
    nn.clear_parameters()
    assert np.mean(scores.d.argmax(1) == digits.test_labels[:, 0]) > 0.9


@pytest.mark.parametrize(
    "as_given", [float, np.float32, nn.NdArray.from_numpy_array], ids=["number", "array", "NdArray"]
)
def test_a_scale_beyond_half_gives_infinite_gradients_without_a_warning(as_given):
    w = nn.Variable.from_numpy_array(np.ones(3, np.float32))
    w.need_grad = True
    with nn.context_scope(nn.Context(["reference:half"])):
        loss = F.sum(w * w)
    loss.forward()
    loss.backward(as_given(np.array(2.0**17)))  # of NumPy's cast the tests would make an error
    solver = S.Sgd()
    solver.set_parameters({"w": w})
    assert solver.check_inf_grad()
