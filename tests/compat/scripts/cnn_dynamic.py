"""A convolutional network as a dynamic graph: layers are dropped by chance, and everything computes at the call."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from sklearn.datasets import load_digits


def network(x, test, rng):
    with nn.parameter_scope("stem"):
        h = PF.convolution(x, 8, (3, 3), pad=(1, 1), with_bias=False)
        h = F.relu(PF.batch_normalization(h, batch_stat=not test))
    for depth in range(3):
        if not test and rng.rand() < 0.3:
            continue
        with nn.parameter_scope(f"block{depth}"):
            r = PF.batch_normalization(PF.convolution(h, 8, (3, 3), pad=(1, 1)), batch_stat=not test)
            h = F.relu(F.add2(h, r))
    h = F.average_pooling(h, (2, 2))
    if not test:
        h = F.dropout(h, 0.2)
    return PF.affine(h, 10, name="classes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=80)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))

    digits = load_digits()
    images, labels = digits.images[:, np.newaxis] / 16, digits.target[:, np.newaxis]
    rng = np.random.RandomState(5)
    np.random.seed(5)
    network(nn.Variable((1, 1, 8, 8)), True, rng)  # all parameters, before the solver asks for them
    solver = S.Adam(alpha=0.01)
    solver.set_parameters(nn.get_parameters())
    losses = []
    with nn.auto_forward():
        assert nn.get_auto_forward()
        for _ in range(args.max_iter):
            chosen = rng.randint(0, 1500, 32)
            x, t = nn.Variable.from_numpy_array(images[chosen]), nn.Variable.from_numpy_array(labels[chosen])
            loss = F.mean(F.softmax_cross_entropy(network(x, False, rng), t))
            solver.zero_grad()
            loss.backward(clear_buffer=True)
            solver.update()
            losses.append(float(loss.d))
        y = network(nn.Variable.from_numpy_array(images[1500:]), True, rng)
    accuracy = float(np.mean(np.argmax(y.d, axis=1) == labels[1500:, 0]))
    names = []
    y.visit(lambda f: names.append(f.name))
    assert names.count("Convolution") == 4 and names[-1] == "Affine"
    assert accuracy > 0.8, accuracy
    print(f"done: loss {np.mean(losses[:5]):.3f} to {np.mean(losses[-5:]):.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
