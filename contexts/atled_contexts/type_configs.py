"""Type configs: in which dtypes a backend computes what a Context names as `backend:type_config`."""

from __future__ import annotations

from collections.abc import Callable

from atled_contexts.errors import message

_WIDE = ("float32", "float64")  # what nothing is widened from to compute in it


class TypeConfig:
    """How calls of one type config compute. A backend declares those it offers; a name means the same everywhere.

        BackendInfo("mine", ("float", "bf16", TypeConfig("fp8", "float8_e5m2")))

    dtype: name of the dtype that the inputs of a call are cast to, NumPy's or one of ml_dtypes; so arrays are stored.
    precise: the same for inputs that lose by being rounded at each call, such as running statistics, and for what
        solvers keep; "": `dtype`, or float32 where that is narrower.
    precision: to what the factors may be rounded where an op sums products, such as a convolution: the name of a
        dtype, or "tf32" (10 bits of mantissa, as tensor cores take them); "": `precise`, which is not at all. Sums, and
        all else that is computed, are in `precise`.
    """

    __slots__ = ("dtype", "name", "precise", "precision")

    def __init__(self, name: str, dtype: str, *, precise: str = "", precision: str = "") -> None:
        for field, value in {"name": name, "dtype": dtype, "precise": precise, "precision": precision}.items():
            if not isinstance(value, str):
                wrong = f"{field} is {type(value).__name__}, not a string"
                raise TypeError(message(f"TypeConfig({name!r})", wrong, "", "write names of dtypes, as in 'float16'"))
        self.name = name
        self.dtype = dtype
        self.precise = precise or (dtype if dtype in _WIDE else "float32")
        self.precision = precision or self.precise

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeConfig) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @property
    def _values(self) -> tuple[str, ...]:
        return self.name, self.dtype, self.precise, self.precision

    def __repr__(self) -> str:
        return f"TypeConfig({self.name!r}, {self.dtype!r}, precise={self.precise!r}, precision={self.precision!r})"


STANDARD = {
    config.name: config
    for config in (
        TypeConfig("float", "float32"),
        TypeConfig("half", "float16"),
        TypeConfig("double", "float64"),
        TypeConfig("bf16", "bfloat16"),
        TypeConfig("tf32", "float32", precision="tf32"),
    )
}
"""Those that a backend offers by naming them."""

Missing = tuple[str, str]
_why_missing: Callable[[TypeConfig], Missing | None] | None = None


def check_type_configs(why_missing: Callable[[TypeConfig], Missing | None]) -> None:
    """Have Contexts refused whose type config cannot be had, for the reason and with the remedy that are given.

    None means that it can. To be called once, before the first Context is made.
    """
    global _why_missing
    _why_missing = why_missing


def why_missing(config: TypeConfig) -> Missing | None:
    """Why the dtypes of a type config cannot be had here, and what to do; None where they can."""
    return None if _why_missing is None else _why_missing(config)
