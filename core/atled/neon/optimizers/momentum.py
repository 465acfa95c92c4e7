"""GradientDescentMomentum: steps along the gradient, or along a mean of the last ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.errors import four_parts
from atled.neon.optimizers.base import RuleOptimizer
from atled.neon.optimizers.checks import check_finite


class GradientDescentMomentum(RuleOptimizer):
    """`v = m * v - lr * (g + wdecay * p); p = p + v`, with one state v.

    nesterov: whether it looks ahead, `p = p + m * v - lr * (g + wdecay * p)` with the new v (Nesterov 1983).
    With momentum 0 there is no state: `p = (1 - lr * wdecay) * p - lr * g`.

    learning_rate: lr.  momentum_coef: m.  wdecay: decay of weights.  Others as of RuleOptimizer.
    ValueError: nesterov with momentum 0.
    """

    def __init__(
        self,
        learning_rate: float,
        momentum_coef: float,
        stochastic_round: Any = False,
        wdecay: float = 0.0,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        name: str | None = None,
        schedule: Any = None,
        nesterov: bool = False,
    ) -> None:
        super().__init__(
            name, learning_rate, stochastic_round, gradient_clip_norm, gradient_clip_value, param_clip_value, schedule
        )
        check_finite(self.classnm, momentum_coef=momentum_coef, wdecay=wdecay)
        self.momentum_coef = momentum_coef
        self.wdecay = wdecay
        self.nesterov = nesterov
        self._check_nesterov()

    def _check_nesterov(self) -> None:
        if self.nesterov and self.momentum_coef == 0:
            remedy = "give a momentum_coef, such as 0.9, or nesterov=False"
            asked = f"{self.classnm}(momentum_coef=0, nesterov=True)"
            raise ValueError(four_parts(asked, "without momentum there is nothing to look ahead for", "", remedy))

    @property
    def state_count(self) -> int:  # type: ignore[override]  # it depends on the momentum
        """1, or 0 without momentum."""
        return int(self.momentum_coef != 0)

    def numbers(self, epoch: int) -> dict[str, float]:
        """As of RuleOptimizer."""
        found, rate = super().numbers(epoch), self.rate(epoch)
        found["rate"] = rate
        if self.momentum_coef:
            found["nesterov" if self.nesterov else "momentum"] = float(self.momentum_coef)
            if self.wdecay:
                found["wdecay"] = float(self.wdecay)
        else:
            self._check_nesterov()
            if self.wdecay:
                found["left"] = 1.0 - rate * self.wdecay
        return found

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        if not states:
            return (n["left"] * p if "left" in n else p) - n["rate"] * g, ()
        if "wdecay" in n:
            g = g + n["wdecay"] * p
        if "nesterov" in n:
            v = n["nesterov"] * states[0] - n["rate"] * g
            return p + n["nesterov"] * v - n["rate"] * g, (v,)
        v = n["momentum"] * states[0] - n["rate"] * g
        return p + v, (v,)
