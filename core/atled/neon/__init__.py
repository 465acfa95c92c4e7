"""neon's API on atled: `from atled.neon.backends import gen_backend, Autodiff` in the place of neon's own."""

from __future__ import annotations

from atled._version import __version__ as __version__
from atled.neon.message_log import logger
from atled.neon.nervana_object import NervanaObject

__all__ = ["NervanaObject", "__version__", "logger"]
