"""`cupy.cuda.device`."""

from __future__ import annotations

from typing import Any

from atled_cuda_emulator.stand_in import cublas, runtime
from atled_cuda_emulator.stand_in.world import check_device, thread


class Device:
    """`cupy.cuda.Device`."""

    def __init__(self, device: Any = None) -> None:
        self.id = runtime.getDevice() if device is None else int(device)
        self._before: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        self._before.append(thread.device)
        runtime.setDevice(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        runtime.setDevice(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(("Device", self.id))

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> None:
        """Make it the thread's current one."""
        runtime.setDevice(self.id)

    def synchronize(self) -> None:
        """Wait for all its streams."""
        with self:
            runtime.deviceSynchronize()

    @property
    def compute_capability(self) -> str:
        """Two digits."""
        check_device(self.id)
        return "90"

    @property
    def attributes(self) -> dict[str, int]:
        """By CUDA's names without `cudaDevAttr`."""
        check_device(self.id)
        return dict(runtime._ATTRIBUTES)

    @property
    def mem_info(self) -> tuple[int, int]:
        """Bytes free, bytes in all."""
        with self:
            return runtime.memGetInfo()

    @property
    def pci_bus_id(self) -> str:
        """Made up."""
        return runtime.deviceGetPCIBusId(self.id)

    @property
    def cublas_handle(self) -> int:
        """The thread's handle for this device."""
        with self:
            return cublas.handle_of_thread()


def get_device_id() -> int:
    """The thread's current one."""
    return runtime.getDevice()


def get_cublas_handle() -> int:
    """The thread's handle for the current device."""
    return cublas.handle_of_thread()
