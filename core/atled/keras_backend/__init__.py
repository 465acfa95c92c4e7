"""A Keras-style functional backend: `import atled.keras_backend as B`, where programs had one that stood on Theano."""

from __future__ import annotations

from atled.keras_backend.compiling.function import function as function
from atled.keras_backend.functions.elementwise import exp as exp
from atled.keras_backend.functions.elementwise import sigmoid as sigmoid
from atled.keras_backend.functions.graph import gradients as gradients
from atled.keras_backend.functions.graph import ifelse as ifelse
from atled.keras_backend.functions.graph import stop_gradient as stop_gradient
from atled.keras_backend.functions.reduction import sum as sum
from atled.keras_backend.functions.variables import placeholder as placeholder
from atled.keras_backend.functions.variables import variable as variable
from atled.keras_backend.settings import backend as backend
from atled.keras_backend.settings import cast_to_floatx as cast_to_floatx
from atled.keras_backend.settings import epsilon as epsilon
from atled.keras_backend.settings import floatx as floatx
from atled.keras_backend.settings import intx as intx
from atled.keras_backend.settings import set_epsilon as set_epsilon
from atled.keras_backend.settings import set_floatx as set_floatx
from atled.keras_backend.settings import set_intx as set_intx
from atled.keras_backend.settings import settings as settings
