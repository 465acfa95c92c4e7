"""Plans: what executes a graph of operations on a device, chosen once and kept."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from atled.plugin import lock_across_forks, register_cache
from atled_cudnn import cupy_names as cp
from atled_cudnn import engines, tuning
from atled_cudnn.constants import Kind, Name, Note, Type
from atled_cudnn.descriptors import Descriptor, Node, build
from atled_cudnn.engines import Offer
from atled_cudnn.handles import handle, on_device
from atled_cudnn.library import CudnnError, check, library, version, version_text

_MOST_PLANS = 2048
_MOST_PACKS = 16  # bindings of one plan that are kept: arrays of a plan of atled's stay where they are


class Wanted(NamedTuple):
    """A graph of operations, and where and how it is to be computed.

    graph: the operation graph.  tensors: bytes of each of its arrays, by the unique id.  device: number.
    forbidden: numerical notes that its engine must not have.
    """

    graph: Node
    tensors: tuple[tuple[int, int], ...]
    device: int
    forbidden: frozenset[Note]


class Refusal(NamedTuple):
    """Why there is no plan."""

    reason: str


class Plan:
    """What executes a graph. workspace: bytes of memory that it needs.  note: which engine it is."""

    def __init__(self, offer: Offer, properties: Descriptor, device: int, source: str) -> None:
        self._plan = engines.planned(offer, properties)
        self._device = device
        self._execute = library().cudnnBackendExecute
        self.choice = offer.choice
        self.notes = offer.notes
        self.note = f"cuDNN engine {self.choice.engine}, {source}"
        (self.workspace,) = self._plan.get(Name.EXECUTION_PLAN_WORKSPACE_SIZE, Type.INT64)

    def bind(self, ids: Sequence[int], addresses: Sequence[int], workspace: int) -> Descriptor:
        """The arrays to work on, as cuDNN wants them: unique ids and addresses, and where the workspace is."""
        return Descriptor(
            Kind.VARIANT_PACK,
            [
                (Name.VARIANT_PACK_UNIQUE_IDS, Type.INT64, ids),
                (Name.VARIANT_PACK_DATA_POINTERS, Type.VOID_PTR, addresses),
                (Name.VARIANT_PACK_WORKSPACE, Type.VOID_PTR, [workspace or None]),
            ],
        )

    def execute(self, pack: Descriptor) -> None:
        """Put it into CuPy's current stream of the device."""
        if cp.runtime.getDevice() != self._device:
            with on_device(self._device):
                return self.execute(pack)
        status = self._execute(handle(self._device), self._plan.address, pack.address)
        if status:
            check(status, f"executing {self.note}")


class Packs:
    """The bindings of one plan that were used lately."""

    def __init__(self, plan: Plan, ids: Sequence[int]) -> None:
        self._plan = plan
        self._ids = ids
        self._kept: dict[tuple[int, ...], Descriptor] = {}

    def find(self, addresses: tuple[int, ...]) -> Descriptor:
        """The binding to arrays, the last of which is the workspace."""
        found = self._kept.get(addresses)
        if found is None:
            found = self._plan.bind(self._ids, addresses[:-1], addresses[-1])
            if len(self._kept) >= _MOST_PACKS:
                self._kept = {}
            self._kept[addresses] = found
        return found


class Properties(NamedTuple):
    """A device as cuDNN describes it."""

    descriptor: Descriptor
    name: str


_lock = lock_across_forks()
_plans: OrderedDict[Wanted, Plan | Refusal] = OrderedDict()
_properties: dict[int, Properties] = {}


def forget() -> None:
    """Plan anew, and ask what the devices are."""
    with _lock:
        _plans.clear()
        _properties.clear()


register_cache("cuDNN plans", lambda: len(_plans), forget)


def find(wanted: Wanted) -> Plan | Refusal:
    """The plan for what is wanted, made at the first time; or why there is none."""
    with _lock:
        found = _plans.get(wanted)
        if found is None:
            with on_device(wanted.device):
                found = _choose(wanted)
            _plans[wanted] = found
            while len(_plans) > _MOST_PLANS:
                _plans.popitem(last=False)
        _plans.move_to_end(wanted)
        return found


def properties(device: int) -> Properties:
    """A device as cuDNN describes it."""
    if device not in _properties:
        handle(device)  # starts cuDNN there, or says why that fails
        descriptor = Descriptor(Kind.DEVICE_PROPERTIES, [(Name.DEVICEPROP_DEVICE_ID, Type.INT32, [device])])
        _describe(device, descriptor)
    return _properties[device]


def describe(device: int, text: str) -> None:
    """Plan for a device that is described by the JSON of its properties, and need not be here."""
    characters = [bytes([byte]) for byte in text.encode()]
    attribute = (Name.DEVICEPROP_JSON_REPRESENTATION, Type.CHAR, characters)
    _describe(device, Descriptor(Kind.DEVICE_PROPERTIES, [attribute]))


def _describe(device: int, descriptor: Descriptor) -> None:
    size = descriptor.count(Name.DEVICEPROP_JSON_REPRESENTATION, Type.CHAR)
    text = b"".join(descriptor.get(Name.DEVICEPROP_JSON_REPRESENTATION, Type.CHAR, size)).rstrip(b"\0")
    _properties[device] = Properties(descriptor, json.loads(text)["deviceName"])


def _choose(wanted: Wanted) -> Plan | Refusal:
    try:
        graph = build(wanted.graph)
    except CudnnError as error:
        if error.is_refusal:
            return Refusal(str(error))
        raise
    here = properties(wanted.device)
    tuned = tuning.find(wanted, here.name)
    if tuned is not None:
        try:
            offer = engines.chosen(graph, here.descriptor, tuned)
            if not offer.notes & wanted.forbidden:
                return Plan(offer, here.descriptor, wanted.device, "tuned")
            tuning.tell(f"its engine {tuned.engine} is not allowed here")
        except CudnnError as error:
            tuning.tell(f"its engine {tuned.engine} cannot be had: {error}")
    plans = _offered(wanted, graph, here)
    if tuning.is_searching():
        candidates = list({plan.choice: plan for plan in plans}.values())
        best = tuning.search(wanted, here.name, candidates)
        return best or Refusal(_no_engine(wanted))
    return next(plans, None) or Refusal(_no_engine(wanted))


def _offered(wanted: Wanted, graph: Descriptor, here: Properties) -> Any:  # Any: a generator of Plans
    """A plan of each engine that may compute the graph, the best first by cuDNN's heuristics."""
    for offer in engines.offers(graph, here.descriptor):
        if offer.notes & wanted.forbidden:
            continue
        try:
            yield Plan(offer, here.descriptor, wanted.device, "by its heuristics")
        except CudnnError as error:
            if not error.is_refusal:
                raise


def _no_engine(wanted: Wanted) -> str:
    notes = ", ".join(sorted(note.name.lower() for note in wanted.forbidden))
    return f"cuDNN {version_text(version())} has no engine for it without {notes}"
