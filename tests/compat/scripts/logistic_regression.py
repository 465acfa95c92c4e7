"""Two clouds of points told apart by one affine layer; the parameters are saved, and loaded into another scope."""

import argparse
import os
import tempfile

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from nnabla.logger import logger


def classifier(x):
    return PF.affine(x, 1, name="score")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=100)
    args = parser.parse_args()
    logger.info("Running in %s", args.context)
    nn.set_default_context(get_extension_context(args.context))

    rng = np.random.RandomState(313)
    labels = rng.randint(0, 2, (200, 1))
    points = rng.randn(200, 2) + 2 * (2 * labels - 1)

    x, t = nn.Variable((200, 2)), nn.Variable((200, 1))
    loss = F.mean(F.sigmoid_cross_entropy(classifier(x), t))
    solver = S.Sgd(lr=0.5)
    solver.set_parameters(nn.get_parameters())
    x.d, t.d = points, labels
    for _ in range(args.max_iter):
        loss.forward(clear_no_need_grad=True)
        solver.zero_grad()
        loss.backward(clear_buffer=True)
        solver.weight_decay(1e-4)
        solver.update()

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "parameters.h5")
        nn.save_parameters(path)
        with nn.parameter_scope("copy"):
            nn.load_parameters(path)
            y = F.sigmoid(classifier(x))
    y.forward()
    accuracy = float(np.mean((y.d > 0.5) == labels))
    assert list(nn.get_parameters()) == [
        "score/affine/W",
        "score/affine/b",
        "copy/score/affine/W",
        "copy/score/affine/b",
    ]
    assert accuracy > 0.97, accuracy
    print(f"done: loss {float(loss.d):.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
