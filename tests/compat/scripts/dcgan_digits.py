"""A small DCGAN of handwritten digits: deconvolutions, batch normalization, two solvers, a cut graph."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.digits import digits_iterator
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorImageTile, MonitorSeries


def generator(z, maps=16, test=False):
    def bn(h):
        return PF.batch_normalization(h, batch_stat=not test)

    with nn.parameter_scope("gen"):
        z = F.reshape(z, (*z.shape, 1, 1))
        with nn.parameter_scope("deconv1"):
            h = F.elu(bn(PF.deconvolution(z, maps, (2, 2), with_bias=False)))
        with nn.parameter_scope("deconv2"):
            h = F.elu(bn(PF.deconvolution(h, maps / 2, (4, 4), pad=(1, 1), stride=(2, 2), with_bias=False)))
        with nn.parameter_scope("deconv3"):
            h = PF.deconvolution(h, 1, (4, 4), pad=(1, 1), stride=(2, 2))
    return F.tanh(h)


def discriminator(x, maps=8, test=False):
    def down(h, outmaps):
        h = PF.convolution(h, outmaps, (4, 4), pad=(1, 1), stride=(2, 2), with_bias=False)
        return F.leaky_relu(PF.batch_normalization(h, batch_stat=not test), alpha=0.2)

    with nn.parameter_scope("dis"):
        with nn.parameter_scope("conv1"):
            h = down(x, maps)
        with nn.parameter_scope("conv2"):
            h = down(h, maps * 2)
        return PF.affine(h, 1, name="judgement")


def main():
    args = get_args(max_iter=100, batch_size=32)
    rng = np.random.RandomState(3)

    z = nn.Variable([args.batch_size, 12])
    fake = generator(z)
    fake.persistent = True
    pred_fake = discriminator(fake)
    loss_gen = F.mean(F.sigmoid_cross_entropy(pred_fake, F.constant(1, pred_fake.shape)))
    cut = fake.get_unlinked_variable(need_grad=True)
    cut.need_grad = True
    pred_cut = discriminator(cut)
    loss_dis = F.mean(F.sigmoid_cross_entropy(pred_cut, F.constant(0, pred_cut.shape)))
    x = nn.Variable([args.batch_size, 1, 8, 8])
    pred_real = discriminator(x)
    loss_dis += F.mean(F.sigmoid_cross_entropy(pred_real, F.constant(1, pred_real.shape)))

    draw_parameters(3)
    solver_gen, solver_dis = S.Adam(0.001, beta1=0.5), S.Adam(0.001, beta1=0.5)
    with nn.parameter_scope("gen"):
        solver_gen.set_parameters(nn.get_parameters())
    with nn.parameter_scope("dis"):
        solver_dis.set_parameters(nn.get_parameters())
    monitor = Monitor(args.monitor_path)
    series = MonitorSeries("training loss", monitor, interval=1, verbose=False)
    series_dis = MonitorSeries("discriminator loss", monitor, interval=10, verbose=False)
    tile = MonitorImageTile("fake images", monitor, num_images=16, interval=40, verbose=False, normalize_method=to_unit)
    with digits_iterator(args.batch_size) as data:
        for i in range(args.max_iter):
            x.d = data.next()[0] * 2 - 1
            z.d = rng.randn(*z.shape)
            solver_gen.zero_grad()
            loss_gen.forward(clear_no_need_grad=True)
            loss_gen.backward(clear_buffer=True)
            solver_gen.weight_decay(1e-4)
            solver_gen.update()
            tile.add(i, fake)
            solver_dis.zero_grad()
            loss_dis.forward(clear_no_need_grad=True)
            loss_dis.backward(clear_buffer=True)
            solver_dis.weight_decay(1e-4)
            solver_dis.update()
            series.add(i, loss_gen.d + loss_dis.d)
            series_dis.add(i, loss_dis.d.copy())
    z.d = rng.randn(*z.shape)
    fake.forward()
    # Tells whether they are digits a little: the mean image of both has the margins dark and the middle bright.
    mean = fake.d.mean(axis=(0, 1))
    assert mean[:, 3:5].mean() > mean[:, [0, 7]].mean() + 0.1, mean
    print(f"done: generator {float(loss_gen.d):.3f}, discriminator {float(loss_dis.d):.3f}")


def to_unit(images):
    return (images + 1) / 2


if __name__ == "__main__":
    main()
