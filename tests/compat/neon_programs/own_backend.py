"""A backend of one's own on NervanaCPU: it counts products, and has an activation more."""

import argparse

import numpy as np
from neon.backends import gen_backend
from neon.backends.backend import Backend, Tensor
from neon.backends.nervanacpu import NervanaCPU


class CountingCPU(NervanaCPU):
    """Counts the multiplications of compound_dot."""

    backend_name = "counting"

    def __init__(self, *args, **kwargs):
        self.multiplications = 0
        super().__init__(*args, **kwargs)

    def compound_dot(self, A, B, C, alpha=1.0, beta=0.0, relu=False, bsum=None):
        self.multiplications += A.shape[0] * A.shape[1] * B.shape[1]
        return super().compound_dot(A, B, C, alpha=alpha, beta=beta, relu=relu, bsum=bsum)

    def softsign(self, x):
        return x / (1 + self.absolute(x))


parser = argparse.ArgumentParser()
parser.add_argument("-b", "--backend", choices=Backend.backend_choices(), default="counting")
args = parser.parse_args()

be = gen_backend(backend=args.backend, rng_seed=4, batch_size=6)
a, b = be.array(be.rng.uniform(-1, 1, (5, 3))), be.array(be.rng.uniform(-1, 1, (3, 6)))
c, sums = be.iobuf(5), be.empty((5, 1))
be.compound_dot(a, b, c, bsum=sums)
be.compound_dot(a, b, c, alpha=0.5, beta=1.0, relu=True)
print("c", *c.get().ravel())
print("sums", *sums.get().ravel())
c[:] = be.softsign(c - 0.5)
print("softsign", *c.get().ravel())
print("counted", be.multiplications, isinstance(c, Tensor), np.dtype(be.default_dtype).itemsize)
