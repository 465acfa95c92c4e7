"""A recurrent layer of two directions and an affine one learn to tell what came before and comes after each symbol."""

import numpy as np
from neon.backends import gen_backend
from neon.initializers import Constant, GlorotUniform, Uniform
from neon.layers import Affine, BiRNN, GeneralizedCost, LookupTable, Sequential
from neon.optimizers import RMSProp
from neon.transforms import CrossEntropyMulti, Softmax, Tanh

BATCH, STEPS, SYMBOLS = 6, 7, 3

be = gen_backend(backend="cpu", rng_seed=21, batch_size=BATCH)
symbols = np.random.RandomState(22).randint(SYMBOLS, size=(STEPS, BATCH))
wanted = (np.roll(symbols, 1, axis=0) + np.roll(symbols, -1, axis=0)) % SYMBOLS
x = be.array(symbols.reshape(1, -1), dtype=np.int32)
t = be.array(np.eye(SYMBOLS)[:, wanted.ravel()])

init = Uniform(low=-0.4, high=0.4)
layers = Sequential(
    [
        LookupTable(vocab_size=SYMBOLS, embedding_dim=4, init=init),
        BiRNN(5, init=GlorotUniform(), init_inner=init, activation=Tanh(), reset_cells=True),
        Affine(SYMBOLS, init=init, bias=Constant(0), activation=Softmax()),
    ]
)
layers.configure((1, STEPS))
layers.allocate()
layers.allocate_deltas()
cost = GeneralizedCost(costfunc=CrossEntropyMulti(usebits=True))
cost.initialize(layers)
optimizer = RMSProp(decay_rate=0.9, learning_rate=0.02, gradient_clip_value=1)

print("shapes", *layers.layers[1].out_shape, *layers.layers[1].W.shape)
for epoch in range(12):
    y = layers.fprop(x)
    if epoch % 3 == 0:
        print("bits", cost.get_cost(y, t)[0, 0])
    layers.bprop(cost.get_errors(y, t))
    optimizer.optimize(layers.layers_to_optimize, epoch)
print("y", *layers.fprop(x, inference=True).get()[:, :BATCH].ravel())
