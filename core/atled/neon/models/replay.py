"""Replayed steps: `fit` records what one training step assigns, and from then on runs that as few programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer
from atled.neon.layers.cost import GeneralizedCost
from atled.neon.layers.layer_container import LayerContainer
from atled.neon.message_log import logger
from atled.sequences import Recording, Replay, recorded

_ORDINARY_STEPS = 2
"""Steps one by one, on the same tensors, before one is recorded."""

_MOST_RECORDS = 16

_MOST_ELEMENTS = 1 << 20
"""Of the outputs of all layers. Beside larger ones what Python takes is little, and step by step results are written in
place, where a replay needs memory for old and new values: a network of convolutions took a tenth longer by it."""


class StepReplay:
    """Computes outputs, cost and gradients of batches: step by step, and then, where that is the same, by a replay.

    It is the same where all is done by classes of the library, on the same tensors for each batch, and nothing is read
    on the host but the cost. Where a layer is changed, a step is recorded anew.

    model: an object with be, layers and cost.
    reason: why steps run one by one; empty where they are replayed.
    """

    def __init__(self, model: Any) -> None:
        self.reason = _unknown(model) or _large(model)
        self._model = model
        self._is_refused = bool(self.reason)
        if not self._is_refused:
            self.reason = f"the first {_ORDINARY_STEPS} steps do, and those on other tensors than the one before"
        self._parts = _parts(model)
        self._replay: Replay | None = None
        # What the record was made with; held, so that one identity means one object.
        self._state: list[Any] = []
        self._identities: list[int] = []
        self._batch: list[Any] = []
        self._ordinary = 0
        self._records = 0

    def step(self, x: Any, t: Any, one_by_one: Callable[[Any, Any], Any]) -> Any:
        """The cost of a batch, as `one_by_one(x, t)` gives it, with all that this assigns.

        Where a program of a replay fails, tensors are as they were before that.
        """
        if self._is_refused:
            return one_by_one(x, t)
        batch = [*_flat(x), *_flat(t)]
        if self._replay is not None and self._identities == [*map(id, self._now(batch))]:
            self._ordinary = 0
            self._replay.run()
            cost = self._model.cost
            cost.cost = cost.cost_buffer.get()
            return cost.cost
        is_same = len(batch) == len(self._batch) and all(a is b for a, b in zip(batch, self._batch, strict=True))
        self._batch = batch
        self._ordinary = self._ordinary + 1 if is_same else 1
        if self._ordinary <= _ORDINARY_STEPS or not all(isinstance(each, Tensor) for each in batch):
            return one_by_one(x, t)
        return self._recorded(batch, lambda: one_by_one(x, t))

    def _recorded(self, batch: Sequence[Any], run: Callable[[], Any]) -> Any:
        """A step that is recorded."""
        self._replay = None
        self._parts = _parts(self._model)
        before = list(self._now(batch))
        with recorded() as recording:
            cost = run()
        self._state = list(self._now(batch))
        self._identities = [*map(id, self._state)]
        self._records += 1
        wrong = _done_by_hand(recording, self._model.cost)
        if self._identities != [*map(id, before)]:
            wrong = wrong or "a step leaves layers with other attributes than it began with"
        if self._records > _MOST_RECORDS:
            wrong = wrong or f"layers were changed {_MOST_RECORDS} times"
        if wrong:
            self._is_refused, self.reason = True, wrong
            logger.debug("Steps run one by one: %s.", wrong)
        else:
            self._replay, self.reason = recording.replay(), ""
        return cost

    def _now(self, batch: Sequence[Any]) -> Iterator[Any]:
        """All that has to be the same objects for a step to do the same."""
        model = self._model
        be, cost = model.be, model.cost
        yield from (be, be.bsz, be.closed, be.context, be.check_caffe_compat(), model.layers)
        yield from (cost, cost.costfunc, cost.outputs, cost.deltas, cost.cost_buffer)
        yield from batch
        for attributes in self._parts:
            yield from attributes.values()
            layers = attributes.get("layers")
            if layers is not None:
                yield from layers

    def __str__(self) -> str:
        if self._replay is None:
            return f"steps run one by one: {self.reason}"
        programs, of = self._replay.programs, self._replay.descriptions
        return f"steps are replayed, {of} assignments by {programs} programs:\n{self._replay.plan}"


def _done_by_hand(recording: Recording, cost: Any) -> str:
    """What Python did in a step that a replay would not do; empty where it was nothing but to read the cost."""
    for what, cell in recording.hand:
        if cell is None or cell is not cost.cost_buffer.view.cell:
            return f"{what} in each"
    return ""


def _unknown(model: Any) -> str:
    """Why it is not known what the steps of a model do in Python; empty where it is."""
    cost = model.cost
    if type(cost) is not GeneralizedCost:
        return f"the cost is a {type(cost).__name__}, which computes a part of it in Python"
    layers = list(_layers(model.layers))
    transforms = [each for layer in layers for each in vars(layer).values() if _is_transform(each)]
    for each in (model, cost.costfunc, *layers, *transforms):
        if not type(each).__module__.startswith("atled.neon."):
            return f"what a {type(each).__name__} does in Python is not known: it is no class of the library"
    return ""


def _large(model: Any) -> str:
    """Why a model is too large for a replay to pay; empty where it is not."""
    outputs = [getattr(layer, "outputs", None) for layer in _layers(model.layers)]
    # Layers that work in place have the outputs of those before.
    cells = {each.view.cell for each in outputs if isinstance(each, Tensor)}
    elements = sum(cell.size for cell in cells)
    if elements <= _MOST_ELEMENTS:
        return ""
    return f"outputs of its layers have {elements} elements; with more than {_MOST_ELEMENTS} a replay saves nothing"


def _parts(model: Any) -> list[dict[str, Any]]:
    """The attributes of all layers and functions."""
    layers = list(_layers(model.layers))
    transforms = [each for layer in layers for each in vars(layer).values() if _is_transform(each)]
    costfunc = getattr(model.cost, "costfunc", None)
    return [vars(each) for each in (*layers, *transforms, costfunc) if hasattr(each, "__dict__")]


def _is_transform(value: Any) -> bool:
    """Whether it is a function with a derivative, such as an activation."""
    return callable(value) and hasattr(value, "bprop")


def _layers(layer: Any) -> Iterator[Any]:
    """A layer, and all within."""
    yield layer
    for each in getattr(layer, "layers", None) or ():
        if isinstance(each, Layer | LayerContainer):
            yield from _layers(each)


def _flat(batch: Any) -> Iterator[Any]:
    """The tensors of a batch."""
    if isinstance(batch, list | tuple):
        for each in batch:
            yield from _flat(each)
    else:
        yield batch
