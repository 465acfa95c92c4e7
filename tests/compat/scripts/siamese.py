"""A Siamese network: two branches of shared parameters, trained so that equal digits lie near each other."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from sklearn.datasets import load_digits


def embedding(x):
    with nn.parameter_scope("embedding"):
        h = F.tanh(PF.affine(x, 64, name="fc1"))
        h = F.tanh(PF.affine(h, 32, name="fc2"))
        return PF.affine(h, 2, name="fc3")


def contrastive_loss(distance2, same, margin=1.0):
    push = F.maximum_scalar(margin - (distance2 + 1e-6) ** 0.5, 0)
    return same * distance2 + (1 - same) * push**2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=300)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))
    np.random.seed(0)
    rng = np.random.RandomState(0)
    digits = load_digits(n_class=3)

    left, right, same = nn.Variable((64, 64)), nn.Variable((64, 64)), nn.Variable((64, 1))
    difference = embedding(left) - embedding(right)
    loss = F.mean(contrastive_loss(F.sum(difference**2, axis=1, keepdims=True), same))
    assert len(nn.get_parameters()) == 6  # the branches share them
    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    losses = []
    for _ in range(args.max_iter):
        first, second = rng.randint(0, len(digits.data), (2, 64))
        left.d, right.d = digits.data[first] / 16, digits.data[second] / 16
        same.d = (digits.target[first] == digits.target[second])[:, np.newaxis]
        loss.forward(clear_no_need_grad=True)
        solver.zero_grad()
        loss.backward(clear_buffer=True)
        solver.update()
        losses.append(float(loss.d))

    x = nn.Variable(digits.data.shape)
    x.d = digits.data / 16
    place = embedding(x)
    place.forward()
    centres = np.stack([place.d[digits.target == number].mean(0) for number in range(3)])
    nearest = np.argmin(((place.d[:, np.newaxis] - centres) ** 2).sum(2), axis=1)
    accuracy = float(np.mean(nearest == digits.target))
    assert accuracy > 0.9, accuracy
    print(f"done: loss {losses[0]:.3f} to {np.mean(losses[-20:]):.3f}, nearest centre is right for {accuracy:.3f}")


if __name__ == "__main__":
    main()
