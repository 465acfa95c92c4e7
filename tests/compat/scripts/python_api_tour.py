"""What arrays, Variables, functions and parameters do, step by step; each claim is an assertion."""

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import nnabla_ext.cpu
import numpy as np
from nnabla.contrib.context import extension_context
from nnabla.ext_utils import get_extension_context, import_extension_module, list_extensions

# Arrays compute at once.
a = nn.NdArray((2, 3))
assert a.shape == (2, 3) and a.size == 6 and a.ndim == 2
a.data = np.arange(6).reshape(2, 3)
b = nn.NdArray.from_numpy_array(np.ones((2, 3), np.float32))
c = F.add2(a, b)
assert isinstance(c, nn.NdArray) and c.data.tolist() == [[1, 2, 3], [4, 5, 6]]
same = c
c += 1
c *= 2
assert c is same and c.data[1].tolist() == [10, 12, 14]
a.fill(2)
assert a.data.tolist() == [[2, 2, 2], [2, 2, 2]]
a.zero()
assert not a.data.any() and a.cast(np.int32).dtype == np.int32

# Variables record.
x = nn.Variable((2, 3), need_grad=True)
assert x.parent is None and x.d.shape == x.g.shape == (2, 3)
x.d = np.random.randn(2, 3)
y = F.sum(F.relu(x) * 2 + x[:, ::-1])
assert y.parent.name == "Sum" and y.shape == ()
y.forward()
x.grad.zero()
y.backward()
np.testing.assert_allclose(x.g, 1 + 2.0 * (x.d > 0))
y.backward()
np.testing.assert_allclose(x.g, 2 + 4.0 * (x.d > 0))

# A graph is cut by need_grad or unlinked.
h = F.tanh(x)
leaf = h.unlinked()
assert leaf.parent is None and leaf.data == h.data
z = F.sum(leaf * leaf)
z.forward()
h.need_grad = False
assert not F.exp(h).need_grad

# The axes of scalars, NumPy numbers and keyword names are those of NNabla.
v = nn.Variable.from_numpy_array(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
for made, expected in (
    (2 - v, 2 - v.d),
    (v / np.float32(4), v.d / 4),
    (2**v, 2**v.d),
    (v[1, ..., np.newaxis, 2:], v.d[1, ..., np.newaxis, 2:]),
    (F.max(v, axis=(1, 2), keepdims=True), v.d.max((1, 2), keepdims=True)),
    (F.transpose(v, (2, 0, 1)), v.d.transpose(2, 0, 1)),
    (F.reshape(v, (6, -1)), v.d.reshape(6, 4)),
    (F.concatenate(v, v, axis=1), np.concatenate([v.d, v.d], 1)),
    (F.stack(*F.split(v, axis=1), axis=1), v.d),
):
    made.forward()
    np.testing.assert_allclose(made.d, expected, rtol=1e-5)

# Parameters live in scopes.
with nn.parameter_scope("outer"):
    PF.affine(nn.Variable((1, 4)), 5, name="inner")
assert list(nn.get_parameters())[:2] == ["outer/inner/affine/W", "outer/inner/affine/b"]
solver = S.Sgd(1e-3)
solver.set_parameters(nn.get_parameters())
assert abs(solver.learning_rate() - 1e-3) < 1e-9
nn.clear_parameters()
assert not nn.get_parameters()

# Contexts and extensions.
ctx = get_extension_context("cpu", type_config="half")
assert ctx.backend[0] == "cpu:half" and ctx.array_class in nn.array_classes()
with nn.context_scope(ctx):
    assert nn.get_current_context().backend == ctx.backend
assert extension_context("cpu").backend == ["cpu:float"]
assert "cpu" in list_extensions() and "cpu" in nn.available_contexts
assert nnabla_ext.cpu.get_device_count() == len(nnabla_ext.cpu.get_devices()) >= 1
extension = import_extension_module("cpu")
extension.device_synchronize("0")
extension.clear_memory_cache()
print("done: all as NNabla has it")
