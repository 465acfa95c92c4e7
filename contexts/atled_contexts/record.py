"""What became of one plugin at discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atled_contexts.plugin import PluginInfo

USABLE = "usable"
UNUSABLE = "unusable"
INCOMPATIBLE = "incompatible"
BLOCKED = "blocked"
ABSENT = "absent"

BUILT_IN = "built-in"
INSTALLED = "installed"
REGISTERED = "registered"


class PluginRecord:
    """One plugin's state.

    name: of its entry point, or as registered.  source: "built-in", "installed" or "registered".
    state: "usable", "unusable", "incompatible" (plugin API), "blocked" (by a setting) or "absent" (a setting asks
        for it, but it is not installed).
    reason, remedy: why it is not usable and what the user can do; empty where it is usable.
    exception: the original exception, where there was one.
    info: what `atled_info` said; None where it did not come so far.
    distribution, version: of the Python package; empty where unknown.
    """

    __slots__ = ("distribution", "exception", "info", "name", "reason", "remedy", "source", "state", "version")

    def __init__(
        self,
        name: str,
        source: str,
        state: str,
        *,
        reason: str = "",
        remedy: str = "",
        exception: BaseException | None = None,
        info: PluginInfo | None = None,
        distribution: str = "",
        version: str = "",
    ) -> None:
        self.name = name
        self.source = source
        self.state = state
        self.reason = reason
        self.remedy = remedy
        self.exception = exception
        self.info = info
        self.distribution = distribution
        self.version = version

    @property
    def usable(self) -> bool:
        """Whether its backends can be asked."""
        return self.state == USABLE

    @property
    def title(self) -> str:
        """The distribution with its version, or the plugin's name where there is none."""
        return f"{self.distribution} {self.version}" if self.distribution else f"plugin {self.name!r}"

    def refused(self, reason: str, remedy: str) -> PluginRecord:
        """This record as an unusable one."""
        return PluginRecord(
            self.name,
            self.source,
            UNUSABLE,
            reason=reason,
            remedy=remedy,
            info=self.info,
            distribution=self.distribution,
            version=self.version,
        )

    def __repr__(self) -> str:
        return f"PluginRecord({self.name!r}, {self.state}{': ' + self.reason if self.reason else ''})"
