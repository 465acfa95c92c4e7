"""LeNet on handwritten digits: training, validation while it goes on, parameters and states of the solver in files."""

import os

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solver as S
import numpy as np
from common.arguments import get_args
from common.digits import digits_iterator
from common.start import draw_parameters
from nnabla.logger import logger
from nnabla.monitor import Monitor, MonitorSeries, MonitorTimeElapsed


def lenet(image):
    h = PF.convolution(image, 8, (3, 3), pad=(1, 1), name="conv1")
    h = F.relu(F.max_pooling(h, (2, 2)), inplace=True)
    h = PF.convolution(h, 16, (3, 3), name="conv2")
    h = F.relu(F.max_pooling(h, (2, 2)), inplace=True)
    h = F.relu(PF.affine(h, 32, name="fc3"), inplace=True)
    return PF.affine(h, 10, name="fc4")


def validate(error, image, label, data, count):
    total = 0.0
    for _ in range(count):
        image.d, label.d = data.next()
        error.forward(clear_buffer=True)
        total += float(error.d)
    return total / count


def main():
    args = get_args(max_iter=100, batch_size=50)
    shape = (args.batch_size, 1, 8, 8)
    image, label = nn.Variable(shape), nn.Variable((args.batch_size, 1))
    pred = lenet(image)
    pred.persistent = True
    loss = F.mean(F.softmax_cross_entropy(pred, label))
    vimage, vlabel = nn.Variable(shape), nn.Variable((args.batch_size, 1))
    verror = F.mean(F.top_n_error(lenet(vimage), vlabel))

    draw_parameters(412)
    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    monitor = Monitor(args.monitor_path)
    series = MonitorSeries("training loss", monitor, interval=1, verbose=False)
    errors = MonitorSeries("training error", monitor, interval=10, verbose=False)
    timer = MonitorTimeElapsed("training time", monitor, interval=100, verbose=False)

    with digits_iterator(args.batch_size) as data, digits_iterator(args.batch_size, train=False) as vdata:
        for i in range(args.max_iter):
            if i == args.max_iter // 2:  # as if it had been interrupted here
                path = os.path.join(args.monitor_path, "params.h5")
                states = os.path.join(args.monitor_path, "states.h5")
                nn.save_parameters(path)
                solver.save_states(states)
                for parameter in nn.get_parameters().values():
                    parameter.data.zero()
                nn.load_parameters(path)
                solver = S.Adam(0.003)
                solver.set_parameters(nn.get_parameters())
                solver.load_states(states)
            image.d, label.d = data.next()
            solver.zero_grad()
            loss.forward(clear_no_need_grad=True)
            loss.backward(clear_buffer=True)
            solver.weight_decay(1e-4)
            solver.update()
            series.add(i, loss.d.copy())
            errors.add(i, float(np.mean(pred.d.argmax(1) != label.d.flat)))
            timer.add(i)
        error = validate(verror, vimage, vlabel, vdata, 5)
    logger.info("validation error %f", error)
    assert error < 0.35, error
    print(f"done: validation error {error:.3f}")


if __name__ == "__main__":
    main()
