"""Calls for several devices, of which there is one."""

from __future__ import annotations

from typing import Any


class DistributionCalls:
    """What programs call for any number of devices."""

    def distribute_data(self, tensor: Any, layer_parallelism: Any = None) -> None:
        """Nothing to spread: all data is on one device."""

    def revert_tensor(self, tensor: Any) -> None:
        """Nothing was spread that could be brought back together."""
