"""The names of the backend on NumPy arrays, computed at once: to prepare data, and to test against."""

from __future__ import annotations

import atled.keras_backend as _faces
from atled.keras_backend import at_once as _at_once
from atled.keras_backend.at_once import make_rng as make_rng
from atled.keras_backend.at_once import random_binomial as random_binomial
from atled.keras_backend.at_once import random_normal as random_normal
from atled.keras_backend.at_once import random_uniform as random_uniform
from atled.keras_backend.settings import backend as backend
from atled.keras_backend.settings import cast_to_floatx as cast_to_floatx
from atled.keras_backend.settings import epsilon as epsilon
from atled.keras_backend.settings import floatx as floatx
from atled.keras_backend.settings import intx as intx
from atled.keras_backend.settings import set_epsilon as set_epsilon
from atled.keras_backend.settings import set_floatx as set_floatx
from atled.keras_backend.settings import set_intx as set_intx
from atled.keras_backend.settings import settings as settings

# Elementwise.
abs = _at_once.at_once(_faces.abs)
clip = _at_once.at_once(_faces.clip)
cos = _at_once.at_once(_faces.cos)
exp = _at_once.at_once(_faces.exp)
log = _at_once.at_once(_faces.log)
maximum = _at_once.at_once(_faces.maximum)
minimum = _at_once.at_once(_faces.minimum)
pow = _at_once.at_once(_faces.pow)
round = _at_once.at_once(_faces.round)
sigmoid = _at_once.at_once(_faces.sigmoid)
sign = _at_once.at_once(_faces.sign)
sin = _at_once.at_once(_faces.sin)
sqrt = _at_once.at_once(_faces.sqrt)
square = _at_once.at_once(_faces.square)

# Reduction.
all = _at_once.at_once(_faces.all)
any = _at_once.at_once(_faces.any)
argmax = _at_once.at_once(_faces.argmax)
argmin = _at_once.at_once(_faces.argmin)
cumprod = _at_once.at_once(_faces.cumprod)
cumsum = _at_once.at_once(_faces.cumsum)
logdiffexp = _at_once.at_once(_faces.logdiffexp)
logsumexp = _at_once.at_once(_faces.logsumexp)
max = _at_once.at_once(_faces.max)
mean = _at_once.at_once(_faces.mean)
min = _at_once.at_once(_faces.min)
prod = _at_once.at_once(_faces.prod)
std = _at_once.at_once(_faces.std)
sum = _at_once.at_once(_faces.sum)
var = _at_once.at_once(_faces.var)

# Misc.
allclose = _at_once.at_once(_faces.allclose)

# Shape.
arange = _at_once.at_once(_faces.arange)
concatenate = _at_once.at_once(_faces.concatenate)
flatten = _at_once.at_once(_faces.flatten)
one_hot = _at_once.at_once(_faces.one_hot)
permute_dimensions = _at_once.at_once(_faces.permute_dimensions)
repeat = _at_once.at_once(_faces.repeat)
repeat_elements = _at_once.at_once(_faces.repeat_elements)
reshape = _at_once.at_once(_faces.reshape)
reverse = _at_once.at_once(_faces.reverse)
squeeze = _at_once.at_once(_faces.squeeze)
stack = _at_once.at_once(_faces.stack)
tile = _at_once.at_once(_faces.tile)

# Variable.
cast = _at_once.at_once(_faces.cast)
eye = _at_once.at_once(_faces.eye)
ones = _at_once.at_once(_faces.ones)
ones_like = _at_once.at_once(_faces.ones_like)
variable = _at_once.at_once(_faces.variable)
zeros = _at_once.at_once(_faces.zeros)
zeros_like = _at_once.at_once(_faces.zeros_like)

# Linear algebra.
diag = _at_once.at_once(_faces.diag)
dot = _at_once.at_once(_faces.dot)
fill_diagonal = _at_once.at_once(_faces.fill_diagonal)
solve = _at_once.at_once(_faces.solve)
svd = _at_once.at_once(_faces.svd)
transpose = _at_once.at_once(_faces.transpose)

# Inspect.
dtype = _at_once.at_once(_faces.dtype)
ndim = _at_once.at_once(_faces.ndim)

# Comparison.
equal = _at_once.at_once(_faces.equal)
greater = _at_once.at_once(_faces.greater)
greater_equal = _at_once.at_once(_faces.greater_equal)
less = _at_once.at_once(_faces.less)
less_equal = _at_once.at_once(_faces.less_equal)
not_equal = _at_once.at_once(_faces.not_equal)

# What an array is already.
batch_get_value = _at_once.values_of
eval = _at_once.value_of
get_value = _at_once.value_of
get_variable_shape = _at_once.shape_of
ifelse = _at_once.chosen
shape = _at_once.shape_of

# What waits for values.
batch_set_value = _at_once.waits(_faces.batch_set_value, "write x[...] = value for each")
function = _at_once.waits(_faces.function, "call what computes directly")
gradients = _at_once.waits(_faces.gradients, "compare with finite differences")
placeholder = _at_once.waits(_faces.placeholder, "pass the array itself")
scan = _at_once.waits(_faces.scan, "write a loop of Python's")
set_value = _at_once.waits(_faces.set_value, "write x[...] = value")
stop_gradient = _at_once.waits(_faces.stop_gradient, "leave it out: there are no gradients")
until = _at_once.waits(_faces.until, "break out of the loop")
