"""The settings under the module path that programs import them from: `atled.keras_backend.common`."""

from __future__ import annotations

from atled.keras_backend.settings import cast_to_floatx as cast_to_floatx
from atled.keras_backend.settings import epsilon as epsilon
from atled.keras_backend.settings import floatx as floatx
from atled.keras_backend.settings import intx as intx
from atled.keras_backend.settings import set_epsilon as set_epsilon
from atled.keras_backend.settings import set_floatx as set_floatx
from atled.keras_backend.settings import set_intx as set_intx
