"""All functions that code of formulas computes by itself, by the type in which it computes."""

from __future__ import annotations

from collections.abc import Callable

from atled.ops.formula_llvm_angles import ANGLES, QUICK_ANGLES
from atled.ops.formula_llvm_circular import CIRCULAR
from atled.ops.formula_llvm_circular_double import CIRCULAR_DOUBLE
from atled.ops.formula_llvm_double import DOUBLE_FUNCTIONS
from atled.ops.formula_llvm_erf import ERF
from atled.ops.formula_llvm_math import DOUBLE, FLOAT, FLOAT_FUNCTIONS
from atled.ops.formula_llvm_powers import POWERS, QUICK_POWERS

# Functions of which most arguments need little code: the quick form also says whether it is right (i1, 1 if not).
# A piece of a row with an argument for which it is not is computed again by the whole form, which gives all the other
# elements the bits that the quick one gives: they must not depend on where shares begin.
QUICK: dict[str, Callable[..., tuple[str, str]]] = QUICK_ANGLES | QUICK_POWERS
WHOLE: dict[str, dict[str, Callable[..., str]]] = {
    FLOAT: FLOAT_FUNCTIONS | CIRCULAR | ANGLES | ERF | POWERS,
    DOUBLE: DOUBLE_FUNCTIONS | CIRCULAR_DOUBLE | ANGLES | ERF | POWERS,
}
