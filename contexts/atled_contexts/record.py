"""PluginRecord: the state of one plugin after discovery, with the reason for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atled_contexts.errors import PluginError
from atled_contexts.package_files import MANIFEST, module_file, read_package_file

if TYPE_CHECKING:
    from atled_contexts.plugin import BackendInfo, PluginInfo

USABLE = "usable"
EXPERIMENTAL = "experimental"
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
    state: "usable"; "experimental" (installed and usable, but without a report of the conformance kit that finds
        this version right); "unusable"; "incompatible" (plugin API); "blocked" (by a setting); or "absent" (a
        setting names it, but it is not installed).
    reason, remedy: why it is in this state and what the user can do; empty where it is usable.
    exception: the original exception, where there was one.
    info: what `atled_info` said; None where it did not come so far.
    distribution, version: of the Python package; empty where unknown.
    module: that of its entry point; "" where it has none.
    """

    __slots__ = (
        "_manifest_backends",
        "distribution",
        "exception",
        "info",
        "module",
        "name",
        "reason",
        "remedy",
        "source",
        "state",
        "version",
    )

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
        module: str = "",
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
        self.module = module
        self._manifest_backends: tuple[str, ...] | None = None

    @property
    def usable(self) -> bool:
        """Whether its backends can be asked."""
        return self.state in (USABLE, EXPERIMENTAL)

    @property
    def file(self) -> str:
        """The file of its module; "" where it has none."""
        return module_file(self.module)

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of its backends: from what it said, else, since it was not loaded, from its manifest."""
        if self.info is not None:
            return tuple(backend.name for backend in self.info.backends)
        if self._manifest_backends is None:
            try:
                manifest = read_package_file(self.module, MANIFEST) or {}
            except PluginError:  # the state says enough; a broken manifest is no reason to fail
                manifest = {}
            listed = manifest.get("backends")
            self._manifest_backends = tuple(sorted(listed)) if isinstance(listed, dict) else ()
        return self._manifest_backends

    @property
    def title(self) -> str:
        """The distribution with its version, or the plugin's name where there is none."""
        return f"{self.distribution} {self.version}" if self.distribution else f"plugin {self.name!r}"

    @property
    def declared(self) -> tuple[BackendInfo, ...]:
        """Its backends as it described them; none where it was not loaded."""
        return self.info.backends if self.info is not None else ()

    def refused(self, reason: str, remedy: str, exception: BaseException | None = None) -> PluginRecord:
        """This record as an unusable one."""
        return PluginRecord(
            self.name,
            self.source,
            UNUSABLE,
            reason=reason,
            remedy=remedy,
            exception=exception,
            info=self.info,
            distribution=self.distribution,
            version=self.version,
            module=self.module,
        )

    def __repr__(self) -> str:
        return f"PluginRecord({self.name!r}, {self.state}{': ' + self.reason if self.reason else ''})"
