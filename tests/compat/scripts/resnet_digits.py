"""A residual network on handwritten digits: batch normalization, shortcuts, a schedule of learning rates."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
from common.arguments import get_args
from common.digits import digits_iterator
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def res_unit(x, scope, test):
    maps = x.shape[1]

    def bn(h):
        return PF.batch_normalization(h, axes=[1], decay_rate=0.9, eps=1e-5, batch_stat=not test)

    with nn.parameter_scope(scope):
        with nn.parameter_scope("conv1"):
            h = F.elu(bn(PF.convolution(x, maps / 2, kernel=(1, 1), with_bias=False)))
        with nn.parameter_scope("conv2"):
            h = F.elu(bn(PF.convolution(h, maps / 2, kernel=(3, 3), pad=(1, 1), with_bias=False)))
        with nn.parameter_scope("conv3"):
            h = bn(PF.convolution(h, maps, kernel=(1, 1), with_bias=False))
    return F.elu(F.add2(h, x, inplace=True))


def resnet(x, test=False, maps=16):
    with nn.parameter_scope("conv1"):
        h = PF.convolution(x, maps, (3, 3), pad=(1, 1), with_bias=False)
        h = F.elu(PF.batch_normalization(h, batch_stat=not test))
    h = res_unit(h, "conv2", test)
    h = F.max_pooling(h, (2, 2))
    h = res_unit(h, "conv3", test)
    h = F.average_pooling(h, h.shape[2:])
    return PF.affine(h, 10, name="classifier")


def main():
    args = get_args(max_iter=60, batch_size=64)
    image, label = nn.Variable((args.batch_size, 1, 8, 8)), nn.Variable((args.batch_size, 1))
    loss = F.mean(F.softmax_cross_entropy(resnet(image), label))
    vimage, vlabel = nn.Variable((99, 1, 8, 8)), nn.Variable((99, 1))
    verror = F.mean(F.top_n_error(resnet(vimage, test=True), vlabel))

    draw_parameters(7)
    solver = S.Momentum(0.05, 0.9)
    solver.set_parameters(nn.get_parameters())
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    with digits_iterator(args.batch_size) as data, digits_iterator(99, train=False) as vdata:
        for i in range(args.max_iter):
            if i in (args.max_iter // 2, args.max_iter * 3 // 4):
                solver.set_learning_rate(solver.learning_rate() * 0.3)
            image.d, label.d = data.next()
            solver.zero_grad()
            loss.forward(clear_no_need_grad=True)
            loss.backward(clear_buffer=True)
            solver.update()
            series.add(i, loss.d.copy())
        error = 0.0
        for _ in range(3):
            vimage.d, vlabel.d = vdata.next()
            verror.forward(clear_buffer=True)
            error += float(verror.d) / 3
    assert error < 0.5, error
    print(f"done: validation error {error:.3f}")


if __name__ == "__main__":
    main()
