"""Edges of images by convolution, then pooling; the errors go back to the filters."""

import numpy as np
from neon.backends import gen_backend

be = gen_backend(backend="cpu", rng_seed=9, batch_size=4)
images = np.zeros((1, 8, 8, 4))
for n in range(4):
    images[0, n : n + 4, 2 : 4 + n, n] = 1 + n

conv = be.conv_layer(np.float32, N=be.bsz, C=1, K=2, H=8, W=8, R=3, S=3)
pool = be.pool_layer(np.float32, "max", be.bsz, 2, 1, 6, 6, 1, 1, 2, 2)
horizontal = np.array([[1, 1, 1], [0, 0, 0], [-1, -1, -1]])
F = be.array(np.stack([horizontal.ravel(), horizontal.T.ravel()], axis=1))
pictures = be.array(images.reshape(64, 4))
maps, P = be.empty(conv.dimO2), be.empty(pool.dimO2)
argmax = be.empty(pool.dimO2, dtype=np.uint8)
be.fprop_conv(conv, pictures, F, maps)
be.fprop_pool(pool, maps, P, argmax)
print("maps", *conv.dimO, *pool.dimO)
print("edges", *maps.get().ravel())
print("pooled", *P.get().ravel())

E, dF, delta = be.empty(pool.dimO2), be.empty(conv.dimF2), be.empty(conv.dimO2)
E[:] = be.tanh(P / 8)
be.bprop_pool(pool, E, delta, argmax)
be.update_conv(conv, pictures, delta, dF)
print("dF", *dF.get().ravel())
