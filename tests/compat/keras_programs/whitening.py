"""Linear algebra: whitening of data by SVD, ridge regression by solve, covariance with another diagonal."""

import natural_bm.backend as B
import natural_bm.backend.numpy_backend as BN
import numpy as np

rng = np.random.RandomState(9)
X = rng.normal(size=(50, 4)).dot(rng.normal(size=(4, 4)))

x = B.placeholder(shape=(None, 4), name="x")
centered = x - B.mean(x, axis=0, keepdims=True)
covariance = B.dot(centered.T, centered) / (x.shape[0] - 1)
U, S, V = B.svd(covariance)
zca = B.dot(B.dot(U, B.diag(1.0 / B.sqrt(S + 1e-5))), B.transpose(U))
whitened = B.dot(centered, zca)
whiten = B.function([x], [whitened, covariance, S])

W, C, s = whiten(X)
again = W.T.dot(W) / (len(W) - 1)
print("values", *s)
print("white", np.abs(again - np.eye(4)).max() < 1e-3)

t = B.placeholder(ndim=1, name="t")
penalty = B.variable(0.1)
ridge = B.solve(B.dot(x.T, x) + penalty * B.eye(4), B.dot(x.T, t))
print("ridge", *B.function([x, t], ridge)(X, X[:, 0] - 2 * X[:, 3]))

loaded = B.fill_diagonal(covariance, B.variable([1.0, 2.0, 3.0, 4.0]))
print("loaded", *np.diag(B.function([x], loaded)(X)))

# The same on arrays, at once.
at_once = BN.dot(BN.transpose(X - BN.mean(X, axis=0)), X - BN.mean(X, axis=0)) / (len(X) - 1)
print("numpy", np.abs(at_once - C).max() < 1e-4, *BN.svd(at_once)[1])
