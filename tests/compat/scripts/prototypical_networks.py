"""Prototypical networks: classes that were never seen in training, told apart by a few examples of each."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from common.arguments import get_args
from common.digits import images_and_labels
from common.start import draw_parameters
from nnabla.monitor import Monitor, MonitorSeries


def embedding(x):
    with nn.parameter_scope("embedding"):
        for number, maps in enumerate((8, 16)):
            with nn.parameter_scope(f"conv{number}"):
                x = PF.batch_normalization(PF.convolution(x, maps, (3, 3), pad=(1, 1)), batch_stat=True)
                x = F.max_pooling(F.relu(x), (2, 2))
        return F.reshape(x, (x.shape[0], -1))


def similarity(queries, prototypes):
    """(Q, D) and (C, D): minus the squared distances, (Q, C)."""
    q, c = queries.shape[0], prototypes.shape[0]
    queries = F.broadcast(F.reshape(queries, (q, 1, -1)), (q, c, queries.shape[1]))
    prototypes = F.broadcast(F.reshape(prototypes, (1, c, -1)), (q, c, prototypes.shape[1]))
    return -1.0 * F.mean((queries - prototypes) ** 2, axis=2)


def network(support, query, classes, shots):
    features = embedding(F.concatenate(support, query, axis=0))
    count = classes * shots
    prototypes = F.mean(F.reshape(features[:count], (classes, shots, -1)), axis=1)
    return similarity(features[count:], prototypes)


class Episodes:
    """Draws classes, examples of each and questions about others of them."""

    def __init__(self, numbers, shots, questions, seed):
        images, labels = images_and_labels()
        self._by_class = [images[labels[:, 0] == number] for number in numbers]
        self._shots, self._questions = shots, questions
        self._rng = np.random.RandomState(seed)

    def next(self, classes):
        support, query, labels = [], [], []
        for label, number in enumerate(self._rng.permutation(len(self._by_class))[:classes]):
            images = self._rng.permutation(self._by_class[number])
            support.append(images[: self._shots])
            query.append(images[self._shots : self._shots + self._questions])
            labels += [[label]] * self._questions
        return np.concatenate(support), np.concatenate(query), np.array(labels)


def main():
    args = get_args(max_iter=60, shots=3, questions=5)
    classes = 4
    support = nn.Variable((classes * args.shots, 1, 8, 8))
    query = nn.Variable((classes * args.questions, 1, 8, 8))
    label = nn.Variable((classes * args.questions, 1))
    pred = network(support, query, classes, args.shots)
    loss = F.mean(F.softmax_cross_entropy(pred, label))
    error = F.mean(F.top_n_error(pred, label))
    both = F.sink(loss, error)

    draw_parameters(11)
    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    series = MonitorSeries("training loss", Monitor(args.monitor_path), interval=1, verbose=False)
    episodes = Episodes(range(6), args.shots, args.questions, seed=1)
    for i in range(args.max_iter):
        support.d, query.d, label.d = episodes.next(classes)
        solver.zero_grad()
        loss.forward(clear_no_need_grad=True)
        loss.backward(clear_buffer=True)
        solver.update()
        series.add(i, loss.d.copy())
        if i and i % 25 == 0:
            solver.set_learning_rate(solver.learning_rate() * 0.5)

    unseen = Episodes(range(6, 10), args.shots, args.questions, seed=2)
    errors = []
    for _ in range(20):
        support.d, query.d, label.d = unseen.next(classes)
        both.forward(clear_no_need_grad=True)
        errors.append(float(error.d))
    assert np.mean(errors) < 0.3, np.mean(errors)
    print(f"done: error on classes that were not trained {np.mean(errors):.3f}")


if __name__ == "__main__":
    main()
