"""Branches between one input, or several, and one output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.errors import did_you_mean, four_parts
from atled.neon.layers.base import Layer
from atled.neon.layers.layer_container import LayerContainer
from atled.neon.layers.sequential import branch_of, can_add, gives_none
from atled.neon.layers.shapes import interpret_in_shape

MERGES = ("recurrent", "depth", "stack")


class Merge(LayerContainer):
    """Branches on one input, whose outputs become one.

    Branches have buffers for errors in a child of the pool, so that the error that all begin with lasts; the errors
    of the input are added up in deltas that they share.

    layers: a list of branches, each a layer, a container or a list of layers.
    A branch that writes into its inputs gets a SkipNode at its head.
    """

    owns_delta = True

    def __init__(self, layers: Sequence[Any], name: str | None = None) -> None:
        super().__init__(name)
        if isinstance(layers, Layer) or not isinstance(layers, list | tuple) or not layers:
            wrong = "it has no branches" if layers in ([], ()) else f"layers are of type {type(layers).__name__}"
            kind = ValueError if layers in ([], ()) else TypeError
            raise kind(four_parts(self._told, wrong, "", "give a list of branches, one at least"))
        self.layers = [branch_of(self._told, each) for each in layers]

    def configure(self, in_obj: Any) -> Merge:
        """Take sizes, branch by branch; see Layer.  ValueError: outputs of branches that do not fit together."""
        super().configure(in_obj)
        for each in self.layers:
            if isinstance(in_obj, Layer) and gives_none(each):
                wrong = f"a branch begins with {each.layers[0].classnm}, which gives no errors back to {in_obj.name!r}"
                raise ValueError(four_parts(f"{self._told}.configure", wrong, "", "put the branches first"))
            each.configure(in_obj)
        self.out_shape = self._merged([each.out_shape for each in self.layers])
        return self

    def _merged(self, shapes: list[Any]) -> Any:
        """The sizes of the outputs from those of branches."""
        raise NotImplementedError(f"{self.classnm}._merged")

    def _refuse(self, shapes: list[Any]) -> ValueError:
        wrong = f"its branches give {', '.join(map(str, shapes))}"
        return ValueError(four_parts(f"{self._told}.configure", wrong, "", f"make branches {self._wanted}"))

    _wanted = ""

    def _ask(self, pool: Any) -> None:
        pool.proc_layer(self)
        for each in self.layers:
            each.allocate_deltas(pool.decend())

    def set_deltas(self, delta_buffers: Any) -> None:
        """See Layer; branches take theirs from a child of the pool."""
        Layer.set_deltas(self, delta_buffers)
        for each in self.layers:
            each.set_deltas(delta_buffers.decend())
        self.take_deltas(self.deltas)

    def take_deltas(self, deltas: Any) -> None:
        """See LayerContainer."""
        self.deltas = deltas
        for each in self.layers:
            each.take_deltas(deltas)

    def get_terminal(self) -> Any:
        """Itself: the outputs are its own."""
        return self


class MergeSum(Merge):
    """The sum of what branches of one input give.

    A branch whose last layer cannot add to what is there gets a SkipNode at its end.
    """

    _wanted = "of one shape"

    def __init__(self, layers: Sequence[Any], name: str | None = None) -> None:
        super().__init__(layers, name)
        for each in self.layers:
            if not can_add(each):
                each.insert(len(each.layers))

    def _merged(self, shapes: list[Any]) -> Any:
        # A branch of Linear has (n, 1) where a SkipNode has n.
        if len({interpret_in_shape(each) for each in shapes}) != 1:
            raise self._refuse(shapes)
        return max(shapes, key=lambda shape: 1 if isinstance(shape, int) else len(shape))

    def allocate(self, shared_outputs: Any = None, accumulate_updates: bool = False) -> None:
        """See LayerContainer."""
        Layer.allocate(self, shared_outputs)
        for each in self.layers:
            each.allocate(self.outputs, accumulate_updates)

    def fprop(self, inputs: Any, inference: bool = False, beta: float = 0.0) -> Any:
        """`outputs = sum of branches + beta * outputs`."""
        self._check_allocated("fprop")
        self.inputs = inputs
        for number, each in enumerate(self.layers):
            each.fprop(inputs, inference, beta=1.0 if number else beta)
        return self.outputs

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * sum of the errors of branches + beta * deltas`; None where nobody asks for them."""
        self._present.bprop_mergesum(self, alpha, beta, self.layers, error, self.deltas)
        return self.deltas


