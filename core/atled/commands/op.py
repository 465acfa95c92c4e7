"""Show what there is to know of an op: spec, docstring, formula, gradients, the text of its function, backends.

The op is given by the name of its spec (Convolution, ConvolutionDataGrad, ELUGradX) or of its function (convolution,
F.relu). Ops that a module of your own defines are known once it is imported: --import names it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atled.ops.spec import OpSpec

_PARTS = ("spec", "doc", "formula", "gradients", "text", "backends")
_NEAREST = 5  # names that are offered in place of an unknown one
_PROPERTIES = ("random", "views", "copies", "recomputable", "opaque")
_EXAMPLES = """\
examples:
  python -m atled op convolution
  python -m atled op ELUGradX --part formula --part gradients
  python -m atled op SoftClip --import my_ops
  python -m atled op F.relu --json
"""

# Any: values of JSON, throughout this module.
Values = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `op`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("name", metavar="NAME", help="an op spec or a function")
    parser.add_argument(
        "--part", action="append", choices=_PARTS, help="show this part only; may be given several times"
    )
    parser.add_argument(
        "--import", action="append", default=[], dest="modules", metavar="MODULE", help="import it first"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Describe the op; the exit status."""
    from atled.generators.op_description import describe_op

    for module in arguments.modules:
        _import(module)
    parts = [part for part in _PARTS if part in (arguments.part or _PARTS)]
    description = describe_op(_found(arguments.name), parts)
    if arguments.json:
        import json

        print(json.dumps(description, indent=2))
        return 0
    print(_title(description))
    for part in parts:
        print(f"\n{part}")
        if part == "text" and description[part]:
            _print_code(description[part])
        else:
            for line in _SHOWN[part](description[part]):
                print(f"    {line}".rstrip())
    return 0


def _import(module: str) -> None:
    import importlib

    from atled.errors import CommandError, four_parts, in_words

    sys.path.insert(0, "")  # as `python -m` has it: modules in the folder where the user is
    try:
        importlib.import_module(module)
    except ImportError as error:
        asked = f"--import {module}"
        raise CommandError(
            four_parts(asked, in_words(error), "", "name a module that Python finds from here")
        ) from error
    finally:
        sys.path.remove("")


def _found(name: str) -> OpSpec:
    """The spec of a name as the user gave it; CommandError with the nearest names."""
    from atled.calling.composites import __all__ as composites
    from atled.errors import CommandError, four_parts
    from atled.ops.own import spec_of
    from atled.ops.spec import FUNCTIONS

    bare = name.removeprefix("atled.functions.").removeprefix("F.")
    if bare in composites:
        wrong = f"it is made of several ops and has no spec; help(atled.functions.{bare}) describes it"
        raise CommandError(
            four_parts(f"op {name}", wrong, "", "name one of the ops, such as those that nn.trace() shows")
        )
    if bare in FUNCTIONS:
        return FUNCTIONS[bare]
    try:
        spec = spec_of(bare)
    except LookupError as error:
        raise CommandError(_unknown(name, bare)) from error
    if spec.removed:
        raise CommandError(_unknown(name, bare))
    return spec


def _unknown(name: str, bare: str) -> str:
    import difflib

    from atled.errors import four_parts, listing
    from atled.generators.catalogue import all_specs
    from atled.ops.spec import FUNCTIONS, SPECS

    all_specs()  # which makes the first gradients of elementwise ops
    ops = [op for op, spec in SPECS.items() if not spec.removed]
    # relu and ReLU are both names: the later one is offered, in the case that was typed.
    known = {known.lower(): known for known in ([*ops, *FUNCTIONS] if bare.islower() else [*FUNCTIONS, *ops])}
    near = [known[match] for match in difflib.get_close_matches(bare.lower(), list(known), n=_NEAREST)]
    return four_parts(
        f"op {name}",
        "there is no op spec and no function of this name",
        f"{len(known)} names; nearest: {listing(near)}",
        f"try python -m atled op {near[0]}" if near else "docs/functions lists all functions",
    )


