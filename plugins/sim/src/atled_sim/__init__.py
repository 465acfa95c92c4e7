"""Backend `sim`: a simulated device, for tests of transfers, placement and fallback, and a template for plugins.

Where a plugin for a real device starts: `plugin` says who it is and what it brings, `array_class` moves data,
`kernels` computes. `device` and `memory` stand in for the hardware and its driver; `faults`, `deferral`, `refusal`,
`omission`, `compiling`, `image_order` and `emptiness` are for tests and measurements.
"""

from atled_sim import faults
from atled_sim.compiling import compile_formulas
from atled_sim.deferral import defer_checks
from atled_sim.device import DEVICE_IDS, Counts, SimDevice, device
from atled_sim.emptiness import empty
from atled_sim.faults import SimFault
from atled_sim.image_order import prefer_layout
from atled_sim.memory import Memory, SimArray
from atled_sim.omission import omit
from atled_sim.refusal import refuse

__all__ = [
    "DEVICE_IDS",
    "Counts",
    "Memory",
    "SimArray",
    "SimDevice",
    "SimFault",
    "compile_formulas",
    "defer_checks",
    "device",
    "empty",
    "faults",
    "omit",
    "prefer_layout",
    "refuse",
]
