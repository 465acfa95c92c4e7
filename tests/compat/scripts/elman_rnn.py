"""An Elman network, unrolled over a sequence, that continues a sine."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context


def elman(x, h, units):
    """One step; x: (N, 1), h: (N, units)."""
    with nn.parameter_scope("elman"):
        h = F.tanh(PF.affine(F.concatenate(x, h, axis=1), units, name="state"))
        return h, PF.affine(h, 1, name="out")


def unrolled(xs, units):
    h = nn.Variable((xs.shape[1], units))
    h.data.zero()
    outputs = []
    for x in F.split(xs):
        h, y = elman(x, h, units)
        outputs.append(y)
    return F.stack(*outputs, axis=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--length", type=int, default=12)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))
    np.random.seed(2)
    rng = np.random.RandomState(2)

    xs, ts = nn.Variable((args.length, 16, 1)), nn.Variable((args.length, 16, 1))
    loss = F.mean(F.squared_error(unrolled(xs, 16), ts)[4:])
    solver = S.RMSprop(0.005)
    solver.set_parameters(nn.get_parameters())
    losses = []
    for _ in range(args.max_iter):
        start = rng.uniform(0, 6, (1, 16, 1))
        time = start + 0.5 * np.arange(args.length + 1)[:, np.newaxis, np.newaxis]
        xs.d, ts.d = np.sin(time[:-1]), np.sin(time[1:])
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    assert np.mean(losses[-10:]) < 0.15 * np.mean(losses[:3]), (losses[:3], losses[-3:])
    print(f"done: loss {losses[0]:.4f} to {np.mean(losses[-10:]):.4f}")


if __name__ == "__main__":
    main()
