"""The plugin API: everything that a plugin for a device, or for faster ops, may import from atled.

A plugin is an object with the hooks marked by `hookimpl`, named by an entry point of group `atled.plugins`. What is
here keeps its meaning within one major number of `API_VERSION`; what is not here may change at any time.

    identity        PluginInfo, BackendInfo, API_VERSION, Usable, Unusable, Context, Warming, hookimpl
    registration    Registrar, Implementation, adopt_reference, FallbackEvent
    computing       Call, ArrayDesc, Prepared, Native, op_spec, report_preparation
    memory          ArrayClass, register_cache
    formulas        Program, Name; write_c with C99, CUDA, OPENCL, Dialect; write_llvm; compile_numpy;
                    compile_formula; plan_layout, Layout, LayoutPlan
    ops of its own  OpSpec, Row, define and what else `atled.op_spec` holds, which is of this API too
    settings        declare_setting, setting, parse_bool, parse_choice, parse_int, parse_names, parse_text
    messages        four_parts, did_you_mean, listing

Importing it is quick; what writes formulas is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from atled.array_desc import ArrayDesc
from atled.arrays.place import ArrayClass
from atled.call import Call, Native, Prepared
from atled.errors import did_you_mean, four_parts, listing
from atled.limits.caches import register_cache
from atled.reference import adopt_reference
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    Context,
    FallbackEvent,
    Implementation,
    PluginInfo,
    Registrar,
    Unusable,
    Usable,
    Warming,
    declare_setting,
    hookimpl,
    parse_bool,
    parse_choice,
    parse_int,
    parse_names,
    parse_text,
    report_preparation,
    setting,
)

if TYPE_CHECKING:
    from atled.ops.formula import Name, Program
    from atled.ops.formula_c import C99, CUDA, OPENCL, Dialect, write_c
    from atled.ops.formula_layout import Layout, LayoutPlan, plan_layout
    from atled.ops.formula_llvm import write_llvm
    from atled.ops.formula_numpy import compile_numpy
    from atled.ops.formula_walk import compile_formula
    from atled.ops.spec import OpSpec

_LATER = {
    "C99": "formula_c",
    "CUDA": "formula_c",
    "Dialect": "formula_c",
    "Layout": "formula_layout",
    "LayoutPlan": "formula_layout",
    "Name": "formula",
    "OPENCL": "formula_c",
    "OpSpec": "spec",
    "Program": "formula",
    "compile_formula": "formula_walk",
    "compile_numpy": "formula_numpy",
    "plan_layout": "formula_layout",
    "write_c": "formula_c",
    "write_llvm": "formula_llvm",
}
"""What is loaded when it is first asked for, and the module of `atled.ops` that it comes from."""


def op_spec(name: str) -> OpSpec:
    """The op spec of a name; gradients of elementwise ops, such as `ELUGradX`, are made from their formula.

    LookupError: there is no such op.
    """
    from atled.ops.elementwise import derived_spec  # the tables of ops; a plugin asks when the first op is looked for

    return derived_spec(name)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"atled.ops.{_LATER[name]}"), name)
    return found


__all__ = [
    "API_VERSION",
    "C99",
    "CUDA",
    "OPENCL",
    "ArrayClass",
    "ArrayDesc",
    "BackendInfo",
    "Call",
    "Context",
    "Dialect",
    "FallbackEvent",
    "Implementation",
    "Layout",
    "LayoutPlan",
    "Name",
    "Native",
    "OpSpec",
    "PluginInfo",
    "Prepared",
    "Program",
    "Registrar",
    "Unusable",
    "Usable",
    "Warming",
    "adopt_reference",
    "compile_formula",
    "compile_numpy",
    "declare_setting",
    "did_you_mean",
    "four_parts",
    "hookimpl",
    "listing",
    "op_spec",
    "parse_bool",
    "parse_choice",
    "parse_int",
    "parse_names",
    "parse_text",
    "plan_layout",
    "register_cache",
    "report_preparation",
    "setting",
    "write_c",
    "write_llvm",
]


def __dir__() -> list[str]:
    return sorted(__all__)
