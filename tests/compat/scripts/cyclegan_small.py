"""CycleGAN in small: digits and their negatives, two generators, two discriminators, no pairs."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.digits import images_and_labels
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def instance_normalization(x, eps=1e-5):
    mean = F.mean(x, axis=(2, 3), keepdims=True)
    variance = F.mean((x - mean) ** 2, axis=(2, 3), keepdims=True)
    return (x - mean) / (variance + eps) ** 0.5


def convolution(x, maps, kernel, pad, stride=1, name=None, with_bias=False):
    """Without bias, which the normalization behind it would take away."""
    return PF.convolution(x, maps, (kernel,) * 2, pad=(pad,) * 2, stride=(stride,) * 2, name=name, with_bias=with_bias)


def generator(x, scope, maps=8):
    with nn.parameter_scope(scope):
        h = F.relu(instance_normalization(convolution(x, maps, 3, 1, name="in")))
        h = F.relu(instance_normalization(convolution(h, maps * 2, 3, 1, 2, name="down")))
        r = F.relu(instance_normalization(convolution(h, maps * 2, 3, 1, name="res1")))
        h = h + instance_normalization(convolution(r, maps * 2, 3, 1, name="res2"))
        h = PF.deconvolution(h, maps, (4, 4), pad=(1, 1), stride=(2, 2), name="up", with_bias=False)
        h = F.relu(instance_normalization(h))
        return F.tanh(convolution(F.pad(h, (1, 1, 1, 1), "reflect"), 1, 3, 0, name="out", with_bias=True))


def discriminator(x, scope, maps=8):
    with nn.parameter_scope(scope):
        h = F.leaky_relu(convolution(x, maps, 4, 1, 2, name="conv1", with_bias=True), 0.2)
        h = F.leaky_relu(instance_normalization(convolution(h, maps * 2, 3, 1, name="conv2")), 0.2)
        return convolution(h, 1, 3, 1, name="judgement", with_bias=True)


def squared(pred, wanted):
    return F.mean((pred - wanted) ** 2)


def absolute(x, y):
    return F.mean(F.abs(x - y))


class Pool:
    """Some fakes of before, so that the discriminators do not forget them."""

    def __init__(self, limit, rng):
        self._images, self._limit, self._rng = [], limit, rng

    def exchange(self, images):
        result = []
        for image in images:
            if len(self._images) < self._limit:
                self._images.append(image.copy())
                result.append(image)
            elif self._rng.rand() < 0.5:
                place = self._rng.randint(self._limit)
                result.append(self._images[place])
                self._images[place] = image.copy()
            else:
                result.append(image)
        return np.stack(result)


def solver_of(*scopes):
    parameters = {}
    for scope in scopes:
        with nn.parameter_scope(scope):
            parameters.update({f"{scope}/{key}": value for key, value in nn.get_parameters().items()})
    solver = S.Adam(0.0004, beta1=0.5)
    solver.set_parameters(parameters)
    return solver


def main():
    args = get_args(max_iter=30, batch_size=8, cycle=10.0)
    rng = np.random.RandomState(4)
    images, _ = images_and_labels()
    shape = (args.batch_size, 1, 8, 8)

    a, b = nn.Variable(shape), nn.Variable(shape)
    fake_b, fake_a = generator(a, "g_ab"), generator(b, "g_ba")
    fake_a.persistent = fake_b.persistent = True
    cycled_a, cycled_b = generator(fake_b, "g_ba"), generator(fake_a, "g_ab")
    loss_gen = squared(discriminator(fake_a, "d_a"), 1.0) + squared(discriminator(fake_b, "d_b"), 1.0)
    loss_cycle = absolute(cycled_a, a) + absolute(cycled_b, b)
    loss_gen = loss_gen + args.cycle * loss_cycle
    old_a, old_b = nn.Variable(shape), nn.Variable(shape)
    loss_dis = 0.5 * (squared(discriminator(a, "d_a"), 1.0) + squared(discriminator(old_a, "d_a"), 0.0))
    loss_dis += 0.5 * (squared(discriminator(b, "d_b"), 1.0) + squared(discriminator(old_b, "d_b"), 0.0))

    draw_parameters(21)
    solver_gen, solver_dis = solver_of("g_ab", "g_ba"), solver_of("d_a", "d_b")
    pool_a, pool_b = Pool(24, rng), Pool(24, rng)
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    losses = []
    for i in range(args.max_iter):
        a.d = images[rng.randint(0, len(images), args.batch_size)] * 2 - 1
        b.d = 1 - images[rng.randint(0, len(images), args.batch_size)] * 2
        solver_gen.zero_grad()
        loss_gen.forward(clear_no_need_grad=True)
        loss_gen.backward(clear_buffer=True)
        solver_gen.update()
        old_a.d, old_b.d = pool_a.exchange(fake_a.d), pool_b.exchange(fake_b.d)
        solver_dis.zero_grad()
        loss_dis.forward(clear_no_need_grad=True)
        loss_dis.backward(clear_buffer=True)
        solver_dis.update()
        losses.append(float(loss_gen.d))
        series.add(i, loss_gen.d + loss_dis.d)
    assert np.mean(losses[-5:]) < 0.8 * losses[0], losses
    print(f"done: loss of the generators {losses[0]:.2f} to {np.mean(losses[-5:]):.2f}")


if __name__ == "__main__":
    main()
