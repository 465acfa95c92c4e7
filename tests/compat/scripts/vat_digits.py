"""Virtual adversarial training: 60 labelled digits, the others without labels."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.digits import images_and_labels
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def mlp(x, maps=48):
    h = F.relu(PF.affine(x, maps, name="fc1"))
    h = F.relu(PF.affine(h, maps, name="fc2"))
    return PF.affine(h, 10, name="fc3")


def main():
    args = get_args(max_iter=80, batch_size=30, xi=0.1, eps=1.0)
    nn.seed(313)
    rng = np.random.RandomState(1)
    images, labels = images_and_labels()
    shape = (args.batch_size, 1, 8, 8)

    x, t = nn.Variable(shape), nn.Variable((args.batch_size, 1))
    loss = F.mean(F.softmax_cross_entropy(mlp(x), t))

    xu = nn.Variable(shape)
    probabilities = F.softmax(mlp(xu))
    target = probabilities.get_unlinked_variable(need_grad=False)  # no gradient flows into what is to be kept
    # The direction in which the output changes most: one step of power iteration from noise.
    noise = F.randn(0.0, 1.0, shape)
    noise /= F.sum(noise**2, axis=[1, 2, 3], keepdims=True) ** 0.5
    start, direction = nn.Variable(shape, need_grad=True), nn.Variable(shape)
    change = F.mean(F.kl_multinomial(target, F.softmax(mlp(xu + args.xi * start))))
    loss_u = F.mean(F.kl_multinomial(target, F.softmax(mlp(xu + direction))))

    draw_parameters(313)
    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    for i in range(args.max_iter):
        chosen = rng.randint(0, 60, args.batch_size)
        x.d, t.d = images[chosen], labels[chosen]
        xu.d = images[rng.randint(0, len(images), args.batch_size)]
        F.sink(probabilities, noise).forward()
        start.data.copy_from(noise.data)
        start.grad.zero()
        change.forward()
        change.backward()
        length = np.sqrt((start.g**2).sum(axis=(1, 2, 3), keepdims=True))
        direction.d = args.eps * start.g / (length + 1e-16)
        solver.zero_grad()
        loss.forward(clear_no_need_grad=True)
        loss.backward(clear_buffer=True)
        loss_u.forward(clear_no_need_grad=True)
        loss_u.backward(clear_buffer=True)
        solver.update()
        series.add(i, loss.d + loss_u.d)
    test, wanted = images_and_labels(train=False)
    v = nn.Variable(test.shape)
    v.d = test
    y = mlp(v)
    y.forward()
    accuracy = float(np.mean(y.d.argmax(1) == wanted[:, 0]))
    assert accuracy > 0.6, accuracy
    print(f"done: accuracy {accuracy:.3f} from 60 labels")


if __name__ == "__main__":
    main()
