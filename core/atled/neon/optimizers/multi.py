"""MultiOptimizer: an optimizer for each kind of layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.nervana_object import NervanaObject
from atled.neon.optimizers.base import Optimizer, RuleOptimizer
from atled.neon.optimizers.checks import refused_layer
from atled.neon.optimizers.programs import Programs


class MultiOptimizer(Optimizer):
    """Optimizes each layer by the optimizer under its name, else under that of its class, else under "default".

    optimizer_mapping: optimizers by these names.
    map_list: the optimizers with their layers, known from the first step on.

    ValueError: there is no "default".  TypeError: one that has no `optimize`.
    """

    def __init__(self, optimizer_mapping: Mapping[str, Any], name: str | None = None) -> None:
        super().__init__(name)
        if not isinstance(optimizer_mapping, Mapping) or "default" not in optimizer_mapping:
            remedy = "give an optimizer for 'default', which those layers get that have none by name or class"
            asked = f"{self.classnm}({shortened(optimizer_mapping)})"
            raise ValueError(four_parts(asked, "there is no 'default'", "", remedy))
        for key, each in optimizer_mapping.items():
            if not callable(getattr(each, "optimize", None)):
                asked, wrong = f"{self.classnm} with {key!r}: {shortened(each)}", "it has no optimize"
                raise TypeError(four_parts(asked, wrong, "", "pass an optimizer, such as Adam()"))
        self.optimizer_mapping = optimizer_mapping
        self.map_list: dict[Any, list[Any]] | None = None
        self._programs = Programs()

    def optimize(self, layer_list: Sequence[Any], epoch: int) -> None:
        """Have each layer optimized: of atled's own optimizers all by one program, so that a failed step changes none.

        Others are called one after the other. Errors as of the optimizers.
        """
        mapped = self.map_list = self._mapped(layer_list)
        if all(isinstance(each, RuleOptimizer) and _is_plain(each) for each in mapped):
            self._programs.step(self._present, [each.group(layers) for each, layers in mapped.items()], epoch)
            for each in mapped:
                each.stepped()
            return
        for each, layers in mapped.items():
            each.optimize(layers, epoch)

    def _mapped(self, layer_list: Sequence[Any]) -> dict[Any, list[Any]]:
        mapping: Mapping[Any, Any] = self.optimizer_mapping
        found: dict[Any, list[Any]] = {}
        for layer in layer_list:
            if not hasattr(layer, "get_params"):
                raise refused_layer(f"optimize of {self.classnm} {self.name}", layer)
            names = getattr(layer, "name", None), type(layer).__name__, "default"
            key = next(name for name in names if name in mapping)
            found.setdefault(mapping[key], []).append(layer)
        return found

    @classmethod
    def gen_class(cls, pdict: dict[str, Any]) -> Any:
        """An object of the class, with the optimizers that its description describes."""
        given = dict(pdict)
        given["optimizer_mapping"] = dict(given["optimizer_mapping"])
        for key in given["optimizer_mapping"]:
            cls.recursive_gen(given["optimizer_mapping"], key)
        return cls(**given)

    def get_description(self, skip: Sequence[str] = (), **kwargs: Any) -> dict[str, Any]:
        """As of NervanaObject, with descriptions of the optimizers."""
        described = super().get_description((*skip, "optimizer_mapping"), **kwargs)
        if "optimizer_mapping" not in skip:
            described["config"]["optimizer_mapping"] = {
                key: each.get_description() if isinstance(each, NervanaObject) else each
                for key, each in self.optimizer_mapping.items()
            }
        return described


def _is_plain(optimizer: RuleOptimizer) -> bool:
    """Whether `optimize` is what RuleOptimizer does: a subclass may do more."""
    return type(optimizer).optimize is RuleOptimizer.optimize
