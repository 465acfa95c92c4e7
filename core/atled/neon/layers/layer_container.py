"""LayerContainer: what all layers that hold other layers have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.layers.base import Layer
from atled.neon.layers.branch import BranchNode
from atled.neon.layers.deltas_tree import DeltasTree
from atled.neon.nervana_object import described_class


class LayerContainer(Layer):
    """A layer made of others.

    layers: those, in the order in which they compute.
    added: of these the ones that the container itself put between others; descriptions do not have them.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.layers: list[Any] = []
        self.added: list[Any] = []

    @classmethod
    def gen_class(cls, pdict: dict[str, Any]) -> Any:
        """A container of the class; pdict: its arguments, with layers as objects or as descriptions."""
        return cls(**{name: made(value) for name, value in pdict.items()})

    @property
    def given_layers(self) -> list[Any]:
        """The layers without those in `added`."""
        return [each for each in self.layers if not any(each is one for one in self.added)]

    @property
    def layers_to_optimize(self) -> list[Any]:
        """All layers with parameters, those in containers too, each once."""
        found = {id(each): each for each in self.layers_fprop() if each.has_params}
        return list(found.values())

    def layers_fprop(self) -> Iterator[Any]:
        """The layers that are no containers, in the order of `fprop`."""
        for each in self.layers:
            if isinstance(each, LayerContainer):
                yield from each.layers_fprop()
            else:
                yield each

    def layers_bprop(self) -> Iterator[Any]:
        """The layers that are no containers, in the order of `bprop`."""
        yield from reversed(list(self.layers_fprop()))

    def allocate(self, shared_outputs: Any = None, accumulate_updates: bool = False) -> None:
        """Make memory of all layers, once.

        shared_outputs: memory for the outputs that another layer has, too.
        accumulate_updates: whether gradients may be added to (`set_acc_on`), which needs memory for both.
        """
        raise NotImplementedError(f"{self.classnm}.allocate")

    def allocate_deltas(self, global_deltas: DeltasTree | None = None) -> None:
        """Tell a pool of error buffers what all layers need; without one, make one, and have all take theirs."""
        pool = DeltasTree() if global_deltas is None else global_deltas
        self._ask(pool)
        if global_deltas is None:
            pool.allocate_buffers()
            self.set_deltas(pool)

    def _ask(self, pool: DeltasTree) -> None:
        """Tell a pool what all layers need."""
        for each in self.layers:
            each.allocate_deltas(pool)

    def set_deltas(self, delta_buffers: DeltasTree) -> None:
        """Have all layers take deltas from a pool."""
        for each in self.layers:
            each.set_deltas(delta_buffers)

    def take_deltas(self, deltas: Any) -> None:
        """Have what comes first write its errors into a tensor that is given."""
        raise NotImplementedError(f"{self.classnm}.take_deltas")

    def get_terminal(self) -> Any:
        """The layer whose outputs are those of the whole; a list of them where there are several."""
        return self.layers[-1].get_terminal()

    def set_batch_size(self, N: int | None) -> None:
        """How many columns of each step count, in all layers."""
        super().set_batch_size(N)
        for each in self.layers:
            each.set_batch_size(N)

    def set_seq_len(self, S: int | None) -> None:
        """How many steps count, in all layers."""
        super().set_seq_len(S)
        for each in self.layers:
            each.set_seq_len(S)

    def set_acc_on(self, acc_on: bool) -> None:
        """Whether `bprop` adds to gradients.  BufferError: a layer was allocated without accumulate_updates."""
        if acc_on:
            for each in self.layers_to_optimize:
                # Before any is changed; whether there is memory for it only the layer knows.
                if not getattr(each, "accumulate_updates", True):
                    each.set_acc_on(True)
        for each in self.layers:
            each.set_acc_on(acc_on)
        self.acc_on = acc_on

    def nested_str(self, level: int = 0) -> str:
        """The container and its layers, a line each, indented by two blanks per level."""
        lines = [f"{'  ' * level}{self.classnm} '{self.name}'"]
        return "\n".join([*lines, *(each.nested_str(level + 1) for each in self.layers)])

    def __str__(self) -> str:
        return self.nested_str()

    def serialize(self) -> Any:
        """What an optimizer needs of each layer with parameters."""
        return [each.serialize() for each in self.layers_to_optimize]

    def get_description(  # type: ignore[override]  # the order of arguments is neon's
        self, get_weights: Any = False, keep_states: bool = True, skip: Sequence[str] = ()
    ) -> dict[str, Any]:
        """A dictionary from which `gen_class` makes it again; get_weights: with parameters, too."""
        described = super().get_description(skip=("layers", *skip))
        described["config"]["layers"] = [
            each.get_description(get_weights=get_weights, keep_states=keep_states) for each in self.given_layers
        ]
        described["container"] = True
        return described

    def load_weights(self, pdict: dict[str, Any], load_states: bool = True) -> None:
        """Take parameters from a description that has them.

        ValueError: it describes other layers; nothing is written then.  Others as of `set_params` of layers.
        """
        for layer, described in self.matched(pdict):
            layer.load_weights(described, load_states)

    def matched(self, pdict: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
        """Layers that are no containers, each with its description. ValueError: there are not as many."""
        found: list[tuple[Any, dict[str, Any]]] = []
        for layer, described in zip(*self._pairs(pdict), strict=True):
            if isinstance(layer, LayerContainer):
                found += layer.matched(described)
            else:
                found.append((layer, described))
        return found

    def _pairs(self, pdict: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        config = pdict.get("config") if isinstance(pdict, dict) else None
        described = config.get("layers") if isinstance(config, dict) else None
        given = self.given_layers
        if not isinstance(described, list) or len(described) != len(given):
            wrong = f"the description has {len(described) if isinstance(described, list) else 'no'} layers"
            remedy = f"load what was saved of a container of {len(given)} layers"
            raise ValueError(four_parts(f"{self._told}.load_weights", wrong, "", remedy))
        return given, described


def made(value: Any, nodes: dict[str, BranchNode] | None = None) -> Any:
    """The object that a description stands for, or a list of them; anything else is given back.

    nodes: the BranchNodes that were made, by name: within a description one name is one object, which no other
    network has.

    ValueError: it describes what is no NervanaObject, or with arguments that its class does not take.
    """
    nodes = {} if nodes is None else nodes
    if isinstance(value, list):
        return [made(each, nodes) for each in value]
    if isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("config"), dict):
        kind = described_class(value["type"])
        config = {name: made(each, nodes) for name, each in value["config"].items()}
        if kind is BranchNode and isinstance(config.get("name"), str):
            return _node(config["name"], nodes)
        try:
            return kind.gen_class(config)
        except TypeError as error:
            remedy = "load a description that this version made"
            raise ValueError(four_parts(f"an object of {shortened(value['type'])}", str(error), "", remedy)) from error
    return value


def _node(name: str, nodes: dict[str, BranchNode]) -> BranchNode:
    """The node of a name, which `BranchNode(name)` does not find."""
    if name not in nodes:
        nodes[name] = BranchNode()
        nodes[name].name = name
    return nodes[name]
