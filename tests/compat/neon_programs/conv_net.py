"""A convolutional network of two branches that are summed, with batch normalization and drop-out, in a Sequential."""

import argparse

import numpy as np
from neon.backends import gen_backend
from neon.initializers import Gaussian, Xavier
from neon.layers import Affine, Conv, Dropout, GeneralizedCost, MergeSum, Pooling, Sequential, SkipNode
from neon.optimizers import Adam
from neon.transforms import CrossEntropyBinary, Logistic, Rectlin

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", "-e", type=int, default=5)
args = parser.parse_args()

be = gen_backend(backend="cpu", rng_seed=31, batch_size=8)
data = np.random.RandomState(32)
pictures = data.normal(size=(2, 6, 6, 8))
x = be.array(pictures.reshape(72, 8))
t = be.array((pictures[0].mean(axis=(0, 1)) > 0)[np.newaxis])

branches = MergeSum(
    [
        Conv((3, 3, 4), init=Gaussian(scale=0.3), padding=1, batch_norm=True, activation=Rectlin()),
        [SkipNode(), Conv((1, 1, 4), init=Gaussian(scale=0.3))],
    ]
)
net = Sequential(
    [
        branches,
        Pooling((2, 2), op="max", strides=2),
        Dropout(keep=0.75),
        Affine(nout=1, init=Xavier(), activation=Logistic(shortcut=True)),
    ]
)
net.configure((2, 6, 6))
net.allocate()
net.allocate_deltas()
cost = GeneralizedCost(CrossEntropyBinary())
cost.initialize(net)
optimizer = Adam(learning_rate=0.01)
for epoch in range(args.epochs):
    y = net.fprop(x)
    print("cost", cost.get_cost(y, t)[0, 0])
    net.bprop(cost.get_errors(y, t))
    optimizer.optimize(net.layers_to_optimize, epoch)
print("inference", *net.fprop(x, inference=True).get()[0])