# --- text -------------------------------------------------------------------------------------------------------------


def _print_code(code: str) -> None:
    """Python code; in colour on a terminal where rich is installed."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console  # optional, and only for people
            from rich.syntax import Syntax
        except ImportError:
            pass  # without it the text is the same in black and white
        else:
            console = Console()
            if not console.no_color:
                console.print(Syntax(code, "python", theme="ansi_dark", background_color="default"), soft_wrap=True)
                return
    print(code, end="")


def _title(description: Values) -> str:
    function = f" (F.{description['function']})" if description["function"] else ""
    return f"{description['op']}{function}, {description['category']}, defined in {description['module']}"


def _spec(spec: Values) -> Iterator[str]:
    if spec["signature"]:
        yield spec["signature"]
    yield f"version {spec['version']}, dtypes {', '.join(spec['dtypes'])}"
    for x in spec["inputs"]:
        flags = "".join(f", {flag}" for flag in ("optional", "variadic") if x[flag])
        yield f"input      {x['name']}: {x['kind']}{flags}, gradient {x['gradient']}"
    for item in spec["attributes"]:
        yield f"attribute  {_attribute(item)}"
    for name in spec["outputs"]:
        notes = [title for title in ("auxiliary", "saved") if name in spec[title]]
        if name in spec["inplace"]:
            notes.append(f"in the memory of {spec['inplace'][name]}")
        yield f"output     {name}{''.join(f', {note}' for note in notes)}"
    properties = [name for name in _PROPERTIES if spec[name]]
    if spec["mutates"]:
        properties.append(f"mutates {', '.join(spec['mutates'])}")
    if properties:
        yield f"properties {', '.join(properties)}"


def _attribute(item: Values) -> str:
    name = item["name"] if item["argument"] == item["name"] else f"{item['name']} (argument {item['argument']})"
    default = "required" if item["required"] else f"default {item['default']}"
    choices = f", one of {', '.join(item['choices'])}" if item["choices"] else ""
    return f"{name}: {item['kind']}, {default}{choices}{', set by the engine' if item['hidden'] else ''}"


def _formula(formulas: Values | None) -> Iterator[str]:
    if formulas is None:
        yield "none: it is not elementwise"
    else:
        yield from (f"{name} = {formula}" for name, formula in formulas.items())


def _gradients(gradients: Values) -> Iterator[str]:
    yield gradients["in words"]
    if gradients["rule"] == "none":
        yield "It has no gradient rule: backward through it is an error."
    for name, formula in gradients.get("formulas", {}).items():
        yield f"gradient of {name}: {formula or 'none'}"
    if gradients.get("error"):
        yield f"The rule fails on {gradients['sample']}: {gradients['error']}"
    elif gradients.get("nodes"):
        yield f"Composed for {gradients['sample']}:"
        yield from (f"    {node}" for node in gradients["nodes"])
    elif "nodes" in gradients and gradients["sample"] is None:
        yield "It has no samples, for which the rule could be run."


def _backends(backends: Sequence[Values]) -> Iterator[str]:
    for entry in backends:
        state = "" if entry["state"] == "usable" else f", {entry['state']} here"
        if entry["error"]:
            yield f"plugin {entry['plugin']}{state}: it cannot be asked: {entry['error']}"
            continue
        yield f"{entry['backend']} (plugin {entry['plugin']}{state})"
        for type_config, notes in entry["type_configs"].items():
            yield f"    {type_config:<8}{', '.join(notes)}"
        if not entry["type_configs"]:
            yield "    computes none of the samples"
        for type_config, reason in entry["refused"].items():
            yield f"    {type_config:<8}refused, such as {reason}"


_SHOWN: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "spec": _spec,
    "doc": str.splitlines,
    "formula": _formula,
    "gradients": _gradients,
    "text": lambda text: ["none: it is not a function of its own"],
    "backends": _backends,
}
