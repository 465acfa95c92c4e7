"""All kernels that are written in this plugin."""

from __future__ import annotations

import importlib
import pkgutil

from atled_cpu_numba import kernels, matrix_unit, processor
from atled_cpu_numba.kernels.products.small_products import SMALL_PRODUCT
from atled_cpu_numba.store import IRKernel, Kernel, registered


def written_kernels() -> list[Kernel]:
    """The kernels of the folder `kernels` and those in it, by name; imports all of its modules."""
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)
    return sorted(registered(kernels.__path__[0]), key=lambda kernel: kernel.name)


def kernels_for(type_config: str) -> list[Kernel | IRKernel]:
    """Those that a type config can need, written as LLVM IR or not; `half` and `bf16` compute in float32."""
    dtype = "float64" if type_config == "double" else "float32"
    narrow = {"half": "float16", "bf16": "bfloat16"}.get(type_config)
    if narrow == "float16" and not processor.has_half_instructions():
        narrow = None  # LLVM would call functions that are not there
    others = {"float16", "bfloat16", "float32", "float64"} - {dtype, narrow}
    if not matrix_unit.multiplies_bf16():
        others.add("amx")
    needed: list[Kernel | IRKernel] = [
        kernel for kernel in written_kernels() if others.isdisjoint(map(str, kernel.parameters))
    ]
    return [*needed, SMALL_PRODUCT[dtype]]
