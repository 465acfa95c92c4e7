"""GenerativeAdversarial: a generator whose outputs a discriminator judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.neon.layers.layer_container import LayerContainer
from atled.neon.layers.sequential import Sequential, flattened


class GenerativeAdversarial(Sequential):
    """A generator and a discriminator, one behind the other.

    generator, discriminator: layers or lists of them; from here on Sequentials.

    Each can compute by itself: `discriminator.fprop(data)`; `discriminator.bprop(error)` gives the error that
    `generator.bprop` takes. `layers_to_optimize` of each are its parameters.
    """

    def __init__(self, generator: Any, discriminator: Any, name: str | None = None) -> None:
        told = type(self).__name__
        self.generator, self.discriminator = (
            each if isinstance(each, Sequential) else Sequential(flattened(told, each))
            for each in (generator, discriminator)
        )
        super().__init__([self.generator, self.discriminator], name)

    def get_description(  # type: ignore[override]  # the order of arguments is neon's
        self, get_weights: Any = False, keep_states: bool = True, skip: Sequence[str] = ()
    ) -> dict[str, Any]:
        """See LayerContainer; its config has generator and discriminator."""
        described = LayerContainer.get_description(
            self, get_weights, keep_states, ("generator", "discriminator", *skip)
        )
        generator, discriminator = described["config"].pop("layers")
        described["config"].update(generator=generator, discriminator=discriminator)
        return described

    def _pairs(self, pdict: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        config = pdict.get("config") if isinstance(pdict, dict) else None
        if isinstance(config, dict) and {"generator", "discriminator"} <= config.keys():
            pdict = {"config": {"layers": [config["generator"], config["discriminator"]]}}
        return super()._pairs(pdict)
