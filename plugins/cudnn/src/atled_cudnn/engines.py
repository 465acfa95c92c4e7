"""Engines: which ones cuDNN offers for a graph of operations, what they do to numbers, how a plan is made of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from atled_cudnn.constants import HEURISTICS_A, HEURISTICS_FALLBACK, Kind, Name, Type
from atled_cudnn.descriptors import Descriptor
from atled_cudnn.library import CudnnError

_MOST_NOTES = 16
_MOST_KNOBS = 64


class Choice(NamedTuple):
    """An engine by number, with the settings of its knobs: (kind of knob, value) each."""

    engine: int
    knobs: tuple[tuple[int, int], ...]


class Offer:
    """An engine configuration that cuDNN offers for a graph."""

    def __init__(self, config: Descriptor) -> None:
        self.config = config
        (self._engine,) = config.get_parts(Name.ENGINECFG_ENGINE, Kind.ENGINE, 1)

    @property
    def notes(self) -> frozenset[int]:
        """Its numerical notes."""
        return frozenset(self._engine.get(Name.ENGINE_NUMERICAL_NOTE, Type.NUMERICAL_NOTE, _MOST_NOTES))

    @property
    def choice(self) -> Choice:
        """What finds it again in another process."""
        (number,) = self._engine.get(Name.ENGINE_GLOBAL_INDEX, Type.INT64)
        # Asked how many there are cuDNN says 0, so there is room for all.
        knobs = self.config.get_parts(Name.ENGINECFG_KNOB_CHOICES, Kind.KNOB_CHOICE, _MOST_KNOBS)
        return Choice(number, tuple(map(_setting, knobs)))


def _setting(knob: Descriptor) -> tuple[int, int]:
    (kind,) = knob.get(Name.KNOB_CHOICE_KNOB_TYPE, Type.KNOB_TYPE)
    (value,) = knob.get(Name.KNOB_CHOICE_KNOB_VALUE, Type.INT64)
    return kind, value


def offers(graph: Descriptor, properties: Descriptor) -> Iterator[Offer]:
    """What cuDNN's heuristics offer, the best first; then what it always has."""
    for mode in (HEURISTICS_A, HEURISTICS_FALLBACK):
        try:
            found = Descriptor(
                Kind.ENGINE_HEURISTICS,
                [
                    (Name.ENGINEHEUR_OPERATION_GRAPH, Type.DESCRIPTOR, [graph]),
                    (Name.ENGINEHEUR_MODE, Type.HEURISTIC_MODE, [mode]),
                    (Name.ENGINEHEUR_DEVICEPROP, Type.DESCRIPTOR, [properties]),
                ],
            )
        except CudnnError as error:
            if error.is_refusal:  # some graphs have no heuristics of the first kind
                continue
            raise
        count = found.count(Name.ENGINEHEUR_RESULTS, Type.DESCRIPTOR)
        for config in found.get_parts(Name.ENGINEHEUR_RESULTS, Kind.ENGINE_CONFIG, count):
            yield Offer(config)


def chosen(graph: Descriptor, properties: Descriptor, choice: Choice) -> Offer:
    """The engine configuration of a choice. CudnnError: this cuDNN has none of that kind."""
    engine = Descriptor(
        Kind.ENGINE,
        [
            (Name.ENGINE_OPERATION_GRAPH, Type.DESCRIPTOR, [graph]),
            (Name.ENGINE_GLOBAL_INDEX, Type.INT64, [choice.engine]),
            (Name.ENGINE_DEVICEPROP, Type.DESCRIPTOR, [properties]),
        ],
    )
    knobs = [
        Descriptor(
            Kind.KNOB_CHOICE,
            [(Name.KNOB_CHOICE_KNOB_TYPE, Type.KNOB_TYPE, [kind]), (Name.KNOB_CHOICE_KNOB_VALUE, Type.INT64, [value])],
        )
        for kind, value in choice.knobs
    ]
    attributes: list[tuple[Name, Type, Sequence[Descriptor]]] = [(Name.ENGINECFG_ENGINE, Type.DESCRIPTOR, [engine])]
    if knobs:
        attributes.append((Name.ENGINECFG_KNOB_CHOICES, Type.DESCRIPTOR, knobs))
    return Offer(Descriptor(Kind.ENGINE_CONFIG, attributes))


def planned(offer: Offer, properties: Descriptor) -> Descriptor:
    """The execution plan of an engine configuration. CudnnError: the engine does not support the graph after all."""
    return Descriptor(
        Kind.EXECUTION_PLAN,
        [
            (Name.EXECUTION_PLAN_ENGINE_CONFIG, Type.DESCRIPTOR, [offer.config]),
            (Name.EXECUTION_PLAN_DEVICEPROP, Type.DESCRIPTOR, [properties]),
        ],
    )
