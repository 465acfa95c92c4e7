"""Structured sparsity: a group lasso over filters and channels drives whole filters of a network to zero."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.digits import digits_iterator
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def network(x):
    h = F.relu(PF.convolution(x, 16, (3, 3), pad=(1, 1), name="conv1"))
    h = F.relu(PF.convolution(F.average_pooling(h, (2, 2)), 16, (3, 3), pad=(1, 1), name="conv2"))
    return PF.affine(h, 10, name="fc")


def group_lasso(weights, axes):
    """The sum of the lengths of the filters (axes of one filter given)."""
    return F.sum((F.sum(weights**2, axis=axes) + 1e-12) ** 0.5)


def weights_of_filters():
    return {key: w for key, w in nn.get_parameters().items() if key.startswith("conv") and key.endswith("/W")}


def lengths():
    return np.concatenate([np.sqrt((w.d**2).sum(axis=(1, 2, 3))) for w in weights_of_filters().values()])


def main():
    args = get_args(max_iter=80, batch_size=64, decay=0.1)
    image, label = nn.Variable((args.batch_size, 1, 8, 8)), nn.Variable((args.batch_size, 1))
    pred = network(image)
    pred.persistent = True
    filters = [group_lasso(w, (1, 2, 3)) for w in weights_of_filters().values()]
    channels = [group_lasso(w, (0, 2, 3)) for w in weights_of_filters().values() if w.shape[1] > 1]
    penalty = F.reduce(F.stack(*filters, *channels))
    loss = F.mean(F.softmax_cross_entropy(pred, label)) + args.decay * penalty

    draw_parameters(9)
    before = lengths()
    solver = S.Adam(0.005)
    solver.set_parameters(nn.get_parameters())
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    with digits_iterator(args.batch_size) as data:
        for i in range(args.max_iter):
            image.d, label.d = data.next()
            solver.zero_grad()
            loss.forward(clear_no_need_grad=True)
            loss.backward(clear_buffer=True)
            solver.update()
            series.add(i, loss.d.copy())
    accuracy = float(np.mean(pred.d.argmax(1) == label.d[:, 0]))
    small = int((lengths() < 0.1 * before.mean()).sum())
    assert accuracy > 0.7 and small >= 3, (accuracy, small)
    print(f"done: accuracy {accuracy:.3f}, {small} of {len(before)} filters are gone")


if __name__ == "__main__":
    main()
