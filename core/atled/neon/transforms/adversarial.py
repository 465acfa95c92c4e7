"""GANCost: what a generator and a discriminator pay, who are trained against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts, shortened
from atled.neon.calls.checks import check_numbers
from atled.neon.transforms.losses import Cost
from atled.neon.trees.nodes import OpTreeNode

_FUNCTIONS = ("original", "modified", "wasserstein")
_TYPES = ("dis", "dis_data", "dis_noise", "gen")


class GANCost(Cost):
    """Means over rows of what a discriminator said of data (y_data) and of what a generator made (y_noise).

    func: who pays what (original and modified: Goodfellow et al. 2014; wasserstein: Arjovsky et al. 2017):

        cost_type   original            modified              wasserstein
        dis_data    -safelog(y_data)    -safelog(y_data)      y_data
        dis_noise   -safelog(1 - y_noise), twice              -y_noise
        gen         -safelog(y_noise)   safelog(1 - y_noise)  y_noise

    dis is the sum of dis_data and dis_noise. The derivatives for the generator are neon's: `scale / (y_noise - 1)` with
    original and `-scale / y_noise` with modified, each that of the other cost.

    scale: of the derivatives.  cost_type: of calls that name none.  ValueError: an unknown func or cost_type.
    """

    def __init__(
        self, scale: float = 1.0, cost_type: str = "dis", func: str = "modified", name: str | None = None
    ) -> None:
        super().__init__(name)
        check_numbers(self.classnm, scale=scale)
        _check_name("func", func, _FUNCTIONS)
        _check_name("cost_type", cost_type, _TYPES)
        self.scale = scale
        self.cost_type = cost_type
        self.func = func

    def __call__(self, y_data: Any, y_noise: Any, cost_type: str | None = None) -> Any:
        """The op-tree (1, batch).

        cost_type: None for that of the object; y_data may be None for dis_noise and gen, y_noise for dis_data.
        ValueError: an unknown one, or for dis different shapes.
        """
        cost_type = self.cost_type if cost_type is None else cost_type
        _check_name("cost_type", cost_type, _TYPES)
        be = self._present
        if cost_type == "gen":
            return be.mean(self._of_generator(y_noise), axis=0)
        if cost_type == "dis_data":
            return be.mean(self._of_data(y_data), axis=0)
        if cost_type == "dis_noise":
            return be.mean(self._of_noise(y_noise), axis=0)
        self._check(y_data, y_noise)
        return be.mean(self._of_data(y_data) + self._of_noise(y_noise), axis=0)

    def _of_data(self, y_data: Any) -> Any:
        return y_data if self.func == "wasserstein" else -self._present.safelog(y_data)

    def _of_noise(self, y_noise: Any) -> Any:
        return -y_noise if self.func == "wasserstein" else -self._present.safelog(1.0 - y_noise)

    def _of_generator(self, y_noise: Any) -> Any:
        if self.func == "wasserstein":
            return y_noise
        return -self._present.safelog(y_noise) if self.func == "original" else self._present.safelog(1.0 - y_noise)

    def bprop_noise(self, y_noise: Any) -> Any:
        """For the discriminator, of what the generator made: `scale / (1 - y_noise)`; wasserstein: -scale."""
        return self._ones(y_noise, -self.scale) if self.func == "wasserstein" else self.scale / (1.0 - y_noise)

    def bprop_data(self, y_data: Any) -> Any:
        """For the discriminator, of data: `-scale / y_data`; wasserstein: scale."""
        return self._ones(y_data, self.scale) if self.func == "wasserstein" else -self.scale / y_data

    def bprop_generator(self, y_noise: Any) -> Any:
        """For the generator: `scale / (y_noise - 1)` with original, `-scale / y_noise` with modified; wasserstein:
        scale.
        """
        if self.func == "wasserstein":
            return self._ones(y_noise, self.scale)
        return self.scale / (y_noise - 1.0) if self.func == "original" else -self.scale / y_noise

    def _ones(self, y: Any, scale: float) -> Any:
        """The op-tree of a number times ones of the shape of y."""
        dtype = str(np.dtype(getattr(y, "dtype", self._present.default_dtype)))
        attributes = ("val", float(scale)), ("shape", y.shape), ("dtype", dtype)
        return OpTreeNode({"op": "Constant", "shape": y.shape, "attributes": attributes}, None, None)


def _check_name(what: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        remedy = did_you_mean(str(given), known, f"use one of {', '.join(known)}")
        raise ValueError(four_parts(f"GANCost with {what}={shortened(given)}", f"no {what} is called so", "", remedy))
