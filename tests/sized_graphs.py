"""Graphs of any size, and what can be compared of their plans."""

import numpy as np

import atled as nn
import atled.functions as F
from atled.graph import rebuilt, rebuilt_forward
from atled.graph.compile.plans import PLANS


def forget_plans():
    for plans in (PLANS, rebuilt.REBUILT, rebuilt_forward.REBUILT):
        plans.clear()


def leaf(*shape, need_grad=True):
    x = nn.Variable(shape, need_grad=need_grad)
    x.d = np.sin(np.arange(x.size)).reshape(shape)
    return x


def perceptron(n):
    x = leaf(n, 5, need_grad=False)
    h = F.relu(F.affine(x, leaf(5, 7), leaf(7)))
    return F.mean(F.softmax_cross_entropy(F.affine(h, leaf(7, 3), leaf(3)), leaf(n, 1, need_grad=False)))


def broadcast(n):
    """Sizes 1 are repeated, or not where all are 1."""
    return F.sum(F.tanh(leaf(n, 4) * leaf(1, 4) + leaf(n, 1)) / (leaf(1, 1) + 3))


def views(n):
    x = leaf(2, n, 6)
    y = F.transpose(F.reshape(x * 2, (2, n, 3, 2)), (0, 2, 1, 3))
    return F.sum(F.sigmoid(F.reshape(y, (6, 2 * n))) * F.reshape(x, (6, 2 * n)))


def shared(n):
    """One weight that is used several times, whose products are joined where they are short."""
    w, h = leaf(8, 8), leaf(n, 8)
    for _ in range(3):
        h = F.tanh(F.affine(h, w))
    return F.sum(h * h)


def parts(n):
    a, b = F.split(leaf(2, n, 4), axis=0)
    return F.sum(F.concatenate(F.exp(a), b * a, axis=1))


def normalized(n):
    x = F.convolution(leaf(n, 2, 6, 6), leaf(4, 2, 3, 3), pad=(1, 1))
    mean, variance = leaf(1, 4, 1, 1, need_grad=False), leaf(1, 4, 1, 1, need_grad=False)
    y = F.batch_normalization(x, leaf(1, 4, 1, 1), leaf(1, 4, 1, 1), mean, variance)
    return F.sum(F.max_pooling(F.relu(y), (2, 2)) ** 2)


def averaged(n):
    """One nth is a number in formulas for few elements, and given to them for more."""
    x = leaf(3, n)
    return F.mean(F.tanh(F.mean(x, axis=1, keepdims=True) * leaf(3, 1)) * x)


GRAPHS = {each.__name__: each for each in (averaged, perceptron, broadcast, views, shared, parts, normalized)}


def described(plan):
    """All of a plan that is not an object of its own."""
    slots = [(s.desc, s.place, s.memory, s.source, s.offset, s.is_window, s.range_bytes) for s in plan.slots]
    steps = [(s.name, s.arguments, s.floats, s.parts, s.label) for s in plan.steps]
    return str(plan), slots, steps, plan.floats, plan.targets, plan.block.tolist(), plan.rows.tolist()
