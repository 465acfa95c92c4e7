"""Containers of layers, under neon's name of the module."""

from __future__ import annotations

from typing import Any, NoReturn

from atled.errors import four_parts
from atled.neon.layers.adversarial import GenerativeAdversarial
from atled.neon.layers.deltas_tree import DeltasTree
from atled.neon.layers.layer_container import LayerContainer
from atled.neon.layers.merging import MergeBroadcast, MergeMultistream, MergeSum
from atled.neon.layers.multicost import Multicost
from atled.neon.layers.sequential import Sequential
from atled.neon.layers.tree import SingleOutputTree, Tree

__all__ = [
    "DeltasTree",
    "GenerativeAdversarial",
    "LayerContainer",
    "MergeBroadcast",
    "MergeMultistream",
    "MergeSum",
    "Multicost",
    "Sequential",
    "SingleOutputTree",
    "Tree",
]

_LEFT_OUT = frozenset(("Decoder", "Encoder", "Seq2Seq", "SkipThought"))


def left_out(module: str, name: str) -> NoReturn:
    """Refuse a name that a module does not have.

    ImportError: one that neon has; of an AttributeError `from ... import` would not show the message.
    AttributeError: any other.
    """
    if name not in _LEFT_OUT:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    remedy = "put recurrent layers into a Sequential; their fprop takes init_state, the state that they begin with"
    raise ImportError(four_parts(f"{module}.{name}", "this container of neon's is not in atled", "", remedy))


def __getattr__(name: str) -> Any:
    left_out(__name__, name)
