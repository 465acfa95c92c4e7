"""Calls that draw: from `be.rng`, a numpy RandomState, so that one seed gives the same bits on every device."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.calls.checks import check_numbers, check_tensors
from atled.neon.trees.filling import refuse_target
from atled.neon.trees.tensor import Tensor
from atled.sequences import repeatable


class RandomCalls:
    """Holds a generator, and fills tensors with what it draws."""

    closed: bool = False
    rng: np.random.RandomState
    init_rng_state: Any  # as of RandomState.get_state

    def gen_rng(self, seed: int | None = None) -> np.random.RandomState:
        """Make `be.rng` from a seed (None: fresh entropy), and return it; its state is kept for `rng_reset`.

        ValueError: what RandomState does not take, such as a negative number.
        """
        try:
            made = np.random.RandomState(seed)
        except (TypeError, ValueError) as error:
            raise ValueError(
                four_parts(f"a generator with seed {shortened(seed)}", str(error), "", "use 0 to 2**32 - 1, or None")
            ) from error
        self.rng = made
        self.init_rng_state = made.get_state()
        return made

    def rng_reset(self) -> None:
        """Draw again what was drawn since the generator was made."""
        self.rng.set_state(self.init_rng_state)

    def rng_get_state(self, state: Any = None) -> Any:
        """The state of the generator, as `RandomState.get_state` gives it; for `rng_set_state`.

        state: no effect; neon's documentation has the argument, its code has not.
        """
        return self.rng.get_state()

    def rng_set_state(self, state: Any) -> None:
        """Draw again what was drawn since `rng_get_state` gave that state.

        state: of `rng_get_state`, or a pair of which that is the first, as neon's GPU class has it.
        ValueError: anything else; the generator stays as it was.
        """
        of_host = state[0] if isinstance(state, tuple | list) and len(state) == 2 else state
        try:
            np.random.RandomState(0).set_state(of_host)  # RandomState sets some of it before it refuses the rest
        except (TypeError, ValueError, LookupError) as error:
            raise ValueError(
                four_parts(
                    f"rng_set_state({shortened(state)})",
                    f"it is no state of a RandomState: {error}",
                    "",
                    "give what rng_get_state returned",
                )
            ) from error
        self.rng.set_state(of_host)

    def make_binary_mask(self, out: Tensor, keepthresh: float = 0.5) -> Tensor:
        """Fill a tensor with 1 where a uniform number of [0, 1) is below a threshold, else with 0; returns it.

        out: any shape.  keepthresh: the probability of a 1.

            be.rng.uniform(size=out.shape) < keepthresh
        """
        self._check_target("make_binary_mask", out=out)
        check_numbers("make_binary_mask", keepthresh=keepthresh)
        if keepthresh != keepthresh:  # NaN
            raise ValueError(four_parts("make_binary_mask", "keepthresh is NaN", "", "give a number from 0 to 1"))

        def draw() -> None:
            out[:] = self.rng.uniform(size=out.shape) < keepthresh

        repeatable(draw)
        return out

    def fill_normal(self, ary: Tensor, mean: float = 0, stdv: float = 1) -> Tensor:
        """Fill a tensor with normally distributed numbers; returns it.

        mean, stdv: of the distribution, any number and one that is not negative.

            be.rng.normal(mean, stdv, ary.shape)
        """
        self._check_target("fill_normal", ary=ary)
        check_numbers("fill_normal", mean=mean, stdv=stdv)
        if not stdv >= 0:
            raise ValueError(four_parts("fill_normal", f"stdv is {stdv}", "", "give a number that is not negative"))
        ary[:] = self.rng.normal(mean, stdv, ary.shape)
        return ary

    def _check_target(self, call: str, **given: Any) -> None:
        """Refuse what cannot be filled before anything is drawn for it."""
        check_tensors(self, call, **given)
        (target,) = given.values()
        if target.view.read_only:
            refuse_target(target)
