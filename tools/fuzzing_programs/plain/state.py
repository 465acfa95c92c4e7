"""What a run of the plain interpreter keeps beside its arrays: the clock, the mode, what the library refused."""

from __future__ import annotations

from collections import Counter

import numpy as np


class JustifiedError(Exception):
    """The library refused something, and was right to."""


class State:
    """The state of one run.

    auto: whether calls compute at once.
    is_refused: whether the library refused the statement that runs now: then what is asked for must have a reason not
        to be there.
    computed: how often each op was computed.
    noise: relative disturbance of every result, with which ill-conditioned programs show; 0 for none.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self, noise: float = 0.0, seed: int = 0) -> None:
        """Begin a run."""
        self.clock = 0
        self.auto = False
        self.is_refused = False
        self.computed: Counter[str] = Counter()
        self.noise = noise
        self._numbers = np.random.default_rng(seed)

    def tick(self) -> int:
        """The next moment."""
        self.clock += 1
        return self.clock

    def refuse_if(self, reason: bool) -> None:
        """JustifiedError if the library refused this and there is a reason to."""
        if self.is_refused and reason:
            raise JustifiedError

    def disturbed(self, values: np.ndarray) -> np.ndarray:
        """The values with noise, as another order of summing or another rounding would have it."""
        if not self.noise or values.dtype.kind != "f":
            return values
        scale = np.abs(values) + 0.1 * np.abs(values).max(initial=0.0) * (values != 0)
        return values + self.noise * scale * self._numbers.standard_normal(values.shape)


STATE = State()
