"""The simulated devices: each with a memory of its own, counts of what it did, and faults on request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from atled.plugin import four_parts, lock_across_forks
from atled_sim import faults
from atled_sim.emptiness import is_empty
from atled_sim.memory import Block, Memory, SimArray

DEVICE_IDS = ("0", "1")


class Counts:
    """What a device did since the last reset.

    allocations, fills, launches, synchronizations: counts.  uploads, downloads, copies: counts of copies from the host,
    to the host, within the device and from another one.  uploaded_bytes, downloaded_bytes, copied_bytes: bytes in them.
    table_copies: how often run-time words were put; they are no uploads.  programs: how many were made.
    replays: how often one ran.  Launches within programs count as launches.
    """

    def __init__(self) -> None:
        self.allocations = 0
        self.fills = 0
        self.launches = 0
        self.synchronizations = 0
        self.uploads = 0
        self.downloads = 0
        self.copies = 0
        self.uploaded_bytes = 0
        self.downloaded_bytes = 0
        self.copied_bytes = 0
        self.table_copies = 0
        self.programs = 0
        self.replays = 0

    def __repr__(self) -> str:
        return f"Counts({', '.join(f'{name}={value}' for name, value in vars(self).items() if value)})"


class SimDevice:
    """One device. Its methods are what a driver offers: they count, and fail where `faults` says so.

    device_id: as a Context writes it.  memory: its own.  counts: what it did.
    """

    def __init__(self, device_id: str) -> None:
        self.device_id = device_id
        self.memory = Memory(device_id)
        self.counts = Counts()
        # Re-entrant: a finalizer, or a handler of a signal, may have the device work within it.
        self._lock = lock_across_forks()

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype) -> SimArray:
        """A new array with poisoned contents."""
        faults.check("allocation", self.device_id, lambda: f"allocation of {dtype.name}{list(shape)} on {self}")
        nbytes = math.prod(shape) * dtype.itemsize
        array = SimArray(Block(self.memory, nbytes), shape, dtype)
        self._count(allocations=1)
        return array

    def upload(self, source: np.ndarray, target: SimArray) -> None:
        """Copy from the host."""
        faults.check("upload", self.device_id, lambda: f"upload of {_described(source)} to {self}")
        self.reach(target)[...] = source
        self._count(uploads=1, uploaded_bytes=target.nbytes)

    def download(self, source: SimArray, target: np.ndarray) -> None:
        """Copy to the host."""
        faults.check("download", self.device_id, lambda: f"download of {source} by {self}")
        target[...] = self.reach(source)
        self._count(downloads=1, downloaded_bytes=source.nbytes)

    def put_words(self, words: np.ndarray, target: SimArray) -> None:
        """Copy run-time words from the host, in the order of the queue; only counted where no kernel reads them."""
        if is_empty():
            self.counts.table_copies += 1
            return
        faults.check("table copy", self.device_id, lambda: f"copy of {_described(words)} into {target} of {self}")
        self.reach(target)[...] = words
        self._count(table_copies=1)

    def program(self, launches: Sequence[Callable[[], object]]) -> Callable[[], None]:
        """A program of launches: it only counts its runs beside."""
        faults.check("program", self.device_id, lambda: f"recording of a program of {len(launches)} launches on {self}")
        self._count(programs=1)
        launches = list(launches)
        if is_empty():
            return lambda: self._count_replay(len(launches))

        def replay() -> None:
            faults.check("replay", self.device_id, lambda: f"replay of a program of {len(launches)} launches on {self}")
            for launch in launches:
                launch()
            self.counts.replays += 1

        return replay

    def _count_replay(self, launches: int) -> None:
        """A run of a program of kernels that compute nothing: as quick as a graph of a real device is launched."""
        counts = self.counts
        counts.launches += launches
        counts.replays += 1

    def copy(self, source: SimArray, target: SimArray) -> None:
        """Copy within the device."""
        faults.check("copy", self.device_id, lambda: f"copy of {source} by {self}")
        self.reach(target)[...] = self.reach(source)
        self._count(copies=1, copied_bytes=target.nbytes)

    def copy_from(self, other: SimDevice, source: SimArray, target: SimArray) -> None:
        """Copy from another device."""
        faults.check("copy", self.device_id, lambda: f"copy of {source} of {other} by {self}", other.device_id)
        self.reach(target)[...] = other.reach(source)
        self._count(copies=1, copied_bytes=target.nbytes)

    def fill(self, target: SimArray, value: float) -> None:
        """Set every element."""
        faults.check("fill", self.device_id, lambda: f"fill of {target} on {self}")
        self.reach(target).fill(value)
        self._count(fills=1)

    def start_launch(self, call: str) -> None:
        """Count a kernel; call: in words, for the error."""
        faults.check("launch", self.device_id, lambda: f"launch of {call} on {self}")
        self._count(launches=1)

    def synchronize(self) -> None:
        """Wait until all is done; here it always is."""
        faults.check("synchronization", self.device_id, lambda: f"synchronization of {self}")
        self._count(synchronizations=1)

    def reach(self, array: SimArray) -> np.ndarray:
        """The values of an array of this device; ValueError for one that lives elsewhere."""
        if array.device_id != self.device_id:
            raise ValueError(
                four_parts(
                    f"use of {array}",
                    f"{self} cannot reach it",
                    "",
                    "move it first: download it there and upload it here",
                )
            )
        return self.memory.contents(array)

    def reset_counts(self) -> None:
        """Start again from zero."""
        self.counts = Counts()

    def _count(self, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                setattr(self.counts, name, getattr(self.counts, name) + amount)

    def __repr__(self) -> str:
        return f"device {self.device_id!r} of plugin sim"


def _described(array: np.ndarray) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


_DEVICES = {device_id: SimDevice(device_id) for device_id in DEVICE_IDS}


def device(device_id: str) -> SimDevice:
    """The device of an id; KeyError for one that is not there (a Context refuses it before)."""
    return _DEVICES[device_id]
