"""Model: a network that is trained, evaluated and saved."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.calls.checks import check_numbers
from atled.neon.layers.layer import GeneralizedCost, Layer
from atled.neon.layers.layer_container import LayerContainer
from atled.neon.layers.sequential import Sequential
from atled.neon.models.evaluation import evaluated, outputs_of
from atled.neon.models.interruption import Interruption
from atled.neon.models.replay import StepReplay
from atled.neon.models.saving import SavedModel
from atled.neon.models.shortcuts import set_shortcuts
from atled.neon.models.step_plan import StepPlan, noted_calls
from atled.neon.nervana_object import NervanaObject


class Model(SavedModel, NervanaObject):
    """A network of layers.

    layers: a list of layers, a container, a description as `get_description` or `serialize` give it, or the path of
        what `save_params` wrote.
    dataset: data whose shape is that of the inputs; with it, `initialize` is called at once.
    weights_only: of a description, to load no states of an optimizer.

    layers: from here on the container.  cost, optimizer: those of the last `fit`.
    epoch_index: how many epochs were trained.  finished: what a callback sets to True to end `fit` with the epoch.
    nbatches: how many batches an epoch of the last `fit` has; None where the dataset does not tell.
    initialized: whether the layers have their memory.
    total_cost: the mean cost of the batches of the last epoch.

    TypeError: layers are none of these.
    """

    def __init__(
        self,
        layers: Any,
        dataset: Any = None,
        weights_only: bool = False,
        name: str = "model",
        optimizer: Any = None,
    ) -> None:
        super().__init__(name)
        self.cost: Any = None
        self.optimizer = optimizer
        self.epoch_index = 0
        self.finished = False
        self.nbatches: int | None = None
        self.initialized = False
        self.total_cost: Any = None
        self._made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._replay: StepReplay | None = None
        self._shortcuts: list[Any] = []
        if isinstance(layers, LayerContainer):
            self.layers: Any = layers
        elif isinstance(layers, list | tuple | Layer):
            self.layers = Sequential(layers)
        elif isinstance(layers, dict):
            self.layers = None
            self.deserialize(layers, load_states=not weights_only)
        elif isinstance(layers, str | os.PathLike):
            self.layers = None
            self.load_params(layers, load_states=not weights_only)
        else:
            wrong = f"layers are of type {type(layers).__name__}"
            remedy = "give a list of layers, a container, a description, or the path of a saved model"
            raise TypeError(four_parts(self._told, wrong, "", remedy))
        if dataset is not None:
            self.initialize(dataset)

    @property
    def _told(self) -> str:
        return f"{self.classnm} {self.name!r}"

    @property
    def layers_to_optimize(self) -> list[Any]:
        """All layers with parameters."""
        found: list[Any] = self.layers.layers_to_optimize
        return found

    @property
    def plan(self) -> StepPlan:
        """The layer calls of a step of the last `fit`, in order, with their plans, and what is replayed of it.

        RuntimeError: there was none.
        """
        if not self._made:
            raise RuntimeError(four_parts(f"the plan of {self._told}", "no step was trained", "", "call fit first"))
        return StepPlan(self._present, self._made, str(self._replay or ""))

    def initialize(self, dataset: Any, cost: Any = None) -> None:
        """Make the memory of all layers, once, and of a cost.

        dataset: data with a `shape`, sizes, or a tensor.  cost: such as GeneralizedCost.
        A CrossEntropyBinary behind a Logistic sets its `shortcut`: the error is then y - t as a whole.
        TypeError, ValueError: sizes that do not fit a layer, or the cost.
        """
        if not self.initialized:
            self.layers.configure(dataset)
            self.layers.allocate()
            self.layers.allocate_deltas()
            self.initialized = True
        if cost is not None:
            if isinstance(self.layers.out_shape, list) and isinstance(cost, GeneralizedCost):
                wrong = f"{type(cost).__name__} is one cost for {len(self.layers.out_shape)} outputs"
                remedy = "give a Multicost, with a cost for each"
                raise ValueError(four_parts(f"{self._told}.initialize", wrong, "", remedy))
            cost.initialize(self.layers)
            self.cost = cost
            set_shortcuts(self.layers, cost, self._shortcuts)

    def set_batch_size(self, N: int | None) -> None:
        """How many columns of each step count."""
        self.layers.set_batch_size(N)

    def set_seq_len(self, S: int | None) -> None:
        """How many steps count."""
        self.layers.set_seq_len(S)

    def fprop(self, x: Any, inference: bool = False) -> Any:
        """The outputs of the network, a list where there are several.

        x: (features, steps * batch), or a list for several inputs.  RuntimeError: it is not initialized.
        """
        if not self.initialized:
            raise RuntimeError(four_parts(f"{self._told}.fprop", "it has no memory yet", "", "call initialize before"))
        return self.layers.fprop(x, inference)

    def bprop(self, delta: Any) -> Any:
        """Gradients of all parameters from the errors of the outputs."""
        return self.layers.bprop(delta)

    def fit(self, dataset: Any, cost: Any, optimizer: Any, num_epochs: int, callbacks: Any = None) -> None:
        """Train until `epoch_index` is num_epochs, or `finished`.

        dataset: gives pairs of inputs and targets, an epoch each time it is iterated, and has a shape and `nbatches`.
        cost: such as GeneralizedCost.  optimizer: with `optimize(layers, epoch=...)`.
        callbacks: None, or an object with on_train_begin(epochs), on_epoch_begin(epoch),
            on_minibatch_begin(epoch, minibatch), on_minibatch_end(epoch, minibatch), on_epoch_end(epoch) and
            on_train_end(), which is called after an error, too.

        KeyboardInterrupt: Ctrl-C was pressed; the batch is completed, and on_train_end called, before.
        """
        needed = ("dataset", dataset, "__iter__"), ("cost", cost, "get_errors"), ("optimizer", optimizer, "optimize")
        told_to = ("callbacks", callbacks, "on_train_begin")
        check_numbers(f"{self._told}.fit", num_epochs=num_epochs)
        for what, given, method in needed if callbacks is None else (*needed, told_to):
            if isinstance(given, type):
                wrong, remedy = f"{what} is the class {given.__name__}", f"call it: {given.__name__}(...)"
                raise TypeError(four_parts(f"{self._told}.fit", wrong, "", remedy))
            if not hasattr(given, method):
                wrong = f"{what} is of type {type(given).__name__}, which has no {method}"
                remedy = "give an ArrayIterator, a GeneralizedCost, an optimizer and Callbacks, or classes like them"
                raise TypeError(four_parts(f"{self._told}.fit", wrong, "", remedy))
        self.initialize(dataset, cost)
        self.optimizer = optimizer
        self.finished = False
        self._replay = StepReplay(self)
        self.nbatches = getattr(dataset, "nbatches", None)
        told = _Told(callbacks)
        with Interruption() as interruption:
            told.on_train_begin(num_epochs)
            try:
                while self.epoch_index < num_epochs and not self.finished and not interruption.is_asked:
                    told.on_epoch_begin(self.epoch_index)
                    self._fit_epoch(dataset, told, interruption)
                    if not interruption.is_asked:
                        # Before callbacks, which may save the model: a training that goes on begins behind the epoch.
                        self.epoch_index += 1
                        told.on_epoch_end(self.epoch_index - 1)
            finally:
                told.on_train_end()
        if interruption.is_asked:
            raise KeyboardInterrupt

    def _fit_epoch(self, dataset: Any, told: Any, interruption: Interruption) -> None:
        costs = []
        for minibatch, (x, t) in enumerate(dataset):
            told.on_minibatch_begin(self.epoch_index, minibatch)
            if self._made:
                costs.append(self._step(x, t))
            else:
                with noted_calls(self._present) as made:
                    costs.append(self._step(x, t))
                self._made = made
            told.on_minibatch_end(self.epoch_index, minibatch)
            if interruption.is_asked:
                return
        if not costs:
            raise ValueError(four_parts(f"{self._told}.fit", "the dataset has no batch", "", "give one with examples"))
        self.total_cost = self._present.array(np.asarray([[np.mean(costs)]]))

    def _step(self, x: Any, t: Any) -> float:
        """Train on a batch; its cost."""
        assert self._replay is not None, "fit made it"
        cost = self._replay.step(x, t, self._gradients)
        self.optimizer.optimize(self.layers_to_optimize, epoch=self.epoch_index)
        return float(np.asarray(cost).ravel()[0])

    def _gradients(self, x: Any, t: Any) -> Any:
        """Outputs and gradients of a batch; its cost."""
        y = self.fprop(x)
        cost = self.cost.get_cost(y, t)
        self.bprop(self.cost.get_errors(y, t))
        return cost

    def eval(self, dataset: Any, metric: Any) -> np.ndarray:
        """The mean of a metric over all examples, an element for each of its numbers.

        dataset: as for `fit`, with `ndata` and `reset`.  metric: `metric(y, t, calcrange=slice)`.
        """
        if isinstance(metric, type) or not callable(metric):
            wrong = f"metric is of type {type(metric).__name__}"
            remedy = "give a metric of atled.neon.transforms, such as Misclassification()"
            raise TypeError(four_parts(f"{self._told}.eval", wrong, "", remedy))
        self.initialize(dataset, None)
        return evaluated(self, dataset, metric)

    def get_outputs(self, dataset: Any) -> Any:
        """The outputs for all examples: (examples, features), of sequences (examples, steps, features).

        A list of arrays where there are several outputs.
        """
        self.initialize(dataset, None)
        return outputs_of(self, dataset)

    def __str__(self) -> str:
        return f"Network Layers:\n{self.layers.nested_str(1)}"


class _Told:
    """Callbacks of any kind, of which None does nothing."""

    def __init__(self, callbacks: Any) -> None:
        self._callbacks = callbacks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._callbacks, name) if self._callbacks is not None else _nothing


def _nothing(*given: Any) -> None:
    """What is told to nobody."""
