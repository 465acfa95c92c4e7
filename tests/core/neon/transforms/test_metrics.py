"""Metrics give the numbers that NumPy gives for the columns that count."""

import numpy as np
import pytest

from atled.neon import transforms
from atled.neon.transforms import (
    Accuracy,
    LogLoss,
    Metric,
    Misclassification,
    MultiMetric,
    PrecisionRecall,
    TopKMisclassification,
    cost,
)

Y = np.array(
    [
        [0.5, 0.1, 0.3, 0.2, 0.1, 0.6],
        [0.3, 0.4, 0.3, 0.1, 0.2, 0.1],
        [0.1, 0.4, 0.3, 0.6, 0.3, 0.2],
        [0.1, 0.1, 0.1, 0.1, 0.4, 0.1],
    ]
)
LABELS = np.array([0, 2, 1, 0, 2, 0])
T = np.eye(4)[:, LABELS]
WRONG = Y.argmax(0) != LABELS


def both(be):
    return be.array(Y), be.array(T)


@pytest.mark.parametrize("calcrange", [slice(0, None), slice(0, 3), slice(1, 5)])
def test_plain_metrics_are_means_over_columns_that_count(be, calcrange):
    losses = -np.log((Y * T).sum(0))
    for metric, values in (LogLoss(), losses), (Misclassification(), WRONG), (Accuracy(), ~WRONG):
        found = metric(*both(be), calcrange=calcrange)
        assert type(found) is float
        assert found == pytest.approx(values[calcrange].mean(), rel=1e-5)


def test_op_trees_are_taken_too(be):
    y, labels = be.array(Y), be.array(LABELS.reshape(1, 6), dtype=np.int32)
    assert Misclassification()(y * 2.0, be.array(T) * 1.0) == pytest.approx(WRONG.mean())
    assert LogLoss()(y, be.onehot(labels, axis=0)) == pytest.approx(-np.log((Y * T).sum(0)).mean(), rel=1e-5)


def test_columns_of_several_steps_count_within_each(be):
    found = Misclassification(steps=3)(*both(be), calcrange=slice(0, 1))
    assert found == pytest.approx(WRONG.reshape(3, 2)[:, :1].mean())
    with pytest.raises(ValueError, match="make steps a divisor"):
        Misclassification(steps=4)(*both(be))


def top_k(k):
    """Shares of columns whose true row is not among the k largest, ties counted by their share of the places."""
    truth = (Y * T).sum(0)
    places = np.clip(k - (truth < Y).sum(0), 0, None)
    return 1 - np.minimum(places / (truth == Y).sum(0), 1)


@pytest.mark.parametrize("k", [2, 3])
def test_ties_share_the_last_places(be, k):
    metric = TopKMisclassification(k)
    found = metric(*both(be))
    wanted = [-np.log((Y * T).sum(0)).mean(), top_k(1).mean(), top_k(k).mean()]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert metric.metric_names == ("LogLoss", "Top1Misclass", f"Top{k}Misclass")
    assert 0 < top_k(1)[1] < 1, "a column whose true element has an equal"


@pytest.mark.parametrize("columns", [slice(0, None), slice(0, 4)])
@pytest.mark.parametrize("binarize", [False, True])
def test_precision_and_recall_are_means_over_classes(be, binarize, columns):
    y = (np.eye(4)[:, Y.argmax(0)] if binarize else Y)[:, columns]
    t = T[:, columns]
    hits = (y * t).sum(1)
    wanted = np.stack([hits / (y.sum(1) + 1e-6), hits / (t.sum(1) + 1e-6)], 1)
    metric = PrecisionRecall(4, binarize=binarize)
    np.testing.assert_allclose(metric(*both(be), calcrange=columns), wanted.mean(0), rtol=1e-5)
    np.testing.assert_allclose(metric.outputs.get(), wanted, rtol=1e-5, atol=1e-7)


def test_a_metric_of_one_of_several_outputs(be):
    y, t = both(be)
    metric = MultiMetric(Misclassification(), 1)
    assert metric([t, y], [t, t]) == pytest.approx(WRONG.mean())
    assert metric.metric_names == Misclassification.metric_names
    with pytest.raises(IndexError, match="y has 1"):
        metric([y], [t])
    with pytest.raises(TypeError, match="use Misclassification itself"):
        metric(y, t)
    with pytest.raises(TypeError, match="it is no metric"):
        MultiMetric(np.mean, 0)


@pytest.mark.parametrize(
    "metric", [LogLoss(), Misclassification(), Accuracy(), TopKMisclassification(2), PrecisionRecall(4)]
)
def test_wrong_shapes_and_empty_ranges_are_refused(cpu, metric):
    y, t = both(cpu)
    with pytest.raises(ValueError, match="the shapes differ"):
        metric(y, cpu.zeros((4, 5)))
    with pytest.raises(ValueError, match="give a range that has a column"):
        metric(y, t, calcrange=slice(6, None))


def test_wrong_arguments_are_refused(cpu):
    with pytest.raises(ValueError, match="k is 0"):
        TopKMisclassification(0)
    with pytest.raises(ValueError, match="num_classes is 3"):
        PrecisionRecall(3)(*both(cpu))
    with pytest.raises(NotImplementedError, match="define the metric in Metric"):
        Metric()(*both(cpu))


@pytest.mark.parametrize("module", [transforms, cost])
@pytest.mark.parametrize("name", ["ObjectDetection", "BLEUScore"])
def test_metrics_that_are_left_out_say_what_to_do(module, name):
    with pytest.raises(ImportError, match=r"(?s)subclass of Metric"):
        getattr(module, name)
    with pytest.raises(AttributeError, match="no attribute 'Acuracy'"):
        module.Acuracy  # noqa: B018  # asking is the test
