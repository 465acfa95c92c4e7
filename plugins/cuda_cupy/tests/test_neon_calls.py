"""Layer calls of neon's API on the device, with nothing on the host."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.transforms import Tanh

RNG = np.random.default_rng(4)


@pytest.fixture
def be(cuda):
    """What raises where an op is not computed on the device."""
    yield gen_backend(cuda, rng_seed=1, batch_size=4)
    cleanup_backend()


def tensor(be, *shape):
    return be.array(RNG.standard_normal(shape))


def test_products_of_views_are_written_into_views(be):
    a, b, c = tensor(be, 6, 16), tensor(be, 6, 8), tensor(be, 16, 16)
    wanted = c.get()
    wanted[::2, 1:9] = 2 * a.get()[:, ::2].T @ b.get() + wanted[::2, 1:9]
    be.compound_dot(a[:, ::2].T, b, c[::2, 1:9], alpha=2.0, beta=1.0)
    np.testing.assert_allclose(c.get(), wanted, rtol=1e-5, atol=1e-5)


def test_one_matrix_is_multiplied_with_many(be):
    a, b, c = tensor(be, 4, 5), tensor(be, 6, 5, 3), be.zeros((6, 4, 3))
    be.batched_dot(a, b, c)
    np.testing.assert_allclose(c.get(), a.get() @ b.get(), rtol=1e-5, atol=1e-5)
    total = be.zeros((4, 5))
    be.batched_dot(c, b.T, total)
    np.testing.assert_allclose(total.get(), np.einsum("xkn,xcn->kc", c.get(), b.get()), rtol=1e-5, atol=1e-5)


def test_recurrent_steps_are_one_program(be):
    states, fed, weights = tensor(be, 3, 12), tensor(be, 3, 8), tensor(be, 3, 3)
    wanted = states.get()
    for n in range(4):
        fed_n = fed.get()[:, 2 * n : 2 * n + 2]
        wanted[:, 2 * n + 2 : 2 * n + 4] = np.tanh(weights.get() @ wanted[:, 2 * n : 2 * n + 2] + fed_n)
    views = [[each[:, 2 * n : 2 * n + 2] for n in range(each.shape[1] // 2)] for each in (states, fed)]
    be.compound_rnn_unroll_fprop(weights, views[0][:4], views[1], views[0][1:5], None, 3, 4, 4, Tanh())
    np.testing.assert_allclose(states.get(), wanted, rtol=1e-4, atol=1e-5)


def test_words_from_outside_of_a_table_are_refused_and_nothing_written(be):
    table, error = tensor(be, 5, 3), tensor(be, 3, 4)
    before = table.get()
    with pytest.raises(IndexError, match="from -1 to 4"):
        be.compound_bprop_lut(4, be.array(np.array([[0, 4, -1, 1]]), dtype=np.int32), error, None, table, None)
    np.testing.assert_array_equal(table.get(), before)
