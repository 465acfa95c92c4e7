"""Random programs on graphs against an independent model: held and late handles, writes, repeated steps.

Freed memory is filled with NaN, so that a value which is read from the wrong place shows.
"""

import random

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S

pytestmark = pytest.mark.slow

UNARY = {
    "tanh": (F.tanh, np.tanh, lambda x, y, g: g * (1 - y * y)),
    "sin": (F.sin, np.sin, lambda x, y, g: g * np.cos(x)),
    "relu": (F.relu, lambda x: np.maximum(x, 0), lambda x, y, g: g * (x > 0)),
    "half": (lambda x: x * 0.5, lambda x: x * 0.5, lambda x, y, g: g * 0.5),
    "more": (lambda x: x + 0.25, lambda x: x + 0.25, lambda x, y, g: g),
    "same": (F.identity, lambda x: x, lambda x, y, g: g),
    "turned": (lambda x: F.transpose(x, (1, 0)), lambda x: x.T, lambda x, y, g: g.T),
    "shaped": (lambda x: F.reshape(x, x.shape[::-1]), lambda x: x.reshape(x.shape[::-1]), None),
    "softmax": (
        lambda x: F.softmax(x, axis=1),
        lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
        lambda x, y, g: y * (g - (g * y).sum(1, keepdims=True)),
    ),
}
BINARY = {
    "add": (lambda a, b: a + b, lambda a, b, g: (g, g)),
    "sub": (lambda a, b: a - b, lambda a, b, g: (g, -g)),
    "mul": (lambda a, b: a * b, lambda a, b, g: (g * b, g * a)),
}


class Node:
    """The model of one value.

    computed, differentiated, touched: when a forward made it, a backward made its gradient, and when it was written
        otherwise or a view of it was taken, through which it might have been; 0 for never.
    """

    def __init__(self, shape, name="", inputs=()):
        self.shape = shape
        self.name = name
        self.inputs = inputs
        self.values = np.zeros(shape)
        self.g = None  # of a leaf: what was accumulated; else what the last backward gave, None before one
        self.need_grad = None
        self.root = None  # of the last backward
        self.computed = self.touched = self.differentiated = 0

    @property
    def base(self):
        """The node whose memory it shows."""
        return self.inputs[0].base if self.name == "shaped" else self

    @property
    def d(self):
        return self.base.values.reshape(self.shape)

    @d.setter
    def d(self, values):
        self.base.values = np.asarray(values, np.float64).reshape(self.base.shape)

    def before(self):
        """The nodes that lead to this one, it included, inputs first."""
        order = {}
        for node in self.inputs:
            order.update(dict.fromkeys(node.before()))
        order[self] = None
        return list(order)

    def needs(self):
        return self.need_grad if self.need_grad is not None else any(node.needs() for node in self.inputs)


