"""ParameterLayer: what layers with weights have beyond other layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from atled.errors import four_parts, listing, shortened
from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer
from atled.neon.layers.shapes import maps_of
from atled.neon.trees.shapes import two_axes


class ParameterLayer(Layer):
    """A layer with one tensor of weights.

    init: an initializer, or the values themselves, an array or a tensor.
    saved: names of the attributes that are saved and loaded.
    W, dW: weights and their gradient, which sums over the batch.  states: of the optimizer, one tensor each.
    weight_shape: of W.  batch_sum: (nout, 1) row sums of the outputs, where bsum asked for them.
    """

    has_params = True
    owns_delta = True
    saved: tuple[str, ...] = ("W",)

    def __init__(self, init: Any = None, name: str | None = None, parallelism: str = "Unknown") -> None:
        super().__init__(name, parallelism)
        self.init = init
        self.W: Any = None
        self.dW: Any = None
        self.weight_shape: Any = None
        self.bsum = False
        self.batch_sum: Any = None
        self.states: list[Any] = []
        self.accumulate_updates = False
        self.acc_dW: Any = None

    def allocate(self, shared_outputs: Tensor | None = None, accumulate_updates: bool = False) -> None:
        """Make outputs and, once, parameters.

        accumulate_updates: whether gradients may be added to (`set_acc_on`), which needs memory for both.
        """
        super().allocate(shared_outputs)
        if not self._has_parameters():
            self.init_params(self.weight_shape)
        if self.bsum and self.batch_sum is None:
            self.batch_sum = self._present.empty((self._maps, 1), dtype=self.W.dtype)
        if accumulate_updates and not self.accumulate_updates:
            self.accumulate_updates = True
            self.acc_params = [(self._present.zeros_like(real), real) for real in self._gradients()]
            self.acc_dW = self.acc_params[0][0]

    @property
    def _maps(self) -> int:
        """How many rows or maps the outputs have, of which there are sums."""
        return maps_of(self.out_shape)

    def _gradients(self) -> list[Tensor]:
        """The tensors that `bprop` writes gradients into."""
        return [self.dW]

    def _has_parameters(self) -> bool:
        """Whether `init_params` was called."""
        return self.W is not None and self.dW is not None

    def _check_parameters(self, call: str) -> None:
        """RuntimeError: `allocate` was not called before, of a layer without outputs of its own."""
        if not self._has_parameters():
            remedy = "call configure and allocate first, or put it into a Model, which does"
            raise RuntimeError(four_parts(f"{self._told}.{call}", "the layer has no memory yet", "", remedy))

    def init_params(self, shape: Any) -> None:
        """Make dW, and W, which the initializer fills unless it was there.

        shape: of W.  ValueError: there is no initializer, or values of another shape.  TypeError: what is none.
        """
        be = self._present
        if self.W is None:
            weights = be.empty(shape, **self.get_param_attrs())
            self._fill(weights, self.init)
            self.W = weights
        else:
            self._check_size("allocate", "the weights it was given", self.W, two_axes(shape))
        self.dW = be.zeros_like(self.W)

    def _fill(self, param: Tensor, init: Any, what: str = "weights") -> None:
        """Give a parameter its first values.  init: an initializer or values.  what: its name in messages."""
        if init is None:
            remedy = "pass init=, such as atled.neon.initializers.Gaussian()"
            raise ValueError(four_parts(f"{what} of {self._told}", "it has no initializer", "", remedy))
        if isinstance(init, Tensor | np.ndarray):
            if tuple(init.shape) != param.shape:
                wrong = f"init has shape {list(init.shape)}"
                remedy = f"give an init of shape {list(param.shape)}"
                raise ValueError(four_parts(f"{what} of {self._told}", wrong, "", remedy))
            param[:] = init
        else:
            self._check_initializer(what, init)
            init.fill(param)

    def _check_initializer(self, what: str, init: Any) -> None:
        """TypeError: it cannot fill tensors."""
        if isinstance(init, type) or not hasattr(init, "fill"):
            wrong, remedy = f"{shortened(init)} is no initializer", "give one, such as Gaussian(), or an array"
            raise TypeError(four_parts(f"{what} of {self._told}", wrong, "", remedy))

    def set_acc_on(self, acc_on: bool) -> None:
        """Whether `bprop` adds to gradients.  BufferError: it was allocated without accumulate_updates."""
        if acc_on and not self.accumulate_updates:
            remedy = "allocate it with accumulate_updates=True"
            raise BufferError(four_parts(f"{self._told}.set_acc_on(True)", "it has no memory for that", "", remedy))
        self.acc_on = acc_on

    def get_params(self) -> Any:
        """((W, dW), states)."""
        return (self.W, self.dW), self.states

    def get_params_serialize(self, keep_states: bool = True) -> dict[str, Any]:
        """`get_description` with weights and, as asked, states: NumPy arrays."""
        described = self.get_description()
        described["params"] = {name: getattr(self, name).get() for name in self.saved}
        if keep_states:
            described["states"] = _on_host(self.states)
        return described

    def get_description(  # type: ignore[override]  # the order of arguments is neon's
        self, get_weights: Any = False, keep_states: bool = True, skip: Sequence[str] = ()
    ) -> dict[str, Any]:
        """A dictionary from which `gen_class` makes the layer again; get_weights: with its parameters, too."""
        if get_weights:
            return self.get_params_serialize(keep_states)
        return super().get_description(skip=skip)

    def load_weights(self, pdict: dict[str, Any], load_states: bool = True) -> None:
        """Take parameters, and as asked states, from what `get_params_serialize` gave."""
        self.set_params(pdict)
        if load_states:
            self.set_states(pdict)

    def set_params(self, pdict: dict[str, Any]) -> None:
        """Copy the arrays of a description into the parameters, which are made where there are none.

        KeyError: an array is missing.  ValueError: one of another shape. Nothing is written then.
        """
        names, given = self.saved, pdict.get("params", pdict)
        given = given if isinstance(given, dict) else {names[0]: given}
        missing = [name for name in names if name not in given]
        if missing:
            remedy = "pass what get_params_serialize gave"
            raise KeyError(four_parts(f"{self._told}.set_params", f"{listing(missing)} are missing", "", remedy))
        values = {name: np.asarray(given[name]) for name in names}
        for name, array in values.items():
            if getattr(self, name) is not None:
                self._check_size("set_params", f"values of {name}", array, getattr(self, name).shape, np.ndarray)
        for name, array in values.items():
            if getattr(self, name) is None:
                setattr(self, name, self._present.empty(array.shape, **self.get_param_attrs()))
            getattr(self, name).set(array)

    def set_states(self, pdict: dict[str, Any]) -> None:
        """Take the optimizer's states from a description; where it has none, there are none.

        ValueError: they are not lists of arrays of the shape of the parameter, one list for each where there are
        several parameters.  TypeError: an array of other things than numbers. Nothing is changed then.
        """
        held, saved = self.get_params(), pdict.get("states", [])
        several = isinstance(held, list)
        rows = saved if several and saved != [] else [[] for _ in held] if several else [saved]
        parameters = [parameter for (parameter, _), _ in (held if several else [held])]
        if not isinstance(rows, list | tuple) or len(rows) != len(parameters):
            self._refuse_states(f"they are not lists for {len(parameters)} parameters")
        made = [self._as_states(*each) for each in zip(rows, parameters, strict=True)]
        self.states = made if several else made[0]

    def _as_states(self, saved: Any, parameter: Any) -> list[Tensor]:
        """Tensors of the arrays that belong to a parameter."""
        if not isinstance(saved, list | tuple):
            self._refuse_states(f"they are of type {type(saved).__name__}")
        for each in saved:
            found = getattr(each, "shape", ())
            if parameter is not None and found != parameter.shape:
                self._refuse_states(f"one has shape {list(found)}, its parameter {list(parameter.shape)}")
        return [self._present.array(each) for each in saved]

    def _refuse_states(self, wrong: str) -> NoReturn:
        remedy = "pass what get_params_serialize gave, or load without states"
        raise ValueError(four_parts(f"{self._told}.set_states", f"the states do not fit: {wrong}", "", remedy))


def _on_host(states: Any) -> Any:
    return [_on_host(each) if isinstance(each, list) else each.get() for each in states]
