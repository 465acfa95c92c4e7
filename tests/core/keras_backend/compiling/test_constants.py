"""Parts that depend on constants alone."""

import numpy as np

import atled.keras_backend as B
from atled.ops.spec import SPECS


def test_they_are_computed_once_for_all_sizes(monkeypatch):
    computed = []
    spec = SPECS["Exp"]
    reference = type(spec).reference

    def counted(self, *inputs, **attributes):
        computed.append(inputs)
        return reference(self, *inputs, **attributes)

    monkeypatch.setattr(type(spec), "reference", counted)
    x = B.placeholder(ndim=1)
    f = B.function([x], x + B.exp(B.exp(np.float32(0.5))))
    for size in (1, 2, 3):
        np.testing.assert_allclose(f(np.zeros(size)), np.full(size, np.exp(np.exp(0.5))), rtol=1e-6)
    assert len(computed) == 2


def test_large_constants_are_in_one_array_for_all_sizes():
    x = B.placeholder(ndim=2)
    f = B.function([x], x.dot(np.ones((50, 60), np.float32)))
    for size in (1, 2, 3):
        assert f(np.ones((size, 50)))[0, 0] == 50
    cells = [cell for each in f._known.values() for cell in each._bound._cells if cell.size == 3000]
    assert len(cells) == 3
    assert len(set(map(id, cells))) == 1


def test_what_depends_on_sizes_is_no_constant():
    x = B.placeholder(ndim=1)
    f = B.function([x], B.exp(x.shape[0] * np.float32(1)) + 0.0 * B.sum(x))
    np.testing.assert_allclose([f(np.ones(size)) for size in (1, 2)], np.exp([1, 2]), rtol=1e-6)
