"""Stand-ins for what plugins and the core bring."""

from atled_contexts import API_VERSION, PluginInfo, hookimpl


class FakePlugin:
    """A plugin whose hooks do what the test says; counts how often it is asked."""

    def __init__(
        self,
        name: str,
        backends=(),
        *,
        info=None,
        probe=None,
        register=None,
        devices=None,
        preset=None,
        observe=None,
        api_version=API_VERSION,
        extension_names=(),
    ) -> None:
        self.info = info or PluginInfo(name, api_version, f"atled-{name}", "0.1", backends, extension_names)
        self.probe, self.register, self.devices, self.preset, self.observe = probe, register, devices, preset, observe
        self.probed = self.registered = 0

    @hookimpl
    def atled_info(self):
        return self.info() if callable(self.info) else self.info

    @hookimpl
    def atled_probe(self):
        self.probed += 1
        return self.probe() if callable(self.probe) else self.probe

    @hookimpl
    def atled_register(self, registrar):
        self.registered += 1
        if self.register is not None:
            self.register(registrar)

    @hookimpl
    def atled_devices(self, backend):
        return self.devices(backend) if callable(self.devices) else self.devices

    @hookimpl
    def atled_preset(self, name, type_config, device_id, options):
        return self.preset(name, type_config, device_id, options) if self.preset is not None else None

    @hookimpl
    def atled_observe(self, event):
        if self.observe is not None:
            self.observe(event)


class FakeCall:
    """What `make_call` gives: knows where it would run."""

    def __init__(self, type_config: str, device_id: str) -> None:
        self.type_config = type_config
        self.device_id = device_id

    def __repr__(self) -> str:
        return "Foo(float32[2, 3])"


def nothing(call):
    """A `prepare` that is never run."""
    raise AssertionError("selection prepares nothing")
