"""Type configs as dtypes: what the inputs of a call are cast to, and how exact its results are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from atled.dtypes import epsilon, float_dtype
from atled.errors import four_parts
from atled_contexts import TypeConfig, check_type_configs, type_config, when_plugins_change

TF32 = "tf32"
_TF32_EPSILON = 2.0**-10  # of the factors of products; NVIDIA A100 whitepaper, 2020, "TF32"

_DTYPES: dict[str, tuple[np.dtype[Any], np.dtype[Any]]] = {}
"""What was found, by name of a type config; a plugin that comes may bring other ones."""

when_plugins_change(_DTYPES.clear)


def compute_dtype(name: str) -> np.dtype[Any]:
    """The dtype that "compute" inputs are cast to under a type config; errors as of `declared` and `float_dtype`."""
    return _found(name)[0]


def precise_dtype(name: str) -> np.dtype[Any]:
    """The dtype that "precise" inputs are cast to under a type config."""
    return _found(name)[1]


def _found(name: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    found = _DTYPES.get(name)
    if found is None:
        config = declared(name)
        found = _DTYPES[name] = float_dtype(config.dtype), float_dtype(config.precise)
    return found


def declared(name: str) -> TypeConfig:
    """What a name means; ValueError where nothing says it."""
    config = type_config(name)
    if config is None:
        raise ValueError(
            four_parts(
                f"type config {name!r}",
                "no usable plugin says its dtypes",
                "",
                f"use another one, or have the plugin declare it: TypeConfig({name!r}, DTYPE)",
            )
        )
    return config


_STANDARD = {"float16": "half", "bfloat16": "bf16", "float32": "float", "float64": "double"}


def standard_config(dtype: np.dtype) -> str:
    """The type config that computes in a floating-point dtype; ValueError where there is none."""
    found = _STANDARD.get(dtype.name)
    if found is None:
        known = ", ".join(_STANDARD)
        raise ValueError(four_parts(f"computing in {dtype}", "no type config does", f"known: {known}", "cast first"))
    return found


def computable(names: Iterable[str]) -> list[str]:
    """Those of some type configs whose dtypes are known and can be had here."""
    return [name for name in names if (config := type_config(name)) is not None and _why_missing(config) is None]


def require(name: str, asked: str) -> None:
    """ValueError, with the remedy, where the dtypes of a type config are not known or cannot be had here."""
    config = declared(name)
    wrong, remedy = _why_missing(config) or ("", "")
    if wrong:
        raise ValueError(four_parts(asked, wrong, "", remedy))


def how_computed(name: str, products: bool) -> str:
    """How a type config computes a call; "" where all is of one dtype.  products: whether the op sums products."""
    config = declared(name)
    parts = [f"{config.dtype} arrays"]
    if config.precise != config.dtype:
        parts.append(f"sums and precise inputs in {config.precise}")
    if products and config.precision != config.precise:
        parts.append(f"factors of products in {config.precision}")
    return f"{name}: {', '.join(parts)}" if len(parts) > 1 else ""


def allowed_error(tolerance: Mapping[str, float], name: str, products: bool) -> float:
    """The relative error that an op allows under a type config.

    tolerance: by name of a dtype (`OpSpec.tolerance`).  products: whether factors of its products may be rounded.
    """
    config = declared(name)
    error = error_of(tolerance, config.dtype)
    return max(error, error_of(tolerance, config.precision)) if products else error


def error_of(tolerance: Mapping[str, float], precision: str) -> float:
    """The relative error that an op allows for a dtype or "tf32"; in proportion to that of float16 if it says none."""
    if precision in tolerance:
        return tolerance[precision]
    step = _TF32_EPSILON if precision == TF32 else epsilon(float_dtype(precision))
    return tolerance["float16"] * step / epsilon(np.dtype(np.float16))


def _why_missing(config: TypeConfig) -> tuple[str, str] | None:
    """Why dtypes of a type config cannot be had, and what to do."""
    rounded = () if config.precision == TF32 else (config.precision,)
    for name in (config.dtype, config.precise, *rounded):
        try:
            float_dtype(name)
        except ImportError as error:
            return f"type config {config.name!r} needs ml_dtypes: {error.__cause__}", 'pip install "atled[bf16]"'
        except ValueError as error:
            wrong = str(error).splitlines()[0]
            return (
                f"type config {config.name!r} has {wrong}",
                "mend the plugin that declares it, or use another type config",
            )
    return None


check_type_configs(_why_missing)
