"""Every op with a scalar formula, every fused chain of them, casts, copies and fills: CUDA C written from the formula."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.plugin import (
    CUDA,
    ArrayDesc,
    Call,
    Implementation,
    Name,
    Prepared,
    Program,
    Registrar,
    op_spec,
    plan_layout,
    write_c_hoisted,
)
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import Device, device
from atled_cuda_cupy.kernels.division import divisor
from atled_cuda_cupy.launching import Launch, queued

_COPY, _FILL = Program(("x",), (), (("y", "x"),)), Program((), ("val",), (("y", "val"),))
_THREADS = 256
_WAVES = 4  # blocks per place for one: few enough that what is done once per thread costs nothing
_NARROW = 2**31 - 2**24  # from here on an index and the step of a grid are too large for 32 bits
_PACK_BYTES = 16
_MOST_ELEMENTS = 8  # of a pack: each has its copy of the formula


def register(registrar: Registrar) -> None:
    """Hand over the family."""
    registrar.family("cuda", provide)


def provide(op: str) -> Implementation | None:
    """The implementation of any op that has a formula or copies; None for other ops."""
    spec = op_spec(op)
    if spec.program is None and not spec.copies and op not in ("Cast", "Constant"):
        return None
    return Implementation(
        op,
        "cuda",
        prepare,
        accepts=accepts,
        note="formula",
        op_version=None,
        fuses=op not in ("Cast", "Constant"),
        casts=True,
    )


def accepts(call: Call) -> bool | str:
    """True for the dtypes that kernels have a type for, else the reason."""
    for desc in (*call.inputs, *call.outputs):
        if desc is not None and not has_type(desc):
            return f"kernels have no type for {desc.dtype}"
    return True


def program_of(call: Call) -> Program:
    """The formula of a call; those that copy, cast and fill have one as well."""
    return call.spec.program or (_COPY if call.inputs else _FILL)


def prepare(call: Call) -> Prepared:
    """Have the call's formula compiled, for its dtypes and the way in which its operands broadcast."""
    heeds = bool(call.spec.inplace)
    operands = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    launch = launch_formula(device(call.device_id), program_of(call), operands, heeds=heeds)
    return queued(call, lambda *arrays: [(launch, arrays, 0)], heeds_failure=heeds)


