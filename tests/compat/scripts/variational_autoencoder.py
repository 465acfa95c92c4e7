"""A variational autoencoder of digits: a random layer, whose mean and variance the encoder gives."""

import argparse

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from nnabla.monitor import tile_images
from sklearn.datasets import load_digits


def vae(x, latent):
    h = F.elu(PF.affine(x, 48, name="encoder"))
    mu = PF.affine(h, latent, name="mu")
    log_var = PF.affine(h, latent, name="log_var")
    noise = F.randn(0.0, 1.0, mu.shape)
    z = mu + F.exp(0.5 * log_var) * noise
    logits = decoder(z)
    reconstruction = F.sum(F.sigmoid_cross_entropy(logits, x), axis=1)
    divergence = -0.5 * F.sum(1 + log_var - mu**2 - F.exp(log_var), axis=1)
    return F.mean(reconstruction + divergence)


def decoder(z):
    return PF.affine(F.elu(PF.affine(z, 48, name="decoder")), 64, name="pixels")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--max-iter", type=int, default=250)
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))
    np.random.seed(3)
    rng = np.random.RandomState(3)
    images = (load_digits().data > 7).astype(np.float32)

    x = nn.Variable((64, 64))
    loss = vae(x, 4)
    solver = S.Adam(0.005)
    solver.set_parameters(nn.get_parameters())
    losses = []
    for _ in range(args.max_iter):
        x.d = images[rng.randint(0, len(images), 64)]
        loss.forward(clear_no_need_grad=True)
        solver.zero_grad()
        loss.backward(clear_buffer=True)
        assert not solver.check_inf_or_nan_grad()
        solver.update()
        losses.append(float(loss.d))
    drawn = F.sigmoid(decoder(F.randn(shape=(9, 4))))
    drawn.forward()
    picture = tile_images(drawn.d.reshape(9, 1, 8, 8))
    assert picture.shape == (27, 27) and np.mean(losses[-10:]) < 0.7 * np.mean(losses[:5])
    print(f"done: loss {np.mean(losses[:5]):.1f} to {np.mean(losses[-10:]):.1f}")


if __name__ == "__main__":
    main()
