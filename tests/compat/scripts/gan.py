"""A generative adversarial network of points on a circle: two solvers, and a generator cut off by `unlinked`."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context


def generator(z):
    with nn.parameter_scope("gen"):
        h = F.leaky_relu(PF.affine(z, 32, name="fc1"), 0.2)
        h = F.leaky_relu(PF.affine(h, 32, name="fc2"), 0.2)
        return PF.affine(h, 2, name="fc3")


def discriminator(x):
    with nn.parameter_scope("dis"):
        h = F.leaky_relu(PF.affine(x, 32, name="fc1"), 0.2)
        h = F.leaky_relu(PF.affine(h, 32, name="fc2"), 0.2)
        return PF.affine(h, 1, name="fc3")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=400)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))
    np.random.seed(6)
    rng = np.random.RandomState(6)

    z, real = nn.Variable((64, 4)), nn.Variable((64, 2))
    fake = generator(z)
    fake.persistent = True
    fooled = discriminator(fake)
    loss_gen = F.mean(F.sigmoid_cross_entropy(fooled, F.constant(1, fooled.shape)))
    cut = fake.unlinked()
    loss_dis = F.mean(F.sigmoid_cross_entropy(discriminator(cut), F.constant(0, fooled.shape)))
    loss_dis += F.mean(F.sigmoid_cross_entropy(discriminator(real), F.constant(1, fooled.shape)))

    solver_gen, solver_dis = S.Adam(0.002, beta1=0.5), S.Adam(0.002, beta1=0.5)
    with nn.parameter_scope("gen"):
        solver_gen.set_parameters(nn.get_parameters())
    with nn.parameter_scope("dis"):
        solver_dis.set_parameters(nn.get_parameters())
    radii = []
    for _ in range(args.max_iter):
        angle = rng.uniform(0, 2 * np.pi, 64)
        real.d = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        z.d = rng.randn(*z.shape)
        solver_gen.zero_grad()
        loss_gen.forward(clear_no_need_grad=True)
        loss_gen.backward(clear_buffer=True)
        solver_gen.update()
        solver_dis.zero_grad()
        loss_dis.forward(clear_no_need_grad=True)
        loss_dis.backward(clear_buffer=True)
        solver_dis.update()
        radii.append(float(np.sqrt((fake.d**2).sum(1)).mean()))
    assert abs(np.mean(radii[-100:]) - 2) < 0.7, radii[-1]
    print(f"done: mean radius {radii[0]:.2f} to {np.mean(radii[-100:]):.2f}, wanted 2")


if __name__ == "__main__":
    main()