def launch_formula(where: Device, program: Program, operands: Sequence[ArrayDesc], *, heeds: bool = False) -> Launch:
    """A formula over arrays that broadcast: it is given inputs, outputs, the flag if it heeds that; floats.

    operands: inputs, then outputs.
    """
    plan = Broadcasting(program, [desc.shape for desc in operands], [desc.dtype.itemsize for desc in operands])
    source = formula_text(program, tuple(desc.dtype.name for desc in operands), plan.key, heeds)
    count = plan.size if plan.per_element else -(-plan.size // plan.pack)
    return Launch(
        where,
        source,
        "formula",
        grid_size(where, count),
        _THREADS,
        plan.words,
        floats=len(program.attributes),
        wide=plan.is_wide,
    )


def grid_size(where: Device, items: int) -> int:
    """Blocks for so many pieces of work, each for a thread at a time."""
    places = where.multiprocessors * (2048 // _THREADS)
    return min(-(-items // _THREADS), _WAVES * places)


class Broadcasting:
    """How the operands of a formula lie: what its kernel depends on, and what it is told when it is launched.

    kinds: of each operand: "full", an element for each of the result; "one" for all; "row", one for each place on the
        inner axis, and "column", one for all of them, each with strides along the outer axes.
    rank: count of outer axes.  pack: elements that are computed at once.
    per_element: whether packs do not fit into the inner axis, so that rows and columns are looked up for each element.
    size: of the results.  words: of the kernel: size, then length of the inner axis with its divisor, size and divisor of
        the outer axes but the outermost one, innermost first, then strides of rows and columns in the same order.
    """

    def __init__(self, program: Program, shapes: Sequence[tuple[int, ...]], itemsizes: Sequence[int]) -> None:
        # Only shapes and strides matter here; a copy may write any dtype.
        layout, words, _, _ = plan_layout(program, shapes, ["float32"] * len(shapes))
        rank = layout.rank
        length = int(words[layout.length_word])
        sizes = [int(size) for size in words[layout.first_size : layout.first_size + rank]]
        table = words[layout.first_stride : layout.first_stride + len(shapes) * rank]
        strides = [[int(stride) for stride in row] for row in table.reshape(len(shapes), rank)]
        full = [length * math.prod(sizes[axis + 1 :]) for axis in range(rank)]
        self.rank = rank
        self.size = length * math.prod(sizes)
        self.kinds = tuple(
            _kind(inner, outer, full) for inner, outer in zip(layout.inner_strides, strides, strict=True)
        )
        packed = [size for size, kind in zip(itemsizes, self.kinds, strict=True) if kind in ("full", "row")]
        broadcast = [n for n, kind in enumerate(self.kinds) if kind in ("row", "column")]
        self.pack, self.per_element = _pack(min(packed), length if broadcast else 0)
        self.is_wide = self.size >= _NARROW
        self.words = [self.size]
        if broadcast:
            self.words += [length, *divisor(length, self.is_wide)]
            for size in sizes[:0:-1]:
                self.words += [size, *divisor(size, self.is_wide)]
            self.words += [stride for n in broadcast for stride in strides[n][::-1]]

    @property
    def key(self) -> tuple[tuple[str, ...], int, int, bool]:
        """What the text of the kernel depends on."""
        return self.kinds, self.rank, self.pack, self.per_element


def _pack(itemsize: int, length: int) -> tuple[int, bool]:
    """How many elements make a pack, and whether such packs do not fit into an inner axis of that length."""
    largest = pack = min(_PACK_BYTES // itemsize, _MOST_ELEMENTS)
    while length % pack:
        pack //= 2
    return (largest, True) if pack * itemsize < _PACK_BYTES // 2 else (pack, False)


def _kind(inner: int, outer: Sequence[int], full: Sequence[int]) -> str:
    if inner and list(outer) == list(full):
        return "full"
    if not inner and not any(outer):
        return "one"
    return "row" if inner else "column"


def compute_type(program: Program, dtypes: Sequence[str]) -> str:
    """What a formula is computed in: double where an input is that or no input is a float."""
    floats = [dtype for dtype in dtypes[: len(program.inputs)] if "float" in dtype]
    return "float" if floats and "float64" not in floats else "double"


@functools.lru_cache(maxsize=4096)
def formula_text(
    program: Program, dtypes: tuple[str, ...], key: tuple[tuple[str, ...], int, int, bool], heeds: bool
) -> str:
    """The kernel of a formula: for each pack, and then for each element that is left, loads, formula and stores."""
    return template("elementwise") + _Writer(program, dtypes, key, heeds).text()


class ElementWriter:
    """Writes what is done with elements: operands as numbers, the formula, results as elements."""

    def __init__(self, program: Program, dtypes: Sequence[str]) -> None:
        self.program = program
        self.real = compute_type(program, dtypes)
        self.types = [type_names(dtype)[0] for dtype in dtypes]
        self.inputs = [f"in_{x}" for x in program.inputs]
        self.outputs = [f"out_{y}" for y in program.output_names]
        self.names = [*self.inputs, *self.outputs]
        self.is_copy = not program.attributes and all(isinstance(y, Name) for y in program.expressions)

    def formula(self) -> str:
        """The functions of scalars."""
        return "" if self.is_copy else write_c_hoisted(self.program, "compute", real=self.real, dialect=CUDA)

    def uniforms(self, first: str) -> str:
        """What follows from attributes alone, once per thread; first: expression for the number of the first one."""
        values = ", ".join(f"number(floats, {first}{n})" for n in range(len(self.program.attributes)))
        return "" if self.is_copy else f"const compute_uniforms u = compute_prepare({values});"

    def element(self, loaded: Sequence[str], stored: Sequence[str]) -> list[str]:
        """One element: loaded are expressions of elements, stored what is assigned to."""
        types = dict(zip(self.names, self.types, strict=True))
        found = dict(zip(self.inputs, loaded, strict=True))
        lines = []
        if not self.is_copy:
            results = [f"y{n}" for n in range(len(self.outputs))]
            arguments = [f"({self.real})load({x})" for x in loaded] + ["u"] + [f"&{y}" for y in results]
            lines = [f"{self.real} {', '.join(results)};", f"compute({', '.join(arguments)});"]
        for n, (expression, target) in enumerate(zip(self.program.expressions, stored, strict=True)):
            kind = types[self.outputs[n]]
            if isinstance(expression, Name) and f"in_{expression.id}" in found:
                source = f"in_{expression.id}"  # keeps whole numbers that the real type does not hold
                lines.append(f"{target} = Copied<{kind}, {types[source]}>::of({found[source]});")
            else:
                lines.append(f"{target} = Element<{kind}>::of(y{n});")
        return lines


class _Writer:
    """Writes the kernel of a formula over arrays that broadcast."""

    def __init__(
        self, program: Program, dtypes: Sequence[str], key: tuple[tuple[str, ...], int, int, bool], heeds: bool
    ) -> None:
        self.element = ElementWriter(program, dtypes)
        self.kinds, self.rank, self.pack, self.per_element = key
        self.heeds = heeds
        self.placed = [n for n, kind in enumerate(self.kinds) if kind in ("row", "column")]

    def text(self) -> str:
        """All of it."""
        of, count = self.element, len(self.element.inputs)
        parameters = [
            f"{'const ' if n < count else ''}{kind} *{name}"
            for n, (kind, name) in enumerate(zip(of.types, of.names, strict=True))
        ]
        parameters += ["const long long *flag"] * self.heeds + ["const Floats floats", "const Words words"]
        lines = [f'extern "C" __global__ void formula({", ".join(parameters)}) {{']
        lines += ["    if (*flag) return;"] * self.heeds
        lines += ["    const index_t size = words.w[0];", f"    {of.uniforms('')}"]
        lines += [
            f"    const {of.types[n]} one{n} = {of.names[n]}[0];" for n, kind in enumerate(self.kinds) if kind == "one"
        ]
        body = self._packs() + self._elements("packs * PACK")
        if self.pack == 1:
            body = self._elements("0")
        return "\n".join(
            (f"#define PACK {self.pack}", of.formula(), self._places(), *lines, *(f"    {line}" for line in body), "}\n")
        )

    def _places(self) -> str:
        """The function that says where rows and columns are for an element."""
        if not self.placed:
            return ""
        lines = [
            f"static __device__ __forceinline__ void places(const Words &words, index_t at"
            f"{''.join(f', index_t &at{n}' for n in self.placed)}) {{",
            "    index_t outer = quotient(at, words.w[2], words.w[3]);",
        ]
        lines += [
            f"    at{n} = {'at - outer * words.w[1]' if self.kinds[n] == 'row' else '0'};" for n in self.placed
        ]
        first_stride = 4 + 3 * max(self.rank - 1, 0)
        for axis in range(self.rank):
            is_outermost = axis == self.rank - 1
            place = "outer"
            if not is_outermost:
                size = 4 + 3 * axis
                lines.append(f"    index_t next{axis} = quotient(outer, words.w[{size + 1}], words.w[{size + 2}]);")
                lines.append(f"    index_t place{axis} = outer - next{axis} * words.w[{size}];")
                place = f"place{axis}"
            lines += [
                f"    at{n} += {place} * words.w[{first_stride + order * self.rank + axis}];"
                for order, n in enumerate(self.placed)
            ]
            if not is_outermost:
                lines.append(f"    outer = next{axis};")
        return "\n".join((*lines, "}"))

    def _placing(self, at: str) -> list[str]:
        """Variables with the places of rows and columns."""
        if not self.placed:
            return []
        names = ", ".join(f"at{n}" for n in self.placed)
        return [f"index_t {names};", f"places(words, {at}, {names});"]

    def _packs(self) -> list[str]:
        """Packs of neighbouring elements, as far as all arrays are aligned."""
        of, count = self.element, len(self.element.inputs)
        whole = ("full",) if self.per_element else ("full", "row")
        packed = [n for n, kind in enumerate(self.kinds) if kind in whole]
        aligned = " && ".join(f"is_aligned<{of.types[n]}, PACK>({of.names[n]})" for n in packed)
        lines = [f"const index_t packs = {aligned} ? size / PACK : 0;", "EACH(pack, packs) {"]
        inner = ["const index_t start = pack * PACK;"]
        loaded = []
        if not self.per_element:
            inner += self._placing("start")
        for n in range(count):
            kind = self.kinds[n]
            if n in packed:
                at = "start" if kind == "full" else f"at{n}"
                inner.append(f"const Pack<{of.types[n]}, PACK> x{n} = read_pack<{of.types[n]}, PACK>({of.names[n]} + {at});")
                loaded.append(f"x{n}.at[k]")
            elif kind == "one":
                loaded.append(f"one{n}")
            elif self.per_element:
                loaded.append(f"{of.names[n]}[at{n}]")
            else:
                inner.append(f"const {of.types[n]} x{n} = {of.names[n]}[at{n}];")
                loaded.append(f"x{n}")
        outputs = range(count, len(of.names))
        inner += [f"Pack<{of.types[n]}, PACK> r{n};" for n in outputs]
        inner += ["#pragma unroll", "for (int k = 0; k < PACK; k++) {"]
        each = self._placing("start + k") if self.per_element else []
        each += of.element(loaded, [f"r{n}.at[k]" for n in outputs])
        inner += [f"    {line}" for line in each] + ["}"]
        inner += [f"write_pack({of.names[n]} + start, r{n});" for n in outputs]
        return [*lines, *(f"    {line}" for line in inner), "}"]

    def _elements(self, start: str) -> list[str]:
        """One element after the other: those behind the last pack, or all."""
        of, count = self.element, len(self.element.inputs)
        places = {"full": "[at]", "one": "", "row": "[at{}]", "column": "[at{}]"}
        loaded = [
            f"one{n}" if self.kinds[n] == "one" else of.names[n] + places[self.kinds[n]].format(n) for n in range(count)
        ]
        inner = [*self._placing("at"), *of.element(loaded, [f"{name}[at]" for name in of.outputs])]
        lines = [f"EACH(rest, size - {start}) {{", f"    const index_t at = {start} + rest;"]
        return [*lines, *(f"    {line}" for line in inner), "}"]
