"""Handwritten digits by a network of affine layers; data by an iterator, progress by monitors."""

import argparse
import glob
import os
import tempfile

import nnabla as nn
import nnabla.functions as F
import nnabla.initializer as I
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from nnabla.monitor import Monitor, MonitorImageTile, MonitorSeries, MonitorTimeElapsed
from nnabla.utils.data_iterator import data_iterator_simple
from sklearn.datasets import load_digits


def digits_iterator(batch_size, train, rng):
    digits = load_digits()
    chosen = slice(0, 1500) if train else slice(1500, None)
    images = digits.images[chosen].reshape(-1, 1, 8, 8).astype(np.float32) / 16
    labels = digits.target[chosen]

    def load(i):
        return images[i], np.array([labels[i]])

    return data_iterator_simple(load, len(images), batch_size, shuffle=train, rng=rng, with_file_cache=False)


def network(x, hidden=64):
    for depth in range(2):
        n_in = int(np.prod(x.shape[1:]))
        limits = I.calc_uniform_lim_glorot(n_in, hidden)
        x = F.relu(PF.affine(x, hidden, w_init=I.UniformInitializer(limits), name=f"hidden{depth}"))
    return PF.affine(x, 10, name="classes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--device-id", "-d", default="0")
    parser.add_argument("--max-iter", type=int, default=240)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context, device_id=args.device_id))
    np.random.seed(0)

    image, label = nn.Variable((50, 1, 8, 8)), nn.Variable((50, 1))
    pred = network(image)
    pred.persistent = True
    loss = F.mean(F.softmax_cross_entropy(pred, label))
    vimage, vlabel = nn.Variable((50, 1, 8, 8)), nn.Variable((50, 1))
    error = F.mean(F.top_n_error(network(vimage), vlabel))

    solver = S.Momentum(0.1, 0.9)
    solver.set_parameters(nn.get_parameters())
    with tempfile.TemporaryDirectory() as folder, digits_iterator(50, True, np.random.RandomState(1)) as train:
        monitor = Monitor(os.path.join(folder, "monitor"))
        loss_series = MonitorSeries("Training loss", monitor, interval=10, verbose=False)
        timer = MonitorTimeElapsed("Training time", monitor, interval=100, verbose=False)
        tiles = MonitorImageTile("Training images", monitor, interval=200, num_images=16, verbose=False)
        for i in range(args.max_iter):
            image.d, label.d = train.next()
            solver.zero_grad()
            loss.forward(clear_no_need_grad=True)
            loss.backward(clear_buffer=True)
            solver.update()
            loss_series.add(i, loss.d.copy())
            timer.add(i)
            tiles.add(i, image)
        assert train.epoch == args.max_iter // 30
        with open(os.path.join(monitor.save_path, "Training-loss.series.txt")) as file:
            assert len(file.readlines()) == args.max_iter // 10
        assert glob.glob(os.path.join(monitor.save_path, "Training-images", "*.png"))

    errors = []
    with digits_iterator(50, False, None) as test:
        while test.epoch == 0 and len(errors) < 5:
            vimage.d, vlabel.d = test.next()
            error.forward(clear_buffer=True)
            errors.append(float(error.d))
    accuracy = 1 - np.mean(errors)
    assert accuracy > 0.88, accuracy
    print(f"done: accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
