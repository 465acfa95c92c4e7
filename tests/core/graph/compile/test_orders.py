"""What is made of images that lie in another order of axes than theirs keeps that order, where its readers allow it."""

import numpy as np
import pytest

from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description
from atled.ops.spec import SPECS
from atled_contexts import Context

GEOMETRY = {"base_axis": 1, "pad": (1, 1), "stride": (1, 1), "dilation": (1, 1), "group": 1}
LAST, FIRST = (1, 2, 3, 0), (3, 0, 1, 2)
STRIDES = "strides [1, 960, 160, 32]"  # of 32 x 2 x 6 x 5 with the batch innermost


class Images:
    """A convolution of 32 x 3 x 6 x 5 to two maps, batch innermost, as value `y` of a description."""

    def __init__(self, context=None):
        random = np.random.default_rng(0)
        self.x, self.w = (random.standard_normal(shape, "f") for shape in ((32, 3, 6, 5), (2, 3, 3, 3)))
        self.program = Description(context)
        self.y = self.program.call("Convolution", self.leaf(self.x), self.leaf(self.w), None, **GEOMETRY)
        self.expected = SPECS["Convolution"].reference(self.x, self.w, None, channel_last=False, **GEOMETRY)

    def leaf(self, values):
        memory = NdArray.from_numpy_array(np.ascontiguousarray(values.transpose(LAST)))
        return self.program.leaf(View(memory).transpose(FIRST))

    def assign(self, value, shape=(32, 2, 6, 5)):
        """Assigns to a view that lies as the images do; its values after the run are `shown` of what this returns."""
        memory = NdArray.from_numpy_array(np.zeros([shape[axis] for axis in LAST], "f"))
        self.program.assign(self.program.leaf(View(memory).transpose(FIRST)), value)
        return memory


def shown(memory):
    return memory.data.transpose(FIRST)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.fixture(params=["cpu:float", "reference:float"])
def images(request):
    return Images(Context([request.param]))


def test_formulas_behind_read_and_write_in_that_order(images):
    memory = images.assign(images.program.call("ReLU", images.y))
    images.program.run()
    close(shown(memory), np.maximum(images.expected, 0))
    made = next(line for line in str(images.program.plan).splitlines() if " Convolution " in line)
    assert f"[32, 2, 6, 5] {STRIDES}" in made


def test_formulas_keep_it_for_further_readers(images):
    program = images.program
    activated = program.call("ReLU", images.y)
    memory = images.assign(activated)
    sums = NdArray.from_numpy_array(np.zeros(2, "f"))
    program.assign(program.leaf(sums), program.call("Sum", activated, axes=(0, 2, 3)))
    program.run()
    wanted = np.maximum(images.expected, 0)
    close(shown(memory), wanted)
    close(sums.data / 960, wanted.sum((0, 2, 3)) / 960)


def test_results_are_in_c_order(images):
    memory = images.assign(images.program.call("MulScalar", images.y, val=2.0))
    images.program.result(images.y)
    close(images.program.run()[0].data, images.expected)
    close(shown(memory), 2 * images.expected)


def test_beside_a_reader_that_takes_no_strides_nothing_changes():
    images = Images(Context(["cpu:float"]))
    memory = images.assign(images.program.call("Softmax", images.y, axis=1))
    images.program.run()
    powers = np.exp(images.expected)
    close(shown(memory), powers / powers.sum(1, keepdims=True))
    made = next(line for line in str(images.program.plan).splitlines() if " Convolution " in line)
    assert f"[32, 2, 6, 5] {STRIDES}" not in made


def test_a_value_that_is_read_through_a_view_stays_in_c_order(images):
    flat = images.program.call("Reshape", images.y, shape=(32, 60))
    images.program.result(images.program.call("MulScalar", flat, val=3.0))
    memory = images.assign(images.program.call("ReLU", images.y))
    close(images.program.run()[0].data, 3 * images.expected.reshape(32, 60))
    close(shown(memory), np.maximum(images.expected, 0))


def test_what_is_computed_again_finds_its_memory(images):
    memory = images.assign(images.program.call("Mul2", images.y, images.program.call("ReLU", images.y)))
    for _ in range(2):
        images.program.run()
        close(shown(memory), images.expected * np.maximum(images.expected, 0))
