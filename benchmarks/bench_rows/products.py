"""Matrix products of well-known networks, by which rules are judged that choose how to compute one."""

from __future__ import annotations

from typing import NamedTuple


class Layer(NamedTuple):
    """y = x w of one example.  rows: of x.  items: products at once, of a w of their own each; else one w for all."""

    network: str
    rows: int
    inputs: int
    outputs: int
    items: int = 1

    @property
    def name(self) -> str:
        """In words."""
        text = f"{self.network}: {self.rows}x{self.inputs} by {self.inputs}x{self.outputs}"
        return text + (f", {self.items} items" if self.items > 1 else "")


LAYERS = (
    *(Layer("LeNet", 1, inputs, outputs) for inputs, outputs in ((784, 50), (50, 10))),
    *(Layer("MLP", 16, inputs, outputs) for inputs, outputs in ((784, 512), (512, 512), (512, 10))),
    *(Layer("ResNet", 1, inputs, 1000) for inputs in (512, 2048)),
    *(Layer("MobileNetV2", 1, inputs, 1000) for inputs in (1280,)),
    *(Layer("VGG", 1, inputs, outputs) for inputs, outputs in ((4096, 4096), (4096, 1000))),
    *(Layer("encoder", 64, inputs, outputs) for inputs, outputs in ((256, 256), (256, 1024), (1024, 256))),
    Layer("encoder", 64, 64, 64, items=4),
    *(Layer("BERT", 128, inputs, outputs) for inputs, outputs in ((768, 768), (768, 3072), (3072, 768))),
    *(Layer("BERT", 128, inputs, outputs, items=12) for inputs, outputs in ((64, 128), (128, 64))),
    *(Layer("recurrent cell", 1, inputs, outputs) for inputs, outputs in ((256, 1024), (512, 2048))),
)
