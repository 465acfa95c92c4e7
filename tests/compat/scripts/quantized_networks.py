"""Networks with binary weights, fixed-point numbers and powers of two, all trained on the same handwritten digits."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
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
    # Not the maximum: sums of equal weights are often equal but for rounding, which would choose then.
    return PF.binary_weight_affine(F.average_pooling(h, (2, 2)), 10)


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


class Trained:
    """One network with its losses and its solver; all of them share the images."""

    def __init__(self, network, image, label, vimage, vlabel):
        with nn.parameter_scope(network.__name__):
            self.loss = F.mean(F.softmax_cross_entropy(network(image, test=False), label))
            self.error = F.mean(F.top_n_error(network(vimage, test=True), vlabel))
            draw_parameters(5)
            self._solver = S.Momentum(0.02, 0.9)
            self._solver.set_parameters(nn.get_parameters())

    def step(self):
        self._solver.zero_grad()
        self.loss.forward(clear_no_need_grad=True)
        self.loss.backward(clear_buffer=True)
        self._solver.weight_decay(1e-4)
        self._solver.update()
        return self.loss.d.copy()


def main():
    args = get_args(max_iter=25, batch_size=50)
    image, label = nn.Variable((args.batch_size, 1, 8, 8)), nn.Variable((args.batch_size, 1))
    vimage, vlabel = nn.Variable((99, 1, 8, 8)), nn.Variable((99, 1))
    trained = {network.__name__: Trained(network, image, label, vimage, vlabel) for network in NETWORKS}
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    errors = dict.fromkeys(trained, 0.0)
    with digits_iterator(args.batch_size) as data, digits_iterator(99, train=False) as vdata:
        for i in range(args.max_iter):
            image.d, label.d = data.next()
            series.add(i, np.mean([each.step() for each in trained.values()]))
        for _ in range(3):
            vimage.d, vlabel.d = vdata.next()
            for name, each in trained.items():
                each.error.forward(clear_buffer=True)
                errors[name] += float(each.error.d) / 3
    assert max(errors.values()) < 0.85, errors
    print("done: " + ", ".join(f"{name} {error:.2f}" for name, error in errors.items()))


if __name__ == "__main__":
    main()