class MergeBroadcast(Merge):
    """What branches of one input give, one beside the other: each writes into its part of the outputs.

    merge: "recurrent", (features, steps) with the steps of one behind those of another; "depth", the maps of images
    (C, H, W) likewise; "stack", rows likewise.
    alphas: a factor for the errors that each branch gives back; 1 for all where there are none.

    ValueError: another merge, alphas that are not one per branch.
    """

    def __init__(
        self, layers: Sequence[Any], merge: str, alphas: Sequence[float] | None = None, name: str | None = None
    ) -> None:
        super().__init__(layers, name)
        if merge not in MERGES:
            remedy = did_you_mean(str(merge), MERGES, f"use one of {', '.join(MERGES)}")
            raise ValueError(four_parts(self._told, f"there is no merge {merge!r}", "", remedy))
        if alphas is not None and len(alphas) != len(self.layers):
            wrong = f"{len(alphas)} alphas for {len(self.layers)} branches"
            raise ValueError(four_parts(self._told, wrong, "", "give one for each"))
        self.merge = merge
        self.alphas = None if alphas is None else list(alphas)
        self._parts: list[tuple[slice, slice]] = []

    @property
    def _wanted(self) -> str:  # type: ignore[override]  # it depends on how they are merged
        shapes = {"recurrent": "(features, steps) of as many features", "depth": "images of one size"}
        return "give " + shapes.get(self.merge, "rows of as many steps")

    def _merged(self, shapes: list[Any]) -> Any:
        if self.merge == "depth":
            if any(isinstance(each, int) or each[1:] != shapes[0][1:] or len(each) < 3 for each in shapes):
                raise self._refuse(shapes)
            return sum(each[0] for each in shapes), *shapes[0][1:]
        pairs = [interpret_in_shape(each) for each in shapes]
        same = 0 if self.merge == "recurrent" else 1
        if len({pair[same] for pair in pairs}) != 1:
            raise self._refuse(shapes)
        total = sum(pair[1 - same] for pair in pairs)
        return (pairs[0][0], total) if same == 0 else (total, pairs[0][1])

    def allocate(self, shared_outputs: Any = None, accumulate_updates: bool = False) -> None:
        """See LayerContainer; each branch has a part of the outputs for its own."""
        Layer.allocate(self, shared_outputs)
        self._parts, start = [], 0
        for each in self.layers:
            rows, steps = interpret_in_shape(each.out_shape)
            count = steps * self._present.bsz if self.merge == "recurrent" else rows
            part, start = slice(start, start + count), start + count
            self._parts.append((slice(None), part) if self.merge == "recurrent" else (part, slice(None)))
        for each, view in zip(self.layers, self._views_of("outputs", self.outputs), strict=True):
            each.allocate(view, accumulate_updates)

    def _views_of(self, what: str, tensor: Any) -> list[Any]:
        """The part of each branch."""
        found: list[Any] = self._seen(what, tensor, lambda whole: [whole[part] for part in self._parts])
        return found

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """The outputs of all branches, side by side."""
        self._check_allocated("fprop")
        self.inputs = inputs
        for each, given, part in zip(self.layers, self._given(inputs), self._views_of("y", self.outputs), strict=True):
            computed = each.fprop(given, inference)
            if computed.view.cell is not part.view.cell:
                part[:] = computed  # its layers have memory of their own, as recurrent ones do
        return self.outputs

    def _given(self, inputs: Any) -> list[Any]:
        """The input of each branch."""
        return [inputs] * len(self.layers)

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * sum of alphas * errors of branches + beta * deltas`; None where nobody asks for them."""
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        views = self._views_of("e", error)
        factors = self.alphas or [1.0] * len(views)
        about = (error, self.deltas, self.out_shape, alpha, beta, factors)
        self._present.bprop_mergebroadcast(self, self.layers, views, *about)
        return self.deltas


class MergeMultistream(MergeBroadcast):
    """What branches give, each of an input of its own, one beside the other.

    Inputs are a list of tensors, one for each branch; data for it has a list of shapes.  merge: as MergeBroadcast.
    """

    owns_delta = False

    def __init__(self, layers: Sequence[Any], merge: str, name: str | None = None) -> None:
        super().__init__(layers, merge, name=name)

    def configure(self, in_obj: Any) -> MergeMultistream:
        """Take sizes, branch by branch.

        in_obj: a list with sizes for each branch, data whose `shape` is such a list, or the layer before.
        ValueError: not as many as there are branches, or outputs of branches that do not fit together.
        """
        before = isinstance(in_obj, Layer)
        shapes = in_obj.out_shape if before else getattr(in_obj, "shape", in_obj)
        if not isinstance(shapes, list | tuple) or len(shapes) != len(self.layers):
            wrong = f"sizes are {shapes}, for {len(self.layers)} branches"
            raise ValueError(four_parts(f"{self._told}.configure", wrong, "", "give a list with sizes for each branch"))
        self.prev_layer = in_obj if before else None
        self.in_shape = list(shapes)
        for each, shape in zip(self.layers, shapes, strict=True):
            each.configure(shape)
            if before:
                each.layers[0].prev_layer = True
        self.out_shape = self._merged([each.out_shape for each in self.layers])
        return self

    def _ask(self, pool: Any) -> None:
        for each in self.layers:
            each.allocate_deltas(pool.decend())

    def set_deltas(self, delta_buffers: Any) -> None:
        """Have branches take deltas, those of inputs apart: none of them is written over by another branch."""
        for each in self.layers:
            each.set_deltas(delta_buffers.decend())
            if self.prev_layer is not None:
                each.take_deltas(self._present.iobuf(each.in_shape))
        self.deltas = [each.deltas for each in self.layers] if self.prev_layer is not None else None

    def _given(self, inputs: Any) -> list[Any]:
        if not isinstance(inputs, list | tuple) or len(inputs) != len(self.layers):
            wrong = f"inputs are of type {type(inputs).__name__}"
            remedy = f"give a list of {len(self.layers)} tensors"
            raise TypeError(four_parts(f"{self._told}.fprop", wrong, "", remedy))
        return list(inputs)

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """A list of `alpha * errors of the input + beta * deltas`, one for each; None where nobody asks for them."""
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        for each, part in zip(reversed(self.layers), reversed(self._views_of("e", error)), strict=True):
            each.bprop(part, alpha, beta)
        return self.deltas
