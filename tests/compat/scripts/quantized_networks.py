"""Networks with binary weights, fixed-point numbers and powers of two, one after the other on handwritten digits."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
from common.arguments import get_args
from common.digits import digits_iterator
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def full(x, test):
    h = F.relu(PF.batch_normalization(PF.convolution(x, 8, (3, 3), pad=(1, 1)), batch_stat=not test))
    return PF.affine(F.max_pooling(h, (2, 2)), 10)


def binary_connect(x, test):
    h = PF.binary_connect_convolution(x, 8, (3, 3), pad=(1, 1))
    h = F.max_pooling(PF.batch_normalization(h, batch_stat=not test), (2, 2))
    h = F.binary_tanh(h)
    h = PF.binary_connect_affine(h, 10)
    return PF.batch_normalization(h, batch_stat=not test, name="last")


def binary_weight(x, test):
    h = PF.binary_weight_convolution(x, 8, (3, 3), pad=(1, 1))
    h = F.relu(PF.batch_normalization(h, batch_stat=not test))
    return PF.binary_weight_affine(F.max_pooling(h, (2, 2)), 10)


def fixed_point(x, test):
    h = PF.fixed_point_quantized_convolution(x, 8, (3, 3), pad=(1, 1), n_w=8, delta_w=2**-4, n_b=8, delta_b=2**-4)
    h = F.max_pooling(F.relu(PF.batch_normalization(h, batch_stat=not test)), (2, 2))
    h = F.fixed_point_quantize(h, sign=False, n=8, delta=2**-4)
    return PF.fixed_point_quantized_affine(h, 10, n_w=8, delta_w=2**-4, n_b=8, delta_b=2**-4)


def power_of_two(x, test):
    h = PF.pow2_quantized_convolution(x, 8, (3, 3), pad=(1, 1), n_w=4, m_w=1, n_b=4, m_b=1)
    h = F.max_pooling(F.relu(PF.batch_normalization(h, batch_stat=not test)), (2, 2))
    h = F.pow2_quantize(h, sign=False, with_zero=True, n=6, m=2)
    return PF.pow2_quantized_affine(h, 10, n_w=4, m_w=1, n_b=4, m_b=1)


NETWORKS = (full, binary_connect, binary_weight, fixed_point, power_of_two)


def train(network, args, series, first):
    with nn.parameter_scope(network.__name__):
        image, label = nn.Variable((args.batch_size, 1, 8, 8)), nn.Variable((args.batch_size, 1))
        loss = F.mean(F.softmax_cross_entropy(network(image, test=False), label))
        vimage, vlabel = nn.Variable((99, 1, 8, 8)), nn.Variable((99, 1))
        verror = F.mean(F.top_n_error(network(vimage, test=True), vlabel))
        draw_parameters(5)
        solver = S.Momentum(0.02, 0.9)
        solver.set_parameters(nn.get_parameters())
    with digits_iterator(args.batch_size) as data, digits_iterator(99, train=False) as vdata:
        for i in range(args.max_iter):
            image.d, label.d = data.next()
            solver.zero_grad()
            loss.forward(clear_no_need_grad=True)
            loss.backward(clear_buffer=True)
            solver.weight_decay(1e-4)
            solver.update()
            series.add(first + i, loss.d.copy())
        error = 0.0
        for _ in range(3):
            vimage.d, vlabel.d = vdata.next()
            verror.forward(clear_buffer=True)
            error += float(verror.d) / 3
    return error


def main():
    args = get_args(max_iter=25, batch_size=50)
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    errors = {n.__name__: train(n, args, series, k * args.max_iter) for k, n in enumerate(NETWORKS)}
    assert max(errors.values()) < 0.85, errors
    print("done: " + ", ".join(f"{name} {error:.2f}" for name, error in errors.items()))


if __name__ == "__main__":
    main()
