"""Tensors by where they are, for programs that ask `isinstance(x, GPUTensor)`."""

from __future__ import annotations

from typing import Any, ClassVar

from atled.neon.trees.tensor import Tensor


class _OnDevice(type):
    """Has every tensor of a backend as its instance that computes on a kind of device."""

    device_type: int

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.backend.device_type == cls.device_type


class CPUTensor(Tensor, metaclass=_OnDevice):
    """A tensor in host memory: any Tensor of a backend whose device_type is 0."""

    device_type: ClassVar[int] = 0


class GPUTensor(Tensor, metaclass=_OnDevice):
    """A tensor on a device: any Tensor of a backend whose device_type is 1."""

    device_type: ClassVar[int] = 1
