"""How the engine makes and moves arrays of simulated devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from atled.plugin import ArrayClass, ArrayDesc
from atled_sim.device import device
from atled_sim.memory import ALIGNMENT, SimArray


class SimArrayClass(ArrayClass):
    """Array class `SimArray`. The devices check and count; a real plugin calls its driver here."""

    name = "SimArray"
    alignment = ALIGNMENT

    def allocate(self, desc: ArrayDesc, device_id: str) -> SimArray:
        """A new array on the device; contents undefined (here: NaN)."""
        return device(device_id).allocate(desc.shape, desc.dtype)

    def upload(self, source: np.ndarray, target: SimArray) -> None:
        """Copy from host memory."""
        assert source.shape == target.shape and source.dtype == target.dtype and source.flags.c_contiguous
        device(target.device_id).upload(source, target)

    def download(self, source: SimArray, target: np.ndarray) -> None:
        """Copy to host memory and wait until the values are there."""
        assert source.shape == target.shape and source.dtype == target.dtype
        device(source.device_id).download(source, target)

    def put_words(self, words: np.ndarray, target: SimArray) -> None:
        """Copy run-time words to the device, which is done at once here."""
        device(target.device_id).put_words(words, target)

    def program(self, launches: Sequence[Callable[[], object]], device_id: str) -> Callable[[], None]:
        """Launches as one program, whose runs are counted."""
        return device(device_id).program(launches)

    def copy(self, source: SimArray, target: SimArray) -> None:
        """Copy between two arrays of one device."""
        assert source.shape == target.shape and source.dtype == target.dtype
        device(source.device_id).copy(source, target)

    def copy_across(self, source: SimArray, target: SimArray) -> bool:
        """Copy between the two devices, which reach each other."""
        assert source.shape == target.shape and source.dtype == target.dtype
        device(target.device_id).copy_from(device(source.device_id), source, target)
        return True

    def fill(self, target: SimArray, value: float) -> None:
        """Set every element."""
        device(target.device_id).fill(target, value)

    def view(self, array: SimArray, shape: tuple[int, ...]) -> SimArray:
        """The same memory with another shape of equal size."""
        return array.reshaped(shape)

    def part(self, array: SimArray, offset: int, desc: ArrayDesc) -> SimArray:
        """Some bytes of an array as an array of its own."""
        return array.part(offset, desc.shape, desc.dtype)

    def window(self, array: SimArray, desc: ArrayDesc, offset: int) -> SimArray:
        """Elements of an array by strides."""
        assert array.dtype == desc.dtype
        return array.window(offset, desc.shape, desc.strides)

    def synchronize(self, device_id: str) -> None:
        """Wait until everything launched on the device is done."""
        device(device_id).synchronize()

    def statistics(self, device_id: str) -> dict[str, int]:
        """Memory of the device: bytes in use, the most there ever were, and count of blocks."""
        memory = device(device_id).memory
        return {
            "bytes_in_use": memory.bytes_in_use,
            "peak_bytes": memory.peak_bytes,
            "block_count": memory.block_count,
        }
