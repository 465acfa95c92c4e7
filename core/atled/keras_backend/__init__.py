"""A Keras-style functional backend: `import atled.keras_backend as B`, where programs had one that stood on Theano."""

from __future__ import annotations

from typing import Any as _Any

from atled.keras_backend.compiling.function import function as function
from atled.keras_backend.functions.arrangement import arange as arange
from atled.keras_backend.functions.arrangement import concatenate as concatenate
from atled.keras_backend.functions.arrangement import flatten as flatten
from atled.keras_backend.functions.arrangement import one_hot as one_hot
from atled.keras_backend.functions.arrangement import permute_dimensions as permute_dimensions
from atled.keras_backend.functions.arrangement import repeat as repeat
from atled.keras_backend.functions.arrangement import repeat_elements as repeat_elements
from atled.keras_backend.functions.arrangement import reshape as reshape
from atled.keras_backend.functions.arrangement import reverse as reverse
from atled.keras_backend.functions.arrangement import squeeze as squeeze
from atled.keras_backend.functions.arrangement import stack as stack
from atled.keras_backend.functions.arrangement import tile as tile
from atled.keras_backend.functions.arrangement import transpose as transpose
from atled.keras_backend.functions.comparison import allclose as allclose
from atled.keras_backend.functions.comparison import equal as equal
from atled.keras_backend.functions.comparison import greater as greater
from atled.keras_backend.functions.comparison import greater_equal as greater_equal
from atled.keras_backend.functions.comparison import less as less
from atled.keras_backend.functions.comparison import less_equal as less_equal
from atled.keras_backend.functions.comparison import not_equal as not_equal
from atled.keras_backend.functions.elementwise import abs as abs
from atled.keras_backend.functions.elementwise import cast as cast
from atled.keras_backend.functions.elementwise import clip as clip
from atled.keras_backend.functions.elementwise import cos as cos
from atled.keras_backend.functions.elementwise import exp as exp
from atled.keras_backend.functions.elementwise import log as log
from atled.keras_backend.functions.elementwise import maximum as maximum
from atled.keras_backend.functions.elementwise import minimum as minimum
from atled.keras_backend.functions.elementwise import pow as pow
from atled.keras_backend.functions.elementwise import round as round
from atled.keras_backend.functions.elementwise import sigmoid as sigmoid
from atled.keras_backend.functions.elementwise import sign as sign
from atled.keras_backend.functions.elementwise import sin as sin
from atled.keras_backend.functions.elementwise import sqrt as sqrt
from atled.keras_backend.functions.elementwise import square as square
from atled.keras_backend.functions.graph import gradients as gradients
from atled.keras_backend.functions.graph import ifelse as ifelse
from atled.keras_backend.functions.graph import stop_gradient as stop_gradient
from atled.keras_backend.functions.inspection import dtype as dtype
from atled.keras_backend.functions.inspection import ndim as ndim
from atled.keras_backend.functions.inspection import shape as shape
from atled.keras_backend.functions.matrices import diag as diag
from atled.keras_backend.functions.matrices import dot as dot
from atled.keras_backend.functions.matrices import fill_diagonal as fill_diagonal
from atled.keras_backend.functions.matrices import solve as solve
from atled.keras_backend.functions.matrices import svd as svd
from atled.keras_backend.functions.reduction import all as all
from atled.keras_backend.functions.reduction import any as any
from atled.keras_backend.functions.reduction import argmax as argmax
from atled.keras_backend.functions.reduction import argmin as argmin
from atled.keras_backend.functions.reduction import cumprod as cumprod
from atled.keras_backend.functions.reduction import cumsum as cumsum
from atled.keras_backend.functions.reduction import logdiffexp as logdiffexp
from atled.keras_backend.functions.reduction import logsumexp as logsumexp
from atled.keras_backend.functions.reduction import max as max
from atled.keras_backend.functions.reduction import mean as mean
from atled.keras_backend.functions.reduction import min as min
from atled.keras_backend.functions.reduction import prod as prod
from atled.keras_backend.functions.reduction import std as std
from atled.keras_backend.functions.reduction import sum as sum
from atled.keras_backend.functions.reduction import var as var
from atled.keras_backend.functions.values import batch_get_value as batch_get_value
from atled.keras_backend.functions.values import batch_set_value as batch_set_value
from atled.keras_backend.functions.values import eval as eval
from atled.keras_backend.functions.values import get_value as get_value
from atled.keras_backend.functions.values import get_variable_shape as get_variable_shape
from atled.keras_backend.functions.values import set_value as set_value
from atled.keras_backend.functions.variables import eye as eye
from atled.keras_backend.functions.variables import ones as ones
from atled.keras_backend.functions.variables import ones_like as ones_like
from atled.keras_backend.functions.variables import placeholder as placeholder
from atled.keras_backend.functions.variables import variable as variable
from atled.keras_backend.functions.variables import zeros as zeros
from atled.keras_backend.functions.variables import zeros_like as zeros_like
from atled.keras_backend.loops.scan import scan as scan
from atled.keras_backend.loops.until import until as until
from atled.keras_backend.random.functions import make_rng as make_rng
from atled.keras_backend.random.functions import random_binomial as random_binomial
from atled.keras_backend.random.functions import random_normal as random_normal
from atled.keras_backend.random.functions import random_uniform as random_uniform
from atled.keras_backend.random.streams import RandomStreams as RandomStreams
from atled.keras_backend.settings import backend as backend
from atled.keras_backend.settings import cast_to_floatx as cast_to_floatx
from atled.keras_backend.settings import epsilon as epsilon
from atled.keras_backend.settings import floatx as floatx
from atled.keras_backend.settings import intx as intx
from atled.keras_backend.settings import set_epsilon as set_epsilon
from atled.keras_backend.settings import set_floatx as set_floatx
from atled.keras_backend.settings import set_intx as set_intx
from atled.keras_backend.settings import settings as settings


def __getattr__(name: str) -> _Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from atled.later_keras import no_such_function  # here, because names are seldom missing

    known = [each for each, found in globals().items() if callable(found) and not each.startswith("_")]
    raise no_such_function(__name__, name, known)
