"""Distillation: a small student learns from the softened outputs of a teacher that was trained before."""

import os

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.digits import digits_iterator, images_and_labels
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def teacher(x):
    with nn.parameter_scope("teacher"):
        h = F.relu(PF.convolution(x, 16, (3, 3), pad=(1, 1), name="conv1"))
        h = F.relu(PF.convolution(F.max_pooling(h, (2, 2)), 32, (3, 3), name="conv2"))
        return PF.affine(h, 10, name="fc")


def student(x):
    with nn.parameter_scope("student"):
        h = F.tanh(PF.affine(x, 16, name="fc1"))
        return PF.affine(h, 10, name="fc2")


def train(loss, scope, args, data, inputs, series=None):
    solver = S.Adam(0.005)
    with nn.parameter_scope(scope):
        draw_parameters(2)
        solver.set_parameters(nn.get_parameters())
    for i in range(args.max_iter):
        for variable, values in zip(inputs, data.next(), strict=True):
            variable.d = values
        solver.zero_grad()
        loss.forward(clear_no_need_grad=True)
        loss.backward(clear_buffer=True)
        solver.update()
        if series is not None:
            series.add(i, loss.d.copy())


def accuracy_of(network):
    images, labels = images_and_labels(train=False)
    x = nn.Variable(images.shape)
    x.d = images
    y = network(x)
    y.forward(clear_buffer=True)
    return float(np.mean(y.d.argmax(1) == labels[:, 0]))


def main():
    args = get_args(max_iter=60, batch_size=64, temperature=3.0)
    x, t = nn.Variable((args.batch_size, 1, 8, 8)), nn.Variable((args.batch_size, 1))
    path = os.path.join(args.monitor_path, "teacher.h5")
    monitor = Monitor(args.monitor_path)
    with digits_iterator(args.batch_size) as data:
        train(F.mean(F.softmax_cross_entropy(teacher(x), t)), "teacher", args, data, (x, t))
    with nn.parameter_scope("teacher"):
        nn.save_parameters(path)
    nn.clear_parameters()
    with nn.parameter_scope("teacher"):
        nn.load_parameters(path)
        for parameter in nn.get_parameters().values():
            parameter.need_grad = False

    soft = F.softmax(teacher(x) / args.temperature)
    soft.need_grad = False
    pred = student(x)
    hard_loss = F.mean(F.softmax_cross_entropy(pred, t))
    soft_loss = F.mean(F.kl_multinomial(soft, F.softmax(pred / args.temperature)))
    loss = 0.3 * hard_loss + 0.7 * args.temperature**2 * soft_loss
    with digits_iterator(args.batch_size, seed=5) as data:
        series = MonitorSeries("training loss", monitor, interval=1, verbose=False)
        train(loss, "student", args, data, (x, t), series)
    with nn.parameter_scope("teacher"):
        assert all((parameter.g == 0).all() for parameter in nn.get_parameters(grad_only=False).values())
    of_teacher, of_student = accuracy_of(teacher), accuracy_of(student)
    assert of_teacher > 0.8 and of_student > 0.6, (of_teacher, of_student)
    print(f"done: teacher {of_teacher:.3f}, student {of_student:.3f}")


if __name__ == "__main__":
    main()
