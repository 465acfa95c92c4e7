"""The names of Keras-style backends: the modules of one, and what other backends of this style have beside."""

from __future__ import annotations

from atled.compat.library import Library
from atled.errors import four_parts
from atled.later_keras import INSTEAD, LATER

NATURAL_BM = "natural_bm.backend"
"""The name that programs import such a backend by, unless another one is said."""

_MODULES = ("common", "numpy_backend", "theano_backend")


def keras_style(name: str) -> Library:
    """The table for programs that import the backend by a name, such as "keras.backend".

    ValueError: a name that no module can have, or one of atled's own.
    """
    parts = name.split(".")
    is_name = all(part.isidentifier() for part in parts)
    if not is_name or parts[0] in ("atled", "atled_contexts"):
        wrong = "it is the name of atled itself" if is_name else "no module can have this name"
        remedy = f"give what programs import, such as {NATURAL_BM} or keras.backend"
        raise ValueError(four_parts(f"a Keras-style backend by the name {name!r}", wrong, "", remedy))
    return Library(
        title=name,
        name=name,
        drop_in="atled.compat.keras_backend",
        version="",
        modules={
            name: "atled.keras_backend",
            **{f"{name}.{module}": f"atled.keras_backend.{module}" for module in _MODULES},
        },
        absent={
            **{f"{name}.{each}": (LATER, remedy) for each, remedy in INSTEAD.items()},
            f"{name}.load_backend": ("this backend is atled's, and is not chosen", "import the backend itself"),
            f"{name}.tensorflow_backend": ("this backend is atled's", "import the backend itself"),
            f"{name}.cntk_backend": ("this backend is atled's", "import the backend itself"),
        },
    )
