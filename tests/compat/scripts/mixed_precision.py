"""Half precision with a loss scale that finds its own size, from far too large a one."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.experimental.mixed_precision_training import DynamicLossScalingUpdater
from nnabla.ext_utils import get_extension_context
from sklearn.datasets import load_digits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--type-config", "-t", default="half")
    parser.add_argument("--max-iter", type=int, default=150)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context, type_config=args.type_config))
    np.random.seed(4)
    rng = np.random.RandomState(4)
    digits = load_digits()

    x, t = nn.Variable((64, 1, 8, 8)), nn.Variable((64, 1))
    h = F.relu(PF.batch_normalization(PF.convolution(x, 8, (3, 3), pad=(1, 1))))
    y = PF.affine(F.max_pooling(h, (2, 2)), 10)
    loss = F.mean(F.softmax_cross_entropy(y, t))
    solver = S.Adam(0.01)
    solver.set_parameters(nn.get_parameters())

    def feed():
        chosen = rng.randint(0, len(digits.data), 64)
        x.d, t.d = digits.images[chosen, np.newaxis] / 16, digits.target[chosen, np.newaxis]

    feed()
    loss.forward()
    before = float(loss.d)
    assert loss.data.dtype == np.float16
    updater = DynamicLossScalingUpdater(solver, loss, feed, scale=2.0**22, N=40, weight_decay=1e-5)
    scales = []
    for _ in range(args.max_iter):
        updater.update()
        scales.append(updater.scale)
    assert scales[0] < 2.0**22 and max(np.diff(scales)) > 0
    assert all(w.data.dtype == np.float32 for w in nn.get_parameters().values())
    assert float(loss.d) < 0.2 * before, (before, float(loss.d))
    print(f"done: loss {before:.3f} to {float(loss.d):.3f}, scale {scales[0]:g} to {scales[-1]:g}")


if __name__ == "__main__":
    main()
