"""Packed weights of programs by key, whose arrays are given to each run."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.views import View
from atled.keyed import Description

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((8, 300), "f")
WEIGHTS = RNG.standard_normal((3, 300, 200), "f")


@pytest.fixture(autouse=True)
def empty():
    nn.clear_memory_cache()


def array(values):
    return nn.NdArray.from_numpy_array(values)


def product(images, weight):
    d = Description()
    d.result(d.call("BatchMatmul", d.leaf(images), d.leaf(weight)))
    return d.run()[0].data.copy()


def counted():
    return nn.memory_statistics()["caches"]["constants"]


def test_weights_that_stay_are_packed_once_and_results_are_the_same():
    images, weight = array(IMAGES), array(WEIGHTS[0])
    found = [product(images, weight) for _ in range(4)]
    assert counted() == 1
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_one_program_on_several_weights_has_the_pack_of_each():
    images, weights = array(IMAGES), [array(values) for values in WEIGHTS]
    expected = [product(images, array(values)) for values in WEIGHTS]
    for _ in range(4):
        for weight, values in zip(weights, expected, strict=True):
            np.testing.assert_array_equal(product(images, weight), values)
    assert counted() == 3


def by_assignment(weight):
    d = Description()
    d.assign(d.leaf(weight), d.leaf(array(WEIGHTS[1])))
    d.run()


def by_assignment_to_a_part(weight):
    view, rows = View(weight), array(WEIGHTS[1][100:])
    d = Description()
    d.assign(d.leaf(view[100:]), d.leaf(rows))
    d.run()
    weight.data[:100] = WEIGHTS[1][:100]


def in_place(weight):
    d = Description()
    target = d.leaf(weight)
    d.assign(target, d.call("Sub2", target, d.leaf(array(WEIGHTS[0] - WEIGHTS[1]))))
    d.run()
    weight.data = WEIGHTS[1]


@pytest.mark.parametrize("write", [by_assignment, by_assignment_to_a_part, in_place], ids=lambda way: way.__name__)
def test_assignments_are_seen(write):
    images, weight = array(IMAGES), array(WEIGHTS[0])
    expected = product(images, array(WEIGHTS[1]))
    for _ in range(3):
        product(images, weight)
    write(weight)
    for _ in range(3):
        np.testing.assert_array_equal(product(images, weight), expected)


def test_a_program_that_changes_its_weights_packs_none():
    images, weight = array(IMAGES), array(WEIGHTS[0])
    for _ in range(4):
        d = Description()
        w = d.leaf(weight)
        d.result(d.call("BatchMatmul", d.leaf(images), w))
        d.assign(w, d.call("Mul2", w, d.number(0.5)))
        d.run()
    assert counted() == 0
    np.testing.assert_array_equal(weight.data, WEIGHTS[0] / 16)


def test_packs_go_with_the_arrays():
    images = array(IMAGES)
    for _ in range(20):
        weight = array(WEIGHTS[0])
        for _ in range(3):
            product(images, weight)
        assert counted() == 1
        del weight
    assert counted() == 0


def test_small_arrays_may_come_back_with_other_values_and_are_not_packed():
    images, weight = array(IMAGES[:, :60]), array(WEIGHTS[0][:60, :60])
    for _ in range(4):
        product(images, weight)
    assert counted() == 0


def test_what_is_packed_of_a_result_does_not_stay_when_its_memory_is_used_again():
    images, weights = array(IMAGES), [array(weight) for weight in WEIGHTS]
    expected = [product(images, weight) for weight in weights]

    def check(which):
        made = F.add_scalar(weights[which], val=0)  # of a size of which arrays come round again
        for _ in range(3):
            np.testing.assert_array_equal(product(images, made), expected[which])

    for number in range(12):
        check(number % 2)
