"""Products of matrices drawn from a seed: of whole arrays with their gradients, and of views into views."""

import numpy as np

import atled as nn
import atled.functions as F
from atled.arrays.views import View
from atled.keyed import Description
from atled.type_configs import compute_dtype
from drawn_calls import CASES, THREADS, TOLERANCE, assert_close, check, guarded_memory, threads


def drawn_size(rng):
    return int(rng.choice([0, 1, 1, 2, 3, 5, 8, 16, 17, 33, 64, 70, 130, int(rng.integers(1, 300))]))


def attempt(rng, config):
    m, k, n = (drawn_size(rng) for _ in range(3))
    if rng.random() < 0.5:
        batch = rng.integers(1, 4, size=rng.integers(0, 3)).tolist()
        turned = [bool(value) for value in rng.integers(0, 2, 2)]
        shapes = [(*batch, k, m) if turned[0] else (*batch, m, k), (*batch, n, k) if turned[1] else (*batch, k, n)]
        what = f"product of {shapes}, transposed {turned}"

        def build(a, b):
            return F.batch_matmul(a, b, transpose_a=turned[0], transpose_b=turned[1])
    else:
        base_axis = int(rng.integers(1, 3))
        shapes = [(m, k) if base_axis == 1 else (2, m, k), (k, n), (n,)][: int(rng.choice([2, 3]))]
        what = f"affine of {shapes}, base_axis={base_axis}"

        def build(*given):
            return F.affine(*given, base_axis=base_axis)

    check(build, [rng.standard_normal(shape).astype("f") for shape in shapes], what, config)


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        attempt(rng, config)


def drawn_view(rng, shape, dtype, is_written):
    """A view of that shape, with drawn order and steps of axes, and its base.

    Also backwards; and, where nothing is written to it, with axes along which all elements are one.
    """
    order = rng.permutation(len(shape)) if rng.random() < 0.6 else np.arange(len(shape))
    sizes, cuts = [], []
    for axis in order:
        step = int(rng.choice([1, 1, 1, 2, 3, -1, -2]))
        before, behind = (rng.integers(0, 4, 2) * (rng.random() < 0.3)).tolist()
        count = 1 if not is_written and rng.random() < 0.1 else shape[axis]
        reach = max(0, count - 1) * abs(step) + 1
        last = slice(before + reach - 1, before - 1 if before else None, step)
        cuts.append(slice(before, before + reach * (count > 0), step) if step > 0 or not count else last)
        sizes.append(before + reach + behind)
    base = nn.NdArray(tuple(sizes))
    base.cast(dtype)[...] = rng.standard_normal(sizes)
    turned = View(base)[tuple(cuts)].transpose(np.argsort(order).tolist())
    return turned if is_written else turned.broadcast_to(shape), base


def attempt_views(rng, config, count):
    """A product of views, and maybe what it is added to, assigned to a view; the target and what it was made from."""
    (m, k, n), dtype = (drawn_size(rng) for _ in range(3)), compute_dtype(config)
    (a, _), (b, _) = (drawn_view(rng, shape, dtype, is_written=False) for shape in ((m, k), (k, n)))
    out, base = drawn_view(rng, (m, n), dtype, is_written=True)
    what = f"{a} by {b} into {out}"
    d = Description(nn.Context([f"cpu:{config}"]))
    product, wanted = d.call("Dot", d.leaf(a), d.leaf(b)), values_of(a) @ values_of(b)
    if rng.random() < 0.4:
        product = d.call("Sub2", d.call("MulScalar", product, val=0.5), d.leaf(out))
        wanted = 0.5 * wanted - values_of(out)
    beside = base.cast(dtype).astype("d")
    d.assign(d.leaf(out), product)
    with threads(count):
        d.run()
    found, now = values_of(out), base.cast(dtype).astype("d")
    View(base).write(beside)
    out.write(found)
    np.testing.assert_array_equal(now, base.cast(dtype).astype("d"), f"beside the result of {what}")
    assert_close(found, wanted, TOLERANCE[config], what)
    return found


def values_of(view):
    return np.array(view.numpy(), np.float64)


@CASES
def test_products_of_views_are_written_into_views_and_nothing_beside_them(config, seed):
    for number in range(15):
        with guarded_memory():
            one, other = (attempt_views(np.random.default_rng([seed, number]), config, count) for count in THREADS)
        np.testing.assert_array_equal(one, other, f"on {THREADS} threads")
