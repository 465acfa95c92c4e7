"""Ops that a script or another package defines: how they enter the tables, give way to new definitions, and leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import count
from keyword import iskeyword
from typing import Any, NoReturn

from atled.errors import did_you_mean, four_parts, listing
from atled.ops.elementwise import Elementwise, derived_spec
from atled.ops.formula import CONDITION, FormulaError
from atled.ops.spec import FUNCTIONS, SPECS, OpSpec, register
from atled_contexts import lock_across_forks

_COMMON = ("n_outputs", "outputs", "using")  # arguments that every function has
_SHARED = ("y", "gy")  # what formulas of gradients call the output and its gradient

OWN: dict[str, OpSpec] = {}
"""The ops from outside of the library by the names in their definitions, of which the last one counts."""

_lock = lock_across_forks()


def admit(spec: OpSpec, *, replace: bool) -> None:
    """Check an op from outside the library and enter it into the tables; ValueError, with nothing changed, else.

    The op of a second definition has a number in its name, `SoftClip_2`: graphs and functions made with the first
    definition go on with that.
    """
    with _lock:
        title = spec.name
        _check(spec)
        earlier = OWN.get(title)
        if earlier is not None and not (replace and earlier.module == spec.module):
            _refuse_twice(spec, earlier, replace)
        if earlier is None and _is_of_library(title):
            _refuse(spec, "the library has an op of this name", "", "choose another name")
        _check_function(spec, earlier)
        if title in SPECS:
            spec.name = next(name for n in count(2) if (name := f"{title}_{n}") not in SPECS)
        if spec.function:
            _check_text(spec, title)
        if earlier is not None:
            _remove(title)
        register(spec)
        OWN[title] = spec


def remove(op: Any) -> None:
    """See `atled.op_spec.undefine`."""
    with _lock:
        spec = spec_of(op)
        title = next((title for title, own in OWN.items() if own is spec), None)
        if title is None:
            asked = f"undefine({spec.name})"
            if spec.is_library:
                raise ValueError(four_parts(asked, "it is an op of the library", "", "undefine ops of your own only"))
            raise ValueError(four_parts(asked, "it is not defined any more", f"defined: {listing(OWN)}", "leave it"))
        _remove(title)


def _remove(title: str) -> None:
    spec = OWN.pop(title)
    spec.removed = True
    # The spec stays in SPECS: graphs that hold it find their gradients there.
    FUNCTIONS.pop(spec.function, None)


def spec_of(op: Any) -> OpSpec:
    """The spec of an op, given by its name, its class or its function; LookupError, TypeError."""
    if isinstance(op, OpSpec):
        return op
    if isinstance(op, type) and issubclass(op, OpSpec):
        found = next((spec for spec in SPECS.values() if type(spec) is op), None)
        if found is None:
            raise LookupError(four_parts(op.__name__, "the class is abstract", "", "give one that defines an op"))
        return found
    if isinstance(op, str):
        return OWN.get(op) or derived_spec(op)
    spec = getattr(op, "spec", None)
    if not isinstance(spec, OpSpec):
        asked = f"the op {op!r}"
        raise TypeError(four_parts(asked, "that is none", "", "give an op's name, its class or its function"))
    return spec


# --- what is checked --------------------------------------------------------------------------------------------


def _refuse(spec: OpSpec, wrong: str, considered: str, remedy: str) -> NoReturn:
    raise ValueError(four_parts(f"the op {spec.name}, defined in {spec.module}", wrong, considered, remedy))


def _refuse_twice(spec: OpSpec, earlier: OpSpec, replace: bool) -> NoReturn:
    if earlier.module != spec.module:
        considered = "replace=True replaces ops of the same module only" if replace else ""
        _refuse(spec, f"{earlier.module} defines an op of this name", considered, "choose another name")
    _refuse(
        spec,
        "it is defined already",
        "",
        f'pass replace=True where a definition may run again, as in a notebook; undefine("{spec.name}") removes it',
    )


def _is_of_library(title: str) -> bool:
    try:
        return not derived_spec(title).removed
    except LookupError:
        return False


def _check(spec: OpSpec) -> None:
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", spec.name):
        _refuse(spec, "that is no name of an op", "", "use letters and digits, beginning with a capital: SoftClip")
    if not spec.doc.strip():
        _refuse(spec, "it has no docstring", "", "say in a line what it computes")
    names = [*(item.name for item in spec.inputs), *(item.name for item in spec.attributes)]
    arguments = [item.argument for item in spec.attributes if not item.hidden]
    _check_names(spec, names, _SHARED if isinstance(spec, Elementwise) else ())
    _check_names(spec, [*(item.name for item in spec.inputs), *arguments], _COMMON)
    if isinstance(spec, Elementwise):
        _check_formulas(spec)
        return
    for needed in ("infer", "reference"):
        if getattr(type(spec), needed) is getattr(OpSpec, needed):
            _refuse(spec, f"it has no {needed}", "", f"define {needed}(self, {', '.join(names)})")


def _check_names(spec: OpSpec, names: Iterable[str], taken: Iterable[str]) -> None:
    seen = set(taken)
    for name in names:
        if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
            _refuse(spec, f"{name!r} is no name of an argument", "", "use a Python name that begins with a letter")
        if name in seen:
            twice = f"{name!r} is taken" if name in taken else f"there are two arguments {name!r}"
            _refuse(spec, twice, f"taken: {', '.join(taken)}" if name in taken else "", "choose another name")
        seen.add(name)


def _check_formulas(spec: Elementwise) -> None:
    """Read all formulas, which otherwise happens when they are needed."""
    assert spec.program is not None
    known = [*_SHARED, *spec.program.inputs, *spec.program.attributes]
    try:
        _ = spec.program.expressions
        for wrt, text in spec.row.gradients.items():
            formula = spec.gradient_formula(wrt)
            if formula is None:
                continue
            if formula.kind == CONDITION:
                _refuse(spec, f"the gradient {text} is a condition", "", "use where(c, 1, 0)")
            unknown = sorted(formula.names.difference(known))
            if unknown:
                what = f"the gradient {text} uses {', '.join(unknown)}"
                _refuse(spec, what, f"known: {', '.join(known)}", did_you_mean(unknown[0], known, "use known names"))
    except FormulaError as error:
        raise ValueError(
            four_parts(f"the op {spec.name}, defined in {spec.module}", str(error), "", "mend the formula")
        ) from error


def _check_function(spec: OpSpec, earlier: OpSpec | None) -> None:
    import atled.functions  # which is made of these tables

    name = spec.function
    if not name or (earlier is not None and earlier.function == name):
        return
    if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
        _refuse(spec, f"{name!r} is no name of a function", "", "use a Python name that begins with a letter")
    if name in FUNCTIONS or name in dir(atled.functions):
        owner = FUNCTIONS.get(name)
        whose = "the library's" if owner is None or owner.is_library else f"that of {owner.name} in {owner.module}"
        _refuse(spec, f"the function {name} is {whose}", "", "choose another name for the function")


def _check_text(spec: OpSpec, title: str) -> None:
    from atled.calling.function_text import source  # as above

    try:
        compile(source(spec), f"<{title}>", "exec")
    except SyntaxError as error:
        _refuse(spec, f"its arguments make no signature: {error.msg}", "", "give defaults to the last attributes")


def function_of(op: Any) -> Callable[..., Any]:
    """See `atled.op_spec.function_of`."""
    from atled.calling.function_text import FUNCTIONS as MADE  # as above

    spec = spec_of(op)
    if not spec.function:
        asked = f"function_of({spec.name})"
        raise ValueError(four_parts(asked, "the op has none", "", 'say function = "name" in its definition'))
    return MADE[spec.name]
