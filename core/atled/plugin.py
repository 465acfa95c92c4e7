"""The plugin API: everything that a plugin for a device, or for faster ops, may import from atled.

A plugin is an object with the hooks marked by `hookimpl`, named by an entry point of group `atled.plugins`. What is
here keeps its meaning within one major number of `API_VERSION`; what is not here may change at any time.

    identity        PluginInfo, BackendInfo, TypeConfig, API_VERSION, Usable, Unusable, Context, Warming, hookimpl
    registration    Registrar, Implementation, adopt_reference, reference_run, FallbackEvent, reload_plugins
    computing       Call, ArrayDesc, Prepared, Native, Pack, RANGE_BLOCK_WORDS, op_spec,
                    shift_sources
    executors       RowWord, FormWord, RangeWord: the words of what they run; call_form; LoopWord, LoopRowWord,
                    FixupWord, MoveWord, PatchWord, LOOP_ERRORS, LoopBlock: of loops, for those with `loop_kernel`;
                    TogetherWord, ApartWord, ApartRowWord, ApartPatchWord: for those with `abreast_kernels`;
                    InlineWord, InlineEntryWord, InlineResultWord, InlineObjectWord: for those with `inline_call`
    preparation     report_preparation, is_preparation_watched, await_imports, lock_across_forks
    memory          ArrayClass, register_cache; is_float, is_narrow: of dtypes, bfloat16 included
    formulas        Program, Name, Apply, postorder, parse_formula, FormulaError; write_c, write_c_hoisted with C99,
                    CUDA, OPENCL, Dialect; write_attached_c, Stored; write_llvm; compile_numpy;
                    compile_formula, FormulaWalk;
                    write_stream_c: a step of a random stream;
                    plan_layout, Layout, LayoutPlan, INPUT_DTYPES, OUTPUT_DTYPES, FORMULA_DTYPES, has_powers
    ops of its own  all names of `atled.op_spec`: define, Row, OpSpec, Input, Attribute, Sample, ...
    settings        declare_setting, setting, parse_bool, parse_choice, parse_int, parse_names, parse_text, SettingError
    messages        four_parts, did_you_mean, listing, nearest; DeviceLostError, OutOfMemoryError

Importing it is quick; what writes formulas is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from atled.array_desc import ArrayDesc
from atled.arrays.place import ArrayClass
from atled.call import RANGE_BLOCK_WORDS, Call, FormWord, Native, Pack, Prepared, RangeWord, RowWord, call_form
from atled.dtypes import is_float, is_narrow
from atled.errors import DeviceLostError, OutOfMemoryError, did_you_mean, four_parts, listing, nearest
from atled.limits.caches import register_cache
from atled.loop_words import (
    LOOP_ERRORS,
    ApartPatchWord,
    ApartRowWord,
    ApartWord,
    FixupWord,
    LoopRowWord,
    LoopWord,
    MoveWord,
    PatchWord,
    TogetherWord,
)
from atled.named_tuple import NamedTuple
from atled.reference import adopt_reference, reference_run
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    Context,
    FallbackEvent,
    Implementation,
    PluginInfo,
    Registrar,
    SettingError,
    TypeConfig,
    Unusable,
    Usable,
    Warming,
    await_imports,
    declare_setting,
    hookimpl,
    is_preparation_watched,
    lock_across_forks,
    parse_bool,
    parse_choice,
    parse_int,
    parse_names,
    parse_text,
    reload_plugins,
    report_preparation,
    setting,
)

if TYPE_CHECKING:
    from atled.attached_c import Stored, write_attached_c
    from atled.inline_words import InlineEntryWord, InlineObjectWord, InlineResultWord, InlineWord
    from atled.loop_block import LoopBlock
    from atled.op_spec import (
        DERIVED,
        REQUIRED,
        Attribute,
        Away,
        Distinct,
        Exact,
        GradientCall,
        Grid,
        Input,
        Ints,
        IRValue,
        Normal,
        OpSpec,
        Refused,
        Row,
        Sample,
        Uniform,
        away,
        define,
        function_of,
        grid,
        undefine,
        within,
    )
    from atled.ops.formula import Apply, FormulaError, Name, Program, has_powers, parse_formula, postorder
    from atled.ops.formula_c import C99, CUDA, OPENCL, Dialect, write_c, write_c_hoisted
    from atled.ops.formula_layout import FORMULA_DTYPES, INPUT_DTYPES, OUTPUT_DTYPES, Layout, LayoutPlan, plan_layout
    from atled.ops.formula_llvm import write_llvm
    from atled.ops.formula_numpy import compile_numpy
    from atled.ops.formula_walk import FormulaWalk, compile_formula
    from atled.ops.mrg31k3p_c import write_stream_c
    from atled.ops.shifting import shift_sources

_MODULES = {
    "ops.formula": ("Apply", "FormulaError", "Name", "Program", "has_powers", "parse_formula", "postorder"),
    "attached_c": ("Stored", "write_attached_c"),
    "inline_words": ("InlineEntryWord", "InlineObjectWord", "InlineResultWord", "InlineWord"),
    "loop_block": ("LoopBlock",),
    "ops.formula_c": ("C99", "CUDA", "Dialect", "OPENCL", "write_c", "write_c_hoisted"),
    "ops.formula_layout": ("FORMULA_DTYPES", "INPUT_DTYPES", "Layout", "LayoutPlan", "OUTPUT_DTYPES", "plan_layout"),
    "ops.formula_llvm": ("write_llvm",),
    "ops.formula_numpy": ("compile_numpy",),
    "ops.formula_walk": ("FormulaWalk", "compile_formula"),
    "ops.mrg31k3p_c": ("write_stream_c",),
    "ops.shifting": ("shift_sources",),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}
"""What is loaded when it is first asked for, and the module that it comes from; not the names of `atled.op_spec`."""


def op_spec(name: str) -> OpSpec:
    """The op spec of a name; gradients of elementwise ops, such as `ELUGradX`, are made from their formula.

    LookupError: there is no such op.
    """
    from atled.ops.elementwise import derived_spec  # the tables of ops; a plugin asks when the first op is looked for

    return derived_spec(name)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # All that is left are the names of ops of one's own.
    module = importlib.import_module(f"atled.{_LATER.get(name, 'op_spec')}")
    found = globals()[name] = getattr(module, name)
    return found


__all__ = [
    "API_VERSION",
    "C99",
    "CUDA",
    "DERIVED",
    "FORMULA_DTYPES",
    "INPUT_DTYPES",
    "LOOP_ERRORS",
    "OPENCL",
    "OUTPUT_DTYPES",
    "RANGE_BLOCK_WORDS",
    "REQUIRED",
    "ApartPatchWord",
    "ApartRowWord",
    "ApartWord",
    "Apply",
    "ArrayClass",
    "ArrayDesc",
    "Attribute",
    "Away",
    "BackendInfo",
    "Call",
    "Context",
    "DeviceLostError",
    "Dialect",
    "Distinct",
    "Exact",
    "FallbackEvent",
    "FixupWord",
    "FormWord",
    "FormulaError",
    "FormulaWalk",
    "GradientCall",
    "Grid",
    "IRValue",
    "Implementation",
    "InlineEntryWord",
    "InlineObjectWord",
    "InlineResultWord",
    "InlineWord",
    "Input",
    "Ints",
    "Layout",
    "LayoutPlan",
    "LoopBlock",
    "LoopRowWord",
    "LoopWord",
    "MoveWord",
    "Name",
    "NamedTuple",
    "Native",
    "Normal",
    "OpSpec",
    "OutOfMemoryError",
    "Pack",
    "PatchWord",
    "PluginInfo",
    "Prepared",
    "Program",
    "RangeWord",
    "Refused",
    "Registrar",
    "Row",
    "RowWord",
    "Sample",
    "SettingError",
    "Stored",
    "TogetherWord",
    "TypeConfig",
    "Uniform",
    "Unusable",
    "Usable",
    "Warming",
    "adopt_reference",
    "await_imports",
    "away",
    "call_form",
    "compile_formula",
    "compile_numpy",
    "declare_setting",
    "define",
    "did_you_mean",
    "four_parts",
    "function_of",
    "grid",
    "has_powers",
    "hookimpl",
    "is_float",
    "is_narrow",
    "is_preparation_watched",
    "listing",
    "lock_across_forks",
    "nearest",
    "op_spec",
    "parse_bool",
    "parse_choice",
    "parse_formula",
    "parse_int",
    "parse_names",
    "parse_text",
    "plan_layout",
    "postorder",
    "reference_run",
    "register_cache",
    "reload_plugins",
    "report_preparation",
    "setting",
    "shift_sources",
    "undefine",
    "within",
    "write_attached_c",
    "write_c",
    "write_c_hoisted",
    "write_llvm",
    "write_stream_c",
]


def __dir__() -> list[str]:
    return sorted(__all__)
