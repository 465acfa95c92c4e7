"""Graphs of nodes on NumPy arrays, in float64: what they compute, their gradients, and finite differences."""

import numpy as np

import atled as nn
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.graph.compile.lowering import lower
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph
from atled.graph.run.binding import Binding

CONTEXT = nn.Context(["cpu:double"])


def desc(*shape, dtype=np.float64):
    return ArrayDesc(shape, dtype)


def body_of(descs, build, parameters=0):
    """The body that `build(builder, *inputs, *parameters)` makes."""
    builder = BodyBuilder(CONTEXT)
    floats = [builder.parameter() for _ in range(parameters)]
    return builder.body(build(builder, *[builder.input(item) for item in descs], *floats))


class Program:
    """A graph on outside arrays, given as NumPy's."""

    def __init__(self, *arrays, context=CONTEXT):
        self.graph = Graph(context)
        self.op = self.graph.op
        self.arrays = [NdArray.from_numpy_array(np.asarray(array)) for array in arrays]
        self.inputs = [
            self.graph.external(number, ArrayDesc(array.shape, np.asarray(array).dtype))
            for number, array in enumerate(arrays)
        ]

    def total(self, *values):
        """The sum of all elements of some values."""
        sums = [self.op("Sum", value, axes=tuple(range(value.ndim))) if value.ndim else value for value in values]
        return sum(sums[1:], sums[0])

    def gradients(self, y, wanted):
        """Gradients of a single number; None where nothing flows."""
        seed = self.op("Constant", val=1.0, shape=())
        found = backpropagate(self.graph, list(self.graph.nodes), {y: seed}, wanted)
        return [found.get(value) for value in wanted]

    def bind(self, *values, floats=()):
        """What runs the graph, and the NumPy arrays of some values."""
        plan = lower(self.graph, values)
        results = [NdArray(value.shape) for value in values]
        given = [floats[source[1]] if source[0] == "given" else source[1] for source in plan.floats]
        binding = Binding(plan, [array.cell for array in self.arrays], [result.cell for result in results], given)
        return binding, results

    def run(self, *values, floats=()):
        """The values as NumPy arrays."""
        binding, results = self.bind(*values, floats=floats)
        binding.run()
        return [result.data for result in results]


def differences(function, arrays, number, step=1e-6):
    """The gradient of a function, which gives a number, in one of its arrays, by central differences."""
    found = np.empty_like(arrays[number])
    for place in np.ndindex(found.shape):
        sides = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[number][place] += sign * step
            sides.append(float(function(*moved)))
        found[place] = (sides[0] - sides[1]) / (2 * step)
    return found
