"""SavedModel: descriptions of a model, files of them, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from atled._version import __version__
from atled.errors import four_parts, shortened
from atled.neon.backends.backend import Tensor
from atled.neon.layers.layer_container import made
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.nervana_object import NervanaObject
from atled.structures import is_structure, load_pickled, load_structure, save_structure


class SavedModel(NervanaObject):
    """What a Model has for descriptions and files."""

    layers: Any
    epoch_index: int

    def get_description(  # type: ignore[override]  # the order of arguments is neon's
        self, get_weights: bool = False, keep_states: bool = False, skip: Sequence[str] = ()
    ) -> dict[str, Any]:
        """A dictionary with the description of the container under "model", and epoch_index.

        get_weights: with parameters, NumPy arrays.  keep_states: with states of the optimizer, too.
        """
        return {
            "model": self.layers.get_description(get_weights=get_weights, keep_states=keep_states),
            "epoch_index": self.epoch_index,
            "atled_version": __version__,
        }

    def serialize(self, fn: str | os.PathLike[str] | None = None, keep_states: bool = True) -> dict[str, Any]:
        """The description with parameters, which is written to a file as well where one is named."""
        described: dict[str, Any] = _plain(self.get_description(get_weights=True, keep_states=keep_states))
        if fn is not None:
            save_structure(fn, described)
        return described

    def save_params(self, param_path: str | os.PathLike[str], keep_states: bool = True) -> None:
        """Write the description with parameters to an HDF5 file, which replaces one of that name once complete.

        OSError: it cannot be written.  TypeError: a layer's argument is nothing that a file holds.
        """
        self.serialize(param_path, keep_states)

    def load_params(self, param_path: str | os.PathLike[str], load_states: bool = True) -> None:
        """Take parameters from a file of `save_params`, or a pickle of neon's; nothing in it is executed.

        Of pickles, arrays, numbers, texts, lists and dictionaries are admitted. Their layout is that of `serialize`,
        as the released neon is described; no file of its making was at hand to try.

        OSError: it is missing or cannot be read.  ValueError: it is damaged, of another kind, or of other layers; the
        model is as it was then.
        """
        load = load_structure if is_structure(param_path) else load_pickled
        self.deserialize(load(param_path), load_states=load_states)

    def deserialize(self, model_dict: dict[str, Any], data: Any = None, load_states: bool = True) -> None:
        """Take parameters from a description; a model without layers makes those described.

        model_dict: as of `serialize`, or the description of a container alone.
        data: no effect.  load_states: with states of an optimizer, where there are any.
        ValueError: it describes other layers, or none; the model is as it was then.
        """
        asked = f"deserialize of Model {self.name!r}"
        described = model_dict.get("model", model_dict) if isinstance(model_dict, dict) else None
        if not isinstance(described, dict) or not {"type", "config"} <= described.keys():
            remedy = "give what Model.serialize made"
            raise ValueError(four_parts(asked, "it has no description of layers", "", remedy))
        layers = made(_without_weights(described)) if self.layers is None else self.layers
        pairs = layers.matched(described)
        _check_pairs(asked, pairs)
        epoch = model_dict.get("epoch_index", 0)
        if not isinstance(epoch, int) or epoch < 0:
            wrong = f"epoch_index is {shortened(epoch)}"
            raise ValueError(four_parts(asked, wrong, "", "give a count of epochs, or leave it out"))
        _load(asked, pairs, load_states)
        self.layers, self.epoch_index = layers, epoch


def _check_pairs(asked: str, pairs: list[tuple[Any, Any]]) -> None:
    """ValueError: a layer with the description of another, or the only ones without parameters."""
    has_parameters = any(isinstance(each, dict) and "params" in each for _, each in pairs)
    for layer, each in pairs:
        kind = each.get("type") if isinstance(each, dict) else shortened(each)
        wrong = ""
        if not isinstance(each, dict) or str(kind).rpartition(".")[2] != layer.classnm:
            wrong = f"the file has {kind} where the model has {layer.classnm} {layer.name!r}"
        elif has_parameters and isinstance(layer, ParameterLayer) and "params" not in each:
            wrong = f"the file has no parameters of {layer.classnm} {layer.name!r}, but those of others"
        if wrong:
            raise ValueError(four_parts(asked, wrong, "", "load what was saved of the same layers"))


def _load(asked: str, pairs: list[tuple[Any, dict[str, Any]]], load_states: bool) -> None:
    """Have all layers take their parameters, or none of them."""
    before = [(layer, _noted(layer)) for layer, each in pairs if "params" in each]
    try:
        for layer, each in pairs:
            if "params" in each:
                layer.load_weights(each, load_states)
    except BaseException as error:
        for layer, noted in before:
            _put_back(layer, noted)
        if isinstance(error, KeyError | TypeError):
            remedy = "load what Model.serialize made"
            raise ValueError(four_parts(asked, f"a layer refuses its description: {error}", "", remedy)) from error
        raise


def _noted(layer: Any) -> dict[str, tuple[Any, Any]]:
    """The attributes of a layer, with the values of tensors that loading could change."""
    passing = ("inputs", "outputs", "deltas")
    return {
        name: (value, value.get() if isinstance(value, Tensor) and name not in passing else None)
        for name, value in vars(layer).items()
    }


def _put_back(layer: Any, noted: dict[str, tuple[Any, Any]]) -> None:
    vars(layer).clear()
    for name, (value, values) in noted.items():
        vars(layer)[name] = value
        if values is not None:
            value[:] = values


def _without_weights(described: Any) -> Any:
    """A description without parameters and states, of which layers are made."""
    if isinstance(described, list):
        return [_without_weights(each) for each in described]
    if isinstance(described, dict):
        is_layer = {"type", "config"} <= described.keys()
        dropped = ("params", "states") if is_layer else ()
        return {name: _without_weights(each) for name, each in described.items() if name not in dropped}
    return described


def _plain(value: Any) -> Any:
    """A description with arrays in the place of tensors."""
    if isinstance(value, Tensor):
        return value.get()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(each) for each in value)
    return value