class Program:
    """A random program, run on the library and on the model at the same time."""

    def __init__(self, seed, contexts):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.contexts = contexts
        self.clock = 1
        self.values = []  # [Variable or None where nobody holds it, Node]
        self.views = []  # (view of a leaf, Node)
        for _ in range(3):
            self.add_leaf()

    def draw(self, shape):
        return (self.numbers.integers(-8, 9, shape) / 8).astype(np.float32)

    def pick(self, condition=lambda node: True):
        found = [pair for pair in self.values if pair[0] is not None and condition(pair[1])]
        return self.random.choice(found) if found else (None, None)

    def add_leaf(self):
        node = Node(self.random.choice([(3, 4), (3, 4), (4, 3)]))
        node.need_grad = self.random.choice([True, True, None])
        node.d = self.draw(node.shape)
        node.g = np.zeros(node.shape)
        self.values.append([nn.Variable.from_numpy_array(node.d.astype(np.float32), need_grad=node.need_grad), node])

    def call(self):
        x, node = self.pick()
        with nn.context_scope(self.random.choice(self.contexts)):
            if self.random.random() < 0.6:
                name = self.random.choice(list(UNARY))
                self.values.append([UNARY[name][0](x), Node(UNARY[name][1](node.d).shape, name, (node,))])
            else:
                name = self.random.choice(list(BINARY))
                w, other = self.pick(lambda other: other.shape == node.shape)
                self.values.append([BINARY[name][0](x, w), Node(node.shape, name, (node, other))])

    def forward(self):
        y, root = self.pick(lambda node: node.inputs)
        if y is not None:
            y.forward()
            self.clock += 1
            for node in root.before():
                if node.inputs:
                    compute = UNARY[node.name][1] if node.name in UNARY else BINARY[node.name][0]
                    node.d = compute(*(source.d for source in node.inputs))
                    node.computed = self.clock
        return y, root

    def step(self):
        y, root = self.forward()
        if y is None:
            return
        if self.random.random() < 0.3:
            self.forget()
        y.backward(0.5)
        self.clock += 1
        if not any(node.needs() for node in root.inputs):
            return
        arriving = {root: np.full(root.shape, 0.5)}
        for node in reversed(root.before()):
            if node not in arriving or not (node is root or node.needs()):
                continue
            if not node.inputs:
                node.g = node.g + arriving[node]
            elif node is not root:
                node.g, node.differentiated, node.root = arriving[node], self.clock, root
            for source, gradient in zip(node.inputs, self.pull_back(node, arriving[node]), strict=True):
                if source.needs():
                    arriving[source] = arriving.get(source, 0) + gradient

    @staticmethod
    def pull_back(node, g):
        inputs = [source.d for source in node.inputs]
        if node.name == "shaped":
            return (g.reshape(inputs[0].shape),)
        if node.name in UNARY:
            return (UNARY[node.name][2](*inputs, node.d, g),) if inputs else ()
        return BINARY[node.name][1](*inputs, g) if inputs else ()

    def write(self):
        x, node = self.pick(lambda node: not node.inputs)
        if x is None:
            return
        values, way = self.draw(node.shape), self.random.randrange(5)
        if way == 0:
            x.d = values
        elif way == 1:
            x.d[...] = values
        elif way == 2:
            values = np.full(node.shape, 0.25)
            x.data.fill(0.25)
        elif way == 3 and not any(other.base is node for _, other in self.values if other is not node):
            x.data = nn.NdArray.from_numpy_array(values)
            self.views = [(view, shown) for view, shown in self.views if shown is not node]
        else:
            x.data += nn.NdArray.from_numpy_array(values)
            values = node.d + values
        node.d = values
        self.touch(node)

    def touch(self, *nodes):
        self.clock += 1
        for node in nodes:
            node.touched = self.clock

    def write_view(self):
        if self.views and self.random.random() < 0.5:
            view, node = self.views.pop()
            view[...] = node.d = self.draw(node.shape)
            self.touch(node)
        else:
            x, node = self.pick(lambda node: not node.inputs)
            if x is not None:
                self.views.append((x.d, node))
                self.touch(node)

    def update(self):
        leaves = [pair for pair in self.values if pair[0] is not None and not pair[1].inputs and pair[1].need_grad]
        solver = S.Sgd(lr=0.125)
        solver.set_parameters({str(number): x for number, (x, _) in enumerate(leaves)})
        solver.update()
        solver.zero_grad()
        for _, node in leaves:
            node.d, node.g = node.d - 0.125 * node.g, np.zeros(node.shape)
            self.touch(node)

    def forget(self):
        pair = self.random.choice(self.values)
        if pair[1].inputs and sum(value is not None for value, _ in self.values) > 4:
            pair[0] = None

    def regain(self):
        """Take a handle on an input of a held result, look at it, sometimes write to it, sometimes keep it."""
        y, node = self.pick(lambda node: node.inputs)
        if y is None:
            return
        position = self.random.randrange(len(node.inputs))
        source, late = node.inputs[position], y.parent.inputs[position]
        if source.inputs:
            self.look(late, source)
        if source.inputs and source.name not in ("shaped", "same") and self.random.random() < 0.1:
            late.d = 3  # lasts until the next forward, which every check of a value waits for
            source.computed = 0
            self.touch(source)
        if source.inputs and self.random.random() < 0.1:
            late.g = 3
            source.differentiated = 0
        if self.random.random() < 0.3:
            pair = next(pair for pair in self.values if pair[1] is source)
            pair[0] = late

    def look(self, late, node):
        """Compare a value and its gradient; an error must have its reason."""
        base = node.base
        if base.computed or not base.inputs:
            self.compare(lambda: late.d.copy(), node.d, base.before()[:-1], base.computed)
            self.touch(base)
        if node.differentiated:
            everything = [pair[1] for pair in self.values]
            self.compare(lambda: late.g.copy(), node.g, everything, node.differentiated, node.root)

    def compare(self, read, expected, sources, since, root=None):
        """Compare an array that was made of sources at a time; that it cannot be had must have its reason."""
        try:
            got = read()
        except RuntimeError as error:
            if "a root is gone" in str(error):
                assert root is not None and all(x is None for x, node in self.values if node is root)
                return
            assert "compute the graph again" in str(error)
            held = [node for _, node in self.views]
            assert any(node.touched > since or node in held for node in sources), "nothing was written since"
        else:
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4)

    def check(self):
        for x, node in self.values:
            if x is not None and not node.inputs:
                np.testing.assert_allclose(x.d, node.d, rtol=2e-3, atol=2e-4)
                np.testing.assert_allclose(x.g, node.g, rtol=2e-3, atol=2e-4)
                self.touch(node)

    def toggle(self):
        x, node = self.pick()
        way = self.random.randrange(3)
        if way == 0:
            x.persistent = not x.persistent
        elif not node.inputs:
            node.need_grad = x.need_grad = self.random.choice([True, False])
            for _, other in self.values:
                other.differentiated = 0  # what the gradients were is no longer known

    def run(self, count):
        ways = (self.call, self.forward, self.step, self.write, self.write_view, self.regain, self.forget, self.check)
        odds = (24, 10, 20, 10, 3, 18, 10, 4)
        for way in self.random.choices((*ways, self.update, self.toggle), (*odds, 3, 2), k=count):
            way()
        self.check()


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_programs_agree_with_the_model(first):
    contexts = [nn.Context(["fusing:float"]), nn.Context(["fusing:float"]), nn.Context(["reference:float"])]
    for seed in range(first, first + 20):
        try:
            Program(seed, contexts).run(60)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
