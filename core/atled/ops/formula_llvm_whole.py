"""LLVM IR of arithmetic on integers and truth values, and of their conversions to and from floats, as NumPy does them.

Sums and products are modulo the range of the dtype. Of truth values `+` is or, `*` is and.
"""

from __future__ import annotations

from atled.ops.formula_llvm_math import DOUBLE, Code, constant

WHOLE_TYPES = {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"bool": "i8"}
"""By dtype the type of one element in memory, which is that of its values, too; a bool is 0 or 1."""

_PREDICATES = {"olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge"}


class Whole:
    """Arithmetic on one dtype of integers, or on bool, appended to a `Code`; values are IR names or literals.

    dtype: its name.  type: of IR.
    """

    def __init__(self, code: Code, dtype: str) -> None:
        self.code = code
        self.dtype = dtype
        self.type = WHOLE_TYPES[dtype]
        self._is_signed = dtype.startswith("int")

    def literal(self, value: float) -> str:
        """The constant `value`, modulo the range."""
        return str(int(value != 0) if self.dtype == "bool" else int(value) % 2 ** int(self.type[1:]))

    def add(self, a: str, b: str) -> str:
        """The sum a + b."""
        return self.code.let(f"{'or' if self.dtype == 'bool' else 'add'} {self.type} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        """The difference a - b."""
        return self.code.let(f"sub {self.type} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        """The product a * b."""
        return self.code.let(f"{'and' if self.dtype == 'bool' else 'mul'} {self.type} {a}, {b}")

    def neg(self, a: str) -> str:
        """The negative of a."""
        return self.sub("0", a)

    def abs(self, a: str) -> str:
        """The absolute value of a; the least number of a signed dtype is its own."""
        return self.select(self.compare("olt", a, "0"), self.neg(a), a) if self._is_signed else a

    def compare(self, predicate: str, a: str, b: str) -> str:
        """An i1; predicate as of `Real.compare`."""
        order = _PREDICATES.get(predicate)
        sign = "s" if self._is_signed else "u"
        wanted = f"{sign}{order}" if order else {"oeq": "eq", "une": "ne"}[predicate]
        return self.code.let(f"icmp {wanted} {self.type} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        """`a` where the condition holds, else `b`."""
        return self.code.let(f"select i1 {condition}, {self.type} {a}, {self.type} {b}")

    def from_whole(self, value: str, dtype: str) -> str:
        """A value of another dtype of integers, or of bool, modulo the range."""
        given = WHOLE_TYPES[dtype]
        if self.dtype == "bool" and dtype != "bool":
            return self.from_condition(self.code.let(f"icmp ne {given} {value}, 0"))
        have, want = int(given[1:]), int(self.type[1:])
        if have == want:
            return value
        how = "trunc" if want < have else "sext" if dtype.startswith("int") else "zext"
        return self.code.let(f"{how} {given} {value} to {self.type}")

    def from_condition(self, value: str) -> str:
        """1 or 0 for an i1."""
        return self.code.let(f"zext i1 {value} to {self.type}")

    def from_attribute(self, value: str) -> str:
        """A run-time attribute, a float64 that holds a whole number."""
        if self.dtype == "bool":
            return self.from_real(value, DOUBLE)
        return self.from_whole(self.code.let(f"fptosi {DOUBLE} {value} to i64"), "int64")

    def from_real(self, value: str, real: str) -> str:
        """A float of type `real`, cut off; what the dtype does not hold comes out as on most processors."""
        let = self.code.let
        if self.dtype == "bool":
            return self.from_condition(let(f"fcmp une {real} {value}, {constant(real, 0.0)}"))
        if self.dtype == "uint64":
            # Negative ones are taken modulo the range, too.
            large = let(f"fcmp oge {real} {value}, {constant(real, 2.0**63)}")
            parts = let(f"fptosi {real} {value} to i64"), let(f"fptoui {real} {value} to i64")
            return let(f"select i1 {large}, i64 {parts[1]}, i64 {parts[0]}")
        # By way of a wider one, so that numbers beyond the range are taken modulo it: as processors convert.
        way = "i64" if self.dtype in ("uint32", "int64") else "i32"
        whole = let(f"fptosi {real} {value} to {way}")
        return whole if way == self.type else let(f"trunc {way} {whole} to {self.type}")

    def to_real(self, value: str, real: str) -> str:
        """The value as a float of type `real`."""
        return self.code.let(f"{'s' if self._is_signed else 'u'}itofp {self.type} {value} to {real}")
