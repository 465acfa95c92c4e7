"""Optimizers whose steps go along the mean of the last gradients, by their sizes: Adam and its relatives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from atled.neon.optimizers.base import RuleOptimizer
from atled.neon.optimizers.checks import check_addend, check_share


class Adam(RuleOptimizer):
    """Means of gradients over means of their squares (Kingma and Ba 2015), with two states m and v:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2
        p = p - lr * sqrt(1 - beta_2 ** t) / (1 - beta_1 ** t) * m / (sqrt(v) + epsilon)

    t: how many steps were made.  learning_rate: lr.  beta_1, beta_2: from 0 on and less than 1.
    Others as of RuleOptimizer.
    """

    state_count = 2

    def __init__(
        self,
        learning_rate: float = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        stochastic_round: Any = False,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        name: str | None = None,
    ) -> None:
        check_share(self.classnm, beta_1=beta_1, beta_2=beta_2)
        super().__init__(
            name, learning_rate, stochastic_round, gradient_clip_norm, gradient_clip_value, param_clip_value
        )
        check_addend(self.classnm, epsilon=epsilon)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.t = 0

    def stepped(self) -> None:
        """Count the step."""
        self.t += 1

    def numbers(self, epoch: int) -> dict[str, float]:
        """As of RuleOptimizer."""
        t, beta_1, beta_2 = self.t + 1, float(self.beta_1), float(self.beta_2)
        own = {
            "step": self.rate(epoch) * math.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t),
            "beta_1": beta_1,
            "share_1": 1.0 - beta_1,
            "beta_2": beta_2,
            "share_2": 1.0 - beta_2,
            "epsilon": float(self.epsilon),
        }
        return super().numbers(epoch) | own

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        be = self._present
        m = n["beta_1"] * states[0] + n["share_1"] * g
        v = n["beta_2"] * states[1] + n["share_2"] * be.square(g)
        return p - n["step"] * m / (be.sqrt(v) + n["epsilon"]), (m, v)


class ShiftAdaMax(RuleOptimizer):
    """AdaMax with products by shifts of bits (Hubara et al. 2016), for binary networks, with two states m and v:

        m = beta_1 * m + (1 - beta_1) * g
        v = max(beta_2 * v, abs(g))
        p = clip(p - shift(shift(m, 1 / (v + epsilon)), lr / (1 - beta_1 ** t)), -1, 1)

    t is epoch + 1; `shift` is that of the backend, by value.
    learning_rate: lr.  beta_1, beta_2: from 0 on and less than 1.  Others as of RuleOptimizer.
    """

    state_count = 2

    def __init__(
        self,
        learning_rate: float = 2e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        schedule: Any = None,
        *,
        stochastic_round: Any = False,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        name: str | None = None,
    ) -> None:
        check_share(self.classnm, beta_1=beta_1, beta_2=beta_2)
        super().__init__(
            name, learning_rate, stochastic_round, gradient_clip_norm, gradient_clip_value, param_clip_value, schedule
        )
        check_addend(self.classnm, epsilon=epsilon)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def numbers(self, epoch: int) -> dict[str, float]:
        """As of RuleOptimizer."""
        beta_1 = float(self.beta_1)
        own = {
            "step": self.rate(epoch) / (1.0 - beta_1 ** (epoch + 1)),
            "beta_1": beta_1,
            "share_1": 1.0 - beta_1,
            "beta_2": float(self.beta_2),
            "epsilon": float(self.epsilon),
        }
        return super().numbers(epoch) | own

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        be = self._present
        m = n["beta_1"] * states[0] + n["share_1"] * g
        v = be.maximum(n["beta_2"] * states[1], be.absolute(g))
        step = be.shift(be.shift(m, 1.0 / (v + n["epsilon"])), n["step"])
        return be.clip(p - step, -1.0, 1.0), (m, v)
