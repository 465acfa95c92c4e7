"""Optimizers whose steps adapt to the sizes of earlier gradients, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.neon.optimizers.base import RuleOptimizer
from atled.neon.optimizers.checks import check_addend, check_share


class RMSProp(RuleOptimizer):
    """`s = d * s + (1 - d) * g ** 2; p = p - lr * g / (sqrt(s + epsilon) + epsilon)`, with one state s.

    decay_rate: d, from 0 on and less than 1.  learning_rate: lr.  Others as of RuleOptimizer.
    """

    state_count = 1

    def __init__(
        self,
        decay_rate: float = 0.95,
        learning_rate: float = 2e-3,
        epsilon: float = 1e-6,
        schedule: Any = None,
        *,
        stochastic_round: Any = False,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        name: str | None = None,
    ) -> None:
        check_share(self.classnm, decay_rate=decay_rate)
        super().__init__(
            name, learning_rate, stochastic_round, gradient_clip_norm, gradient_clip_value, param_clip_value, schedule
        )
        check_addend(self.classnm, epsilon=epsilon)
        self.decay_rate = decay_rate
        self.epsilon = epsilon

    def numbers(self, epoch: int) -> dict[str, float]:
        """As of RuleOptimizer."""
        d = float(self.decay_rate)
        own = {"rate": self.rate(epoch), "decay": d, "share": 1.0 - d, "epsilon": float(self.epsilon)}
        return super().numbers(epoch) | own

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        be = self._present
        s = n["decay"] * states[0] + n["share"] * be.square(g)
        return p - n["rate"] * g / (be.sqrt(s + n["epsilon"]) + n["epsilon"]), (s,)


class Adagrad(RuleOptimizer):
    """`s = s + g ** 2; p = p - lr * g / sqrt(s + epsilon)`, with one state s (Duchi et al. 2011).

    learning_rate: lr.  Others as of RuleOptimizer.
    """

    state_count = 1

    def __init__(
        self,
        learning_rate: float = 0.01,
        epsilon: float = 1e-6,
        *,
        stochastic_round: Any = False,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name, learning_rate, stochastic_round, gradient_clip_norm, gradient_clip_value, param_clip_value
        )
        check_addend(self.classnm, epsilon=epsilon)
        self.epsilon = epsilon

    def numbers(self, epoch: int) -> dict[str, float]:
        """As of RuleOptimizer."""
        return super().numbers(epoch) | {"rate": self.rate(epoch), "epsilon": float(self.epsilon)}

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        be = self._present
        s = states[0] + be.square(g)
        return p - n["rate"] * g / be.sqrt(s + n["epsilon"]), (s,)


class Adadelta(RuleOptimizer):
    """Steps as large as the last ones, in the direction of the gradient (Zeiler 2012), with three states:

        s = d * s + (1 - d) * g ** 2
        u = g * sqrt((r + epsilon) / (s + epsilon))
        r = d * r + (1 - d) * u ** 2
        p = p - u

    The states are s, r, u.  decay: d, from 0 on and less than 1.  Others as of RuleOptimizer.
    """

    state_count = 3

    def __init__(
        self,
        decay: float = 0.95,
        epsilon: float = 1e-6,
        *,
        stochastic_round: Any = False,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        name: str | None = None,
    ) -> None:
        check_share(self.classnm, decay=decay)
        super().__init__(name, 1.0, stochastic_round, gradient_clip_norm, gradient_clip_value, param_clip_value)
        check_addend(self.classnm, epsilon=epsilon)
        self.decay = decay
        self.epsilon = epsilon

    def numbers(self, epoch: int) -> dict[str, float]:
        """As of RuleOptimizer."""
        d = float(self.decay)
        return super().numbers(epoch) | {"decay": d, "share": 1.0 - d, "epsilon": float(self.epsilon)}

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        be = self._present
        s = n["decay"] * states[0] + n["share"] * be.square(g)
        u = be.sqrt((states[1] + n["epsilon"]) / (s + n["epsilon"])) * g
        r = n["decay"] * states[1] + n["share"] * be.square(u)
        return p - u, (s, r, u)
