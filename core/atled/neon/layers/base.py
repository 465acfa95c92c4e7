"""Layer: the protocol that all layers follow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.backends.backend import Tensor
from atled.neon.layers.shapes import columns_of, interpret_in_shape
from atled.neon.nervana_object import NervanaObject

if TYPE_CHECKING:
    from atled.neon.layers.deltas_tree import DeltasTree


class Layer(NervanaObject):
    """One step from a tensor to another, with memory for results and errors that lasts over the calls.

    `configure`, `allocate`, `allocate_deltas` and `set_deltas` come first, in this order; then `fprop` and `bprop`.

    in_shape, out_shape: sizes of what it takes and gives, without the batch, known from `configure` on.
    inputs, outputs, deltas: the tensors of the last `fprop` and `bprop`; deltas is None where nobody asks for errors.
    has_params: whether an optimizer has something to do here.
    owns_output, owns_delta: whether outputs and deltas are memory of its own, not that of the layer before.
    has_own_deltas: whether its deltas are no part of the buffers in which layers take turns.
    gives_deltas: whether it lends its own deltas to the layer behind, to which others add.
    acc_params: pairs of memory and a gradient, which `accumulates` adds up.
    actual_bsz, actual_seq_len: how many columns count, None for all: `set_batch_size`, `set_seq_len`.
    """

    has_params = False
    owns_output = True
    owns_delta = False
    has_own_deltas = False
    gives_deltas = False
    # What neon's MKL backend asks of a layer; nothing is different here.
    is_mklop = False

    def __init__(self, name: str | None = None, parallelism: str = "Unknown") -> None:
        super().__init__(name)
        self.parallelism = parallelism
        self.in_shape: Any = None
        self.out_shape: Any = None
        self.prev_layer: Any = None
        self.next_layer: Any = None
        self.inputs: Any = None
        self.outputs: Any = None
        self.deltas: Any = None
        self.actual_bsz: int | None = None
        self.actual_seq_len: int | None = None
        self.acc_on = False
        self.acc_params: list[tuple[Any, Any]] = []
        self.revert_list: list[Tensor] = []
        self._seen_before: dict[str, tuple[Any, Any]] = {}

    def configure(self, in_obj: Any) -> Layer:
        """Take the sizes of what will come: `in_shape`; subclasses say `out_shape`. The layer itself.

        in_obj: the layer before, sizes (int or tuple), a tensor (features, steps * batch), or data with a `shape`.
        TypeError: anything else.  ValueError: the layer before has no out_shape.
        """
        if isinstance(in_obj, Layer):
            if in_obj.out_shape is None:
                wrong = f"{in_obj._told} before it has no out_shape"
                remedy = f"configure it first; {in_obj.classnm}.configure has to set out_shape"
                raise ValueError(four_parts(f"{self._told}.configure", wrong, "", remedy))
            self.prev_layer = in_obj
            self.in_shape = in_obj.out_shape
        elif isinstance(in_obj, Tensor):
            self.in_shape = in_obj.shape[0], in_obj.shape[1] // max(1, self._present.bsz)
        elif isinstance(in_obj, int | tuple | list | np.integer):
            self.in_shape = tuple(in_obj) if isinstance(in_obj, list) else in_obj
        elif hasattr(in_obj, "shape"):
            self.in_shape = in_obj.shape
        else:
            wrong = f"{type(in_obj).__name__} has no sizes"
            remedy = "pass sizes, a layer, a tensor, or data with a shape"
            raise TypeError(four_parts(f"{self._told}.configure({shortened(in_obj)})", wrong, "", remedy))
        return self

    def allocate(self, shared_outputs: Tensor | None = None) -> None:
        """Make outputs, once.  shared_outputs: memory for them that another layer has, too."""
        self._check_configured("allocate")
        if self.outputs is None and self.owns_output:
            self.outputs = self._present.iobuf(self.out_shape, shared=shared_outputs, parallelism=self.parallelism)

    def allocate_deltas(self, global_deltas: DeltasTree) -> None:
        """Tell a pool of error buffers how large one this layer needs, unless its deltas are no part of them."""
        if not self.has_own_deltas:
            global_deltas.proc_layer(self)

    def set_deltas(self, delta_buffers: DeltasTree) -> None:
        """Take deltas, from a pool whose buffers take turns or of its own; none where no layer is before."""
        if not self.owns_delta or self.prev_layer is None:
            self.deltas = None
            return
        if getattr(self.prev_layer, "gives_deltas", False):
            self.deltas = self.prev_layer.deltas
            return
        if self.has_own_deltas:
            self.deltas = self._present.iobuf(self.in_shape, parallelism=self.parallelism)
            return
        pooled = delta_buffers.buffers[0]
        self.deltas = self._present.iobuf(self.in_shape, shared=pooled, parallelism=self.parallelism)
        delta_buffers.buffers.reverse()

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """The outputs for inputs.  inference: whether this is no training."""
        raise NotImplementedError(f"{self.classnm}.fprop")

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """From the errors of outputs those of inputs, `alpha * errors + beta * deltas`, and gradients of parameters."""
        raise NotImplementedError(f"{self.classnm}.bprop")

    def _check_configured(self, call: str) -> None:
        """RuntimeError: `configure` was not called before."""
        if self.out_shape is None:
            remedy = "call configure with the layer before, or with sizes"
            raise RuntimeError(four_parts(f"{self._told}.{call}", "the layer is not configured", "", remedy))

    def _check_allocated(self, call: str) -> None:
        """RuntimeError: `allocate` was not called before."""
        if self.outputs is None:
            remedy = "call configure and allocate first, or put it into a Model, which does"
            raise RuntimeError(four_parts(f"{self._told}.{call}", "the layer has no memory yet", "", remedy))

    def _check_size(self, call: str, what: str, given: Any, shape: tuple[int, ...], kind: type = Tensor) -> None:
        """Refuse what is not of the shape that the layer was configured for, or of another kind.

        call, what: as messages name them.  kind: of what is given, tensors or arrays.
        """
        if isinstance(given, kind) and given.shape == shape:  # type: ignore[attr-defined]  # both kinds have shapes
            return
        if not isinstance(given, kind):
            wrong, remedy = (
                f"{what} are of type {type(given).__name__}",
                f"give a {kind.__name__} of shape {list(shape)}",
            )
            raise TypeError(four_parts(f"{self._told}.{call}", wrong, "", remedy))
        wrong = f"{what} have shape {list(given.shape)}"  # type: ignore[attr-defined]  # as above
        anew = "configure and allocate the layer anew (of a model, set_batch_size, where be.bsz is another now)"
        remedy = f"give {list(shape)}, or {anew}"
        raise ValueError(four_parts(f"{self._told}.{call}", wrong, "", remedy))

    def _check_rows(self, call: str, what: str, given: Any) -> None:
        """Refuse a tensor without a row for each feature that the layer was configured for."""
        features, _ = interpret_in_shape(self.in_shape)
        found = getattr(given, "shape", (0, 0))
        if len(found) != 2 or found[0] != features:
            self._check_size(call, what, given, columns_of(self.in_shape, self._present.bsz))

    def _check_in_place(self, call: str, alpha: float, beta: float) -> None:
        """ValueError: errors that go back in their own memory would have to be scaled and added to others."""
        if alpha != 1 or beta != 0:
            wrong = f"it writes into the error, and cannot give alpha={alpha} times that plus beta={beta} times deltas"
            remedy = "put a layer with deltas of its own before it, such as SkipNode()"
            raise ValueError(four_parts(f"{self._told}.{call}", wrong, "", remedy))

    @property
    def _told(self) -> str:
        """The layer as messages name it."""
        return f"{self.classnm} {self.name!r}"

    def _parameter_object(self, make: Callable[..., Any], **sizes: Any) -> Any:
        """What a call of the backend makes for computing with these sizes.  ValueError, TypeError: they do not fit."""
        be = self._present
        try:
            return make(be.default_dtype, N=be.bsz, **sizes)
        except (ValueError, TypeError) as error:
            # In the words of the call, behind the name of the layer that asks.
            raise type(error)(f"{self._told}: {error}") from error

    def _seen(self, name: str, tensor: Any, see: Callable[[Any], Any]) -> Any:
        """What see makes of a tensor, such as a view: made anew for another tensor only.

        Calls and op-trees are found again by the identity of what they are about.
        """
        kept = self._seen_before.get(name)
        if kept is None or kept[0] is not tensor:
            kept = self._seen_before[name] = tensor, see(tensor)
        return kept[1]

    def get_terminal(self) -> Any:
        """The layer whose outputs are those of the whole: itself."""
        return self

    def set_next(self, layer: Layer) -> None:
        """Take note of the layer behind."""
        self.next_layer = layer

    def set_batch_size(self, N: int | None) -> None:
        """How many columns of each step count; None for all.  ValueError: no whole number from 1 on."""
        self._check_count("set_batch_size", N)
        self.actual_bsz = N

    def set_seq_len(self, S: int | None) -> None:
        """How many steps count; None for all.  ValueError: no whole number from 1 on."""
        self._check_count("set_seq_len", S)
        self.actual_seq_len = S

    def _steps_that_count(self, steps: int) -> int:
        """Of so many steps those that `set_seq_len` named, one at least."""
        return steps if self.actual_seq_len is None else max(1, min(self.actual_seq_len, steps))

    def _check_count(self, call: str, given: Any) -> None:
        if given is not None and (not isinstance(given, int | np.integer) or given < 1):
            remedy = "give a whole number from 1 on, or None for all"
            raise ValueError(four_parts(f"{self._told}.{call}({shortened(given)})", "it is no count", "", remedy))

    def set_acc_on(self, acc_on: bool) -> None:
        """Whether `bprop` adds to gradients, where the layer has any."""
        self.acc_on = acc_on

    def set_is_mklop(self) -> None:
        """For neon's MKL backend; no effect on results."""
        self.is_mklop = True

    def set_not_mklop(self) -> None:
        """For neon's MKL backend; no effect on results."""
        self.is_mklop = False

    def get_is_mklop(self) -> bool:
        """What was set last; False at first."""
        return self.is_mklop

    @staticmethod
    def accumulates(f: Callable[..., Any]) -> Callable[..., Any]:
        """Have a `bprop` add to the gradients of before, those in `acc_params`, while `set_acc_on` says so."""

        @functools.wraps(f)
        def adding(self: Layer, *args: Any, **kwargs: Any) -> Any:
            if not self.acc_on:
                return f(self, *args, **kwargs)
            for before, real in self.acc_params:
                before[:] = real
            result = f(self, *args, **kwargs)
            for before, real in self.acc_params:
                real[:] = real + before
            return result

        return adding

    def get_param_attrs(self) -> dict[str, Any]:
        """Keywords of what allocates parameters: where several devices would have parts of them."""
        return {"parallel": self.parallelism in ("Data", "Model"), "distributed": self.parallelism == "Model"}

    def nested_str(self, level: int = 0) -> str:
        """The layer in a line, indented by two blanks per level."""
        return "  " * level + str(self)

    def __str__(self) -> str:
        return f"{self.classnm} Layer '{self.name}': inputs {self.in_shape}, outputs {self.out_shape}"

    def serialize(self) -> Any:
        """What an optimizer needs, where the layer has parameters; else {}."""
        return self.get_params() if self.has_params else {}

    def get_params(self) -> Any:
        """Pairs of parameter and gradient with the optimizer's states."""
        return ()

    def get_description(  # type: ignore[override]  # the order of arguments is neon's
        self, get_weights: Any = False, keep_states: bool = True, skip: Sequence[str] = ()
    ) -> dict[str, Any]:
        """A dictionary from which `gen_class` makes the layer again; get_weights: with its parameters, too."""
        return super().get_description(skip=skip)

    def load_weights(self, pdict: dict[str, Any], load_states: bool = True) -> None:
        """Take parameters from a description that has them; nothing without parameters."""
