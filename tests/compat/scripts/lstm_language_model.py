"""A word-level language model in the manner of Penn Treebank: two LSTM layers, truncated backpropagation, dropout."""

import nnabla as nn
import nnabla.functions as F
import nnabla.initializer as I
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries
from nnabla.utils.data_iterator import data_iterator_simple

WORDS = 30


def text(count, rng):
    """Numbers of words: each word mostly leads to one of two others."""
    followers = rng.randint(0, WORDS, (WORDS, 2))
    words = [0]
    for _ in range(count - 1):
        words.append(rng.randint(WORDS) if rng.rand() < 0.1 else followers[words[-1], rng.randint(2)])
    return np.array(words)


def text_iterator(words, batch_size, steps):
    """Batches of (B, steps) words and the words after them; each line of the batch reads on where it was."""
    count = (len(words) - 1) // (batch_size * steps)
    x = words[: count * batch_size * steps].reshape(batch_size, count, steps)
    t = words[1 : count * batch_size * steps + 1].reshape(batch_size, count, steps)

    def load(position):
        line, place = position % batch_size, position // batch_size
        return x[line, place], t[line, place][:, np.newaxis]

    return data_iterator_simple(load, count * batch_size, batch_size, shuffle=False, with_file_cache=False)


def lstm(x, h, c, dim, name):
    """One step; the four gates by one affine layer."""
    gates = PF.affine(F.concatenate(x, h, axis=1), 4 * dim, name=name, w_init=I.UniformInitializer((-0.2, 0.2)))
    i, f, o, g = F.split(F.reshape(gates, (x.shape[0], 4, dim)), axis=1)
    c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
    return F.sigmoid(o) * F.tanh(c), c


def perplexity_graph(x, t, states, dim, drop):
    """The loss of a batch, and the states after it."""
    h = PF.embed(x, WORDS, dim, name="words")
    words = [F.reshape(w, (x.shape[0], dim)) for w in F.split(F.reshape(h, (*x.shape, dim)), axis=1)]
    for layer, (h0, c0) in enumerate(states):
        outputs, hidden, cell = [], h0, c0
        for word in words:
            word = F.dropout(word, drop) if drop > 0 else word
            hidden, cell = lstm(word, hidden, cell, dim, f"lstm{layer}")
            outputs.append(hidden)
        words = outputs
        states[layer] = (hidden, cell)
    h = F.stack(*words, axis=1)
    y = PF.affine(h, WORDS, base_axis=2, name="next")
    return F.mean(F.softmax_cross_entropy(y, t, axis=2)), states


def main():
    args = get_args(max_iter=60, batch_size=16, dropout=0.1)
    nn.seed(17)
    steps, dim = 8, 32
    words = text(16 * 8 * 20 + 1, np.random.RandomState(0))
    x, t = nn.Variable((args.batch_size, steps)), nn.Variable((args.batch_size, steps, 1))
    first = [tuple(nn.Variable((args.batch_size, dim)) for _ in range(2)) for _ in range(2)]
    loss, last = perplexity_graph(x, t, list(first), dim, args.dropout)
    for pair in last:
        for state in pair:
            state.persistent = True

    draw_parameters(17)
    solver = S.Sgd(2.0)
    solver.set_parameters(nn.get_parameters())
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    losses = []
    with text_iterator(words, args.batch_size, steps) as data:
        for i in range(args.max_iter):
            if data.position == 0:
                for pair in first:
                    for state in pair:
                        state.data.zero()
            x.d, t.d = data.next()
            solver.zero_grad()
            loss.forward(clear_no_need_grad=True)
            loss.backward(clear_buffer=True)
            for parameter in nn.get_parameters().values():  # by their norm, as language models need it
                norm = float(np.sqrt((parameter.g**2).sum()))
                if norm > 1:
                    parameter.grad *= 1 / norm
            solver.update()
            for before, after in zip(first, last, strict=True):
                for one, other in zip(before, after, strict=True):
                    one.data.copy_from(other.data)
            losses.append(float(loss.d))
            series.add(i, loss.d.copy())
    perplexity = np.exp(np.mean(losses[-10:]))
    assert perplexity < 0.75 * np.exp(losses[0]), perplexity
    print(f"done: perplexity {np.exp(losses[0]):.1f} to {perplexity:.1f}")


if __name__ == "__main__":
    main()
