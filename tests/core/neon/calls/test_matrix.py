"""Products of matrices: values, views, targets, and what is refused."""

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import gen_backend

RNG = np.random.default_rng(3)


def tensor(be, *shape):
    return be.array(RNG.standard_normal(shape).astype(np.float32))


def expected(product, c, alpha=1.0, beta=0.0, relu=False):
    product = alpha * product
    return (np.maximum(product, 0) if relu else product) + beta * c


FACTORS = [{}, {"alpha": 0.5}, {"beta": 1.0}, {"alpha": -2.0, "beta": 0.25, "relu": True}, {"relu": True, "beta": 1}]


@pytest.mark.parametrize("factors", FACTORS)
def test_products_are_scaled_rectified_and_added(be, factors):
    a, b, c = tensor(be, 5, 7), tensor(be, 7, 3), tensor(be, 5, 3)
    wanted = expected(a.get() @ b.get(), c.get(), **factors)
    assert be.compound_dot(a, b, c, **factors) is c
    np.testing.assert_allclose(c.get(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factors", [{}, {"alpha": 2.0, "beta": 0.5}])
def test_operands_and_targets_are_views(be, factors):
    a, b, c = tensor(be, 7, 10), tensor(be, 3, 14), tensor(be, 5, 8)
    left, right, target = a[:, ::2].T, b[:, ::-2].T, c[:, 1:4]
    before = c.get()
    wanted = expected(a.get()[:, ::2].T @ b.get()[:, ::-2].T, before[:, 1:4], **factors)
    be.compound_dot(left, right, target, **factors)
    np.testing.assert_allclose(c.get()[:, 1:4], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.delete(c.get(), [1, 2, 3], 1), np.delete(before, [1, 2, 3], 1))


def test_the_sums_of_the_rows_are_those_of_the_new_values(be):
    a, b, c, sums = tensor(be, 5, 7), tensor(be, 7, 3), tensor(be, 5, 3), be.zeros((5, 1))
    be.compound_dot(a, b, c, beta=1.0, bsum=sums)
    np.testing.assert_allclose(sums.get(), c.get().sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_what_a_target_holds_counts_for_nothing_without_beta(be):
    a, b, c = tensor(be, 2, 3), tensor(be, 3, 2), be.array(np.full((2, 2), np.nan))
    be.compound_dot(a, b, c)
    np.testing.assert_allclose(c.get(), a.get() @ b.get(), rtol=1e-5)


def test_an_operand_may_be_the_target(be):
    a = tensor(be, 4, 4)
    wanted = a.get() @ a.get().T
    be.compound_dot(a, a.T, a)
    np.testing.assert_allclose(a.get(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_products_of_signs_are_products(be, beta):
    a, b = be.array(RNG.choice([-1.0, 1.0], (4, 9))), be.array(RNG.choice([-1.0, 1.0], (9, 2)))
    c = be.array(np.ones((4, 2)))
    assert be.xnor_compound_dot(a, b, c, beta=beta) is c
    np.testing.assert_array_equal(c.get(), a.get() @ b.get() + beta)


@pytest.mark.parametrize("factors", FACTORS[:4])
@pytest.mark.parametrize("kind", ["one matrix", "one transposed matrix", "sum"])
def test_batches_of_products_are_of_three_kinds(be, kind, factors):
    a, b = tensor(be, 4, 5), tensor(be, 6, 5, 3)
    if kind == "one matrix":
        left, right, product = a, b, np.einsum("kc,xcn->xkn", a.get(), b.get())
    elif kind == "one transposed matrix":
        a = tensor(be, 5, 4)
        left, right, product = a.T, b, np.einsum("ck,xcn->xkn", a.get(), b.get())
    else:
        a = tensor(be, 6, 4, 3)
        left, right, product = a, b.T, np.einsum("xkn,xcn->kc", a.get(), b.get())
    c = tensor(be, *product.shape)
    wanted = expected(product, c.get(), **factors)
    assert be.batched_dot(left, right, c, **factors) is c
    np.testing.assert_allclose(c.get(), wanted, rtol=1e-5, atol=1e-5)


def test_it_is_computed_where_it_is_asked_for(cpu):
    a, b, c = tensor(cpu, 5, 7), tensor(cpu, 7, 3), tensor(cpu, 5, 3)
    before = nn.fallback_counts()
    cpu.compound_dot(a, b, c, alpha=0.5, relu=True)
    cpu.compound_dot(a, b, c[:, :], beta=1.0)
    cpu.batched_dot(a, tensor(cpu, 2, 7, 3), tensor(cpu, 2, 5, 3))
    assert nn.fallback_counts() == before
    assert "reference" not in str(cpu.plan(cpu.compound_dot, a, b, c, alpha=0.5, beta=1.0))


def refusals():
    yield (
        ValueError,
        "has other columns than",
        lambda be: be.compound_dot(tensor(be, 5, 7), tensor(be, 6, 3), tensor(be, 5, 3)),
    )
    yield (
        ValueError,
        r"C has shape \[3, 5\]",
        lambda be: be.compound_dot(tensor(be, 5, 7), tensor(be, 7, 3), tensor(be, 3, 5)),
    )
    yield (
        ValueError,
        r"bsum has shape",
        lambda be: be.compound_dot(tensor(be, 5, 7), tensor(be, 7, 3), tensor(be, 5, 3), bsum=tensor(be, 1, 5)),
    )
    yield (
        TypeError,
        "dtypes",
        lambda be: be.compound_dot(tensor(be, 5, 7), be.array(np.ones((7, 3)), dtype=np.float64), tensor(be, 5, 3)),
    )
    yield TypeError, "no tensor", lambda be: be.compound_dot(tensor(be, 5, 7), np.ones((7, 3)), tensor(be, 5, 3))
    yield (
        TypeError,
        "alpha is of type",
        lambda be: be.compound_dot(tensor(be, 5, 7), tensor(be, 7, 3), tensor(be, 5, 3), alpha=tensor(be, 1, 1)),
    )
    yield (
        ValueError,
        "no kind of batched product",
        lambda be: be.batched_dot(tensor(be, 5, 7), tensor(be, 2, 6, 3), tensor(be, 2, 5, 3)),
    )


@pytest.mark.parametrize("kind, match, call", list(refusals()))
def test_what_does_not_fit_is_refused(cpu, kind, match, call):
    with pytest.raises(kind, match=match):
        call(cpu)


def test_tensors_of_other_backends_and_closed_ones_are_refused(cpu):
    a, b, c = tensor(cpu, 2, 2), tensor(cpu, 2, 2), tensor(cpu, 2, 2)
    cpu.compound_dot(a, b, c)
    other = gen_backend("cpu")  # which cleans the first one up
    with pytest.raises(ValueError, match="cleaned up"):
        cpu.compound_dot(a, b, c)
    with pytest.raises(ValueError, match="another backend"):
        other.compound_dot(a, b, c)
