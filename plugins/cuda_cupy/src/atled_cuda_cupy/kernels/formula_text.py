"""Kernels of formulas as CUDA C: packs of elements are loaded, computed and stored at once, then what is left."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from atled.plugin import CUDA, Name, Program, write_c_hoisted
from atled_cuda_cupy.compiling import STORED_TYPES, template
from atled_cuda_cupy.kernels.broadcasting import Pattern


def compute_type(program: Program, dtypes: Sequence[str]) -> str:
    """What a formula is computed in: double where an input is that or no input is a float."""
    floats = [dtype for dtype in dtypes[: len(program.inputs)] if "float" in dtype]
    return "float" if floats and "float64" not in floats else "double"


_DTYPES = {"float": "float32", "double": "float64"}

# Read where the driver puts them: the compiler else copies what is indexed at run time into a thread's local memory.
_OF_LAUNCH = "const __grid_constant__ Floats floats", "const __grid_constant__ Words words"


@functools.lru_cache(maxsize=4096)
def formula_text(program: Program, dtypes: tuple[str, ...], pattern: Pattern, heeds: bool, compute: str = "") -> str:
    """The kernel `formula` over arrays that broadcast; dtypes: of inputs, then outputs.

    It takes inputs, outputs, the flag if it heeds that. compute: the dtype to compute in, if the operands do not tell.
    """
    writer = _Writer(program, dtypes, pattern, compute)
    declared = [f"{kind} *{name}" for kind, name in zip(writer.types, writer.names, strict=True)]
    inputs = [f"const {item}" for item in declared[: writer.count]]
    parameters = [*inputs, *declared[writer.count :], *["const long long *flag"] * heeds]
    ones = [
        f"const {kind} one{n} = {name}[0];"
        for n, (kind, name) in enumerate(zip(writer.types, writer.names, strict=True))
        if pattern.kinds[n] == "one"
    ]
    body = [
        *["if (*flag) return;"] * heeds,
        "const index_t size = words.w[0];",
        writer.uniforms("{}"),
        *ones,
        f"const index_t packs = {writer.are_aligned()} ? size / PACK : 0;",
        "EACH(pack, packs) {",
        *writer.pack("pack * PACK"),
        "}",
        "EACH(rest, size - packs * PACK) {",
        *writer.single("packs * PACK + rest"),
        "}",
    ]
    return writer.kernel("formula", parameters, body)


@functools.lru_cache(maxsize=1024)
def group_text(
    program: Program,
    dtypes: tuple[str, ...],
    pack: int,
    members: int,
    places: tuple[int, ...],
    heeds: bool,
    compute: str = "",
) -> str:
    """The kernel `group`, for calls of one formula whose arrays have all the same size in each call.

    It takes a table with the arrays of each member, and the flag if it heeds that. Words: elements per block; of each
    member, a power of two of them, the size; its first block, one that is never reached for those that are not there.
    Floats: of each member.

    places: of the outputs among the arrays of a member, behind its inputs, or one of these.
    compute: the dtype to compute in, if the operands do not tell.
    """
    count = len(program.inputs)
    writer = _Writer(program, dtypes, Pattern(("full",) * len(dtypes), 0, pack, False), compute)
    pointers = [
        f"{'const ' if n < count else ''}{kind} *{name} = ({kind} *)members.at[member][{place}];"
        for n, (kind, name, place) in enumerate(zip(writer.types, writer.names, (*range(count), *places), strict=True))
    ]
    body = [
        *["if (*flag) return;"] * heeds,
        "int member = 0;",
        f"for (int step = {members // 2}; step; step /= 2)",
        f"    if (words.w[{1 + members} + member + step] <= (int)blockIdx.x) member += step;",
        *pointers,
        writer.uniforms(f"member * {len(program.attributes)} + {{}}"),
        f"const index_t begin = ((int)blockIdx.x - words.w[{1 + members} + member]) * words.w[0];",
        "const index_t size = min(words.w[0], words.w[1 + member] - begin);",
        f"const index_t packs = {writer.are_aligned()} ? size / PACK : 0;",
        "for (index_t pack = threadIdx.x; pack < packs; pack += blockDim.x) {",
        *writer.pack("begin + pack * PACK"),
        "}",
        "for (index_t rest = packs * PACK + threadIdx.x; rest < size; rest += blockDim.x) {",
        *writer.single("begin + rest"),
        "}",
    ]
    parameters = ["const __grid_constant__ Members members", *["const long long *flag"] * heeds]
    declared = f"struct Members {{\n    void *at[{members}][{max(count, *(place + 1 for place in places))}];\n}};"
    return writer.kernel("group", parameters, body, declared)


class _Writer:
    """Writes what is done with elements.

    types, names: of all operands.  count: of inputs.  compute: the dtype computed in.  real: its type.
    """

    def __init__(self, program: Program, dtypes: Sequence[str], pattern: Pattern, compute: str) -> None:
        self.program = program
        self.pattern = pattern
        self.is_told = bool(compute)
        self.compute = compute or _DTYPES[compute_type(program, dtypes)]
        self.real = CUDA.wholes.get(self.compute, STORED_TYPES[self.compute])
        self.types = [STORED_TYPES[dtype] for dtype in dtypes]
        self.names = [*(f"in_{x}" for x in program.inputs), *(f"out_{y}" for y in program.output_names)]
        self.count = len(program.inputs)
        self.is_copy = all(isinstance(y, Name) and y.id in program.inputs for y in program.expressions)

    def kernel(self, name: str, parameters: Iterable[str], body: Iterable[str], declared: str = "") -> str:
        """The whole text."""
        formula = "" if self.is_copy else self._formula()
        given = ", ".join((*parameters, *_OF_LAUNCH))
        head = (template("elementwise"), f"#define PACK {self.pattern.pack}", declared, formula, self._places())
        kernel = (f'extern "C" __global__ void {name}({given}) {{', *(f"    {line}" for line in body), "}", "")
        return "\n".join((*filter(None, head), *kernel))

    def _formula(self) -> str:
        real = self.compute if self.compute in CUDA.wholes else self.real
        return write_c_hoisted(self.program, "compute", real=real, dialect=CUDA)

    def uniforms(self, place: str) -> str:
        """What follows from attributes alone, once per thread; place: of a float among those of the launch."""
        floats = ", ".join(f"number(floats, {place.format(n)})" for n in range(len(self.program.attributes)))
        return "" if self.is_copy else f"const compute_uniforms u = compute_prepare({floats});"

    def are_aligned(self) -> str:
        """Whether packs can be read and written."""
        checks = (
            f"is_aligned<{self.types[n]}, PACK>({self.names[n]})" for n in range(len(self.names)) if self._is_packed(n)
        )
        return " && ".join(checks) or "true"

    def pack(self, start: str) -> list[str]:
        """What is done with a pack."""
        outputs = range(self.count, len(self.names))
        per_element = self.pattern.per_element
        lines = [f"const index_t start = {start};", *([] if per_element else self._placing("start"))]
        lines += [line for n in range(self.count) if (line := self._read(n))]
        packed = [n for n in outputs if self._is_packed(n)]
        lines += [f"Pack<{self.types[n]}, PACK> y{n};" for n in packed]
        each = self._placing("start + k") if per_element else []
        stored = [f"y{n}.at[k]" if n in packed else self._one_of_pack(n) for n in outputs]
        each += self._element([self._loaded(n) for n in range(self.count)], stored)
        lines += ["#pragma unroll", "for (int k = 0; k < PACK; k++) {", *(f"    {line}" for line in each), "}"]
        lines += [f"write_pack({self.names[n]} + {self._start(n)}, y{n});" for n in packed]
        return [f"    {line}" for line in lines]

    def single(self, at: str) -> list[str]:
        """What is done with one element."""
        kinds = self.pattern.kinds
        places = [f"{name}[{'at' if kinds[n] == 'full' else f'at{n}'}]" for n, name in enumerate(self.names)]
        loaded = [f"one{n}" if kinds[n] == "one" else places[n] for n in range(self.count)]
        stored = places[self.count :]
        lines = [f"const index_t at = {at};", *self._placing("at"), *self._element(loaded, stored)]
        return [f"    {line}" for line in lines]

    def _is_packed(self, n: int) -> bool:
        kind = self.pattern.kinds[n]
        return kind == "full" or (kind == "row" and not self.pattern.per_element)

    def _read(self, n: int) -> str:
        """What reads an operand for a whole pack; nothing where it is read before, or per element."""
        kind, name, element = self.pattern.kinds[n], self.names[n], self.types[n]
        if self._is_packed(n):
            return f"const Pack<{element}, PACK> x{n} = read_pack<{element}, PACK>({name} + {self._start(n)});"
        if kind == "column" and not self.pattern.per_element:
            return f"const {element} x{n} = {name}[at{n}];"
        return ""

    def _loaded(self, n: int) -> str:
        """Element k of a pack of an operand."""
        if self._is_packed(n):
            return f"x{n}.at[k]"
        if self.pattern.kinds[n] == "one":
            return f"one{n}"
        if self.pattern.per_element or self.pattern.kinds[n] == "strided":
            return self._one_of_pack(n)
        return f"x{n}"

    def _start(self, n: int) -> str:
        """Where a pack of an operand begins."""
        return "start" if self.pattern.kinds[n] == "full" else f"at{n}"

    def _one_of_pack(self, n: int) -> str:
        """Element k of a pack, where that is."""
        if self.pattern.per_element:
            return f"{self.names[n]}[at{n}]"
        return f"{self.names[n]}[at{n} + k * words.w[{self._step(n)}]]"

    def _step(self, n: int) -> int:
        """The word with the inner stride of a strided operand."""
        pattern = self.pattern
        return 4 + 3 * (pattern.rank - 1) + len(pattern.placed) * pattern.rank + pattern.strided.index(n)

    def _element(self, loaded: Sequence[str], stored: Sequence[str]) -> list[str]:
        """One element; loaded: expressions of elements.  stored: what is assigned to."""
        results = [f"value{n}" for n in range(len(stored))]
        lines = []
        if not self.is_copy:
            numbers = [f"({self.real})load({x})" for x in loaded]
            if self.is_told:
                stored_as = STORED_TYPES[self.compute]
                of = [f"Copied<{stored_as}, {kind}>::of" for kind in self.types[: self.count]]
                numbers = [f"({self.real}){cast}({x})" for cast, x in zip(of, loaded, strict=True)]
            lines = [
                f"{self.real} {', '.join(results)};",
                f"compute({', '.join((*numbers, 'u', *(f'&{y}' for y in results)))});",
            ]
        for n, expression in enumerate(self.program.expressions):
            kind = self.types[self.count + n]
            if isinstance(expression, Name) and expression.id in self.program.inputs:
                source = self.program.inputs.index(expression.id)  # keeps whole numbers that `real` does not hold
                results[n] = f"Copied<{kind}, {self.types[source]}>::of({loaded[source]})"
                if len(stored) > 1:  # before any store: an output may be an input
                    lines.append(f"const {kind} copied{n} = {results[n]};")
                    results[n] = f"copied{n}"
            else:
                results[n] = f"Element<{kind}>::of({results[n]})"
        return lines + [f"{place} = {result};" for place, result in zip(stored, results, strict=True)]

    def _placing(self, at: str) -> list[str]:
        """Variables with the places of rows and columns for an element."""
        names = ", ".join(f"at{n}" for n in self.pattern.placed)
        return [f"index_t {names};", f"places(words, {at}, {names});"] if names else []

    def _places(self) -> str:
        """The function that finds them."""
        placed, rank = self.pattern.placed, self.pattern.rank
        if not placed:
            return ""
        results = "".join(f", index_t &at{n}" for n in placed)
        lines = [
            f"static __device__ __forceinline__ void places(const Words &words, index_t at{results}) {{",
            "    index_t outer = quotient(at, words.w[2], words.w[3]);",
            *(f"    at{n} = {self._along(n)};" for n in placed),
        ]
        for axis in range(rank - 1):
            size = 4 + 3 * axis
            lines.append(f"    index_t next{axis} = quotient(outer, words.w[{size + 1}], words.w[{size + 2}]);")
            lines += self._steps(axis, f"(outer - next{axis} * words.w[{size}])")
            lines.append(f"    outer = next{axis};")
        return "\n".join((*lines, *self._steps(rank - 1, "outer"), "}"))

    def _along(self, n: int) -> str:
        """How far along the inner axis an operand is."""
        kind = self.pattern.kinds[n]
        if kind == "column":
            return "0"
        place = "at - outer * words.w[1]"
        return place if kind == "row" else f"({place}) * words.w[{self._step(n)}]"

    def _steps(self, axis: int, place: str) -> Iterable[str]:
        """Moves along an outer axis, counted from the innermost."""
        rank = self.pattern.rank
        first = 4 + 3 * (rank - 1)
        return [
            f"    at{n} += {place} * words.w[{first + order * rank + axis}];"
            for order, n in enumerate(self.pattern.placed)
        ]
