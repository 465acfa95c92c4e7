"""The cache of calls of layers, which finds the parameters of a call made before without checking it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.initializer import BaseInitializer
from atled.parameter import holds_parameter, present_scope
from atled.variable import Variable

_LIMIT = 5_000

_READ = frozenset((int, float, bool, str, type(None)))
# Initializers and what they draw from: nothing depends on them once the parameters are there.
_UNREAD = (BaseInitializer, FunctionType, np.random.RandomState, np.random.Generator)


class LayerCall:
    """The one call a layer reduces to: `function(input, *parameters, **attributes)`.

    A layer returns it instead of calling the function to say that it may be cached: that the layer does nothing else,
    that the parameters are in its own scope, and that the shape of the input, the other arguments and the parameters
    of those names determine the call but for the input's values.

    Args:
        function: one of `atled.functions`.
        inputs: the input of the layer, of any shape and dtype; then its parameters, None for an absent one.
        attributes: the other arguments of the function; a list is taken as a tuple.
    """

    __slots__ = ("attributes", "function", "inputs")

    def __init__(self, function: Callable[..., Any], *inputs: Variable | NdArray | None, **attributes: Any) -> None:
        self.function = function
        self.inputs = inputs
        # The caller may change a list later.
        self.attributes = {name: tuple(x) if type(x) is list else x for name, x in attributes.items()}

    def run(self) -> Any:
        """Call the function."""
        return self.function(*self.inputs, **self.attributes)


class CachedLayer:
    """A cached call of a layer, complete but for its input.

    Args:
        call: what the layer reduced to.
        parameters: those of the call; None for an absent one.
    """

    __slots__ = ("_attributes", "_function", "_guards", "_parameters")

    def __init__(self, call: LayerCall, parameters: Sequence[Variable | None]) -> None:
        self._function = call.function
        self._parameters = parameters
        self._attributes = call.attributes
        self._guards = [(p.value, p.value.need_grad, p.value.shape) for p in parameters if p is not None]

    def is_valid(self) -> bool:
        """Whether no parameter's shape or need_grad has changed."""
        for value, need_grad, shape in self._guards:
            if value.details.need_grad is not need_grad or value.shape != shape:
                return False
        return True

    def run(self, inp: Variable | NdArray) -> Any:
        """Call the function on an input of the shape that the key of the call has."""
        return self._function(inp, *self._parameters, **self._attributes)


def remember(table: dict[Hashable, Any], key: Hashable, call: LayerCall) -> None:
    """Cache a call, if all its parameters are stored ones; to be called in the scope of the layer.

    Args:
        table: that of `FINDINGS` before the parameters were asked for.
        key: the call's `key_of`.
        call: what the layer reduced to.
    """
    parameters = [x for x in call.inputs[1:] if x is None or isinstance(x, Variable)]
    if len(parameters) != len(call.inputs) - 1:
        return
    if not all(p is None or (p.value.is_leaf and holds_parameter(p)) for p in parameters):
        return  # such as one that shares the stored one's arrays: each call makes another
    if len(table) >= _LIMIT:
        table.clear()
    table[key] = CachedLayer(call, parameters)


def key_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable | None:
    """The key of a call in the cache: the layer, scope, kind and shape of the input, and the other arguments.

    Returns:
        None for a call that cannot be cached.
    """
    inp: Any = args[0] if args else None
    kind = type(inp)
    if kind is Variable:
        shape = inp.value.shape
    elif kind is NdArray:
        shape = inp.shape
    else:
        return None
    parts: list[Any] = [function, present_scope(), kind, shape, len(args)]  # or names could be taken for arguments
    for value in args[1:] if not kwargs else (*args[1:], *kwargs, *kwargs.values()):
        kind = type(value)
        parts.append(kind)  # 1, 1.0 and True are equal, and yet not the same argument
        if kind in _READ:
            parts.append(value)
        elif kind is tuple or kind is list:
            for item in value:
                if type(item) is not int:
                    return None
            parts.append(tuple(value))
        elif kind is np.ndarray and value.ndim > 1:
            parts.append(value.shape)  # first values of a parameter
        elif kind is np.ndarray and not value.dtype.hasobject:
            parts += (value.dtype, value.tobytes(), value.ndim)  # may be sizes, such as `pad`
        elif not isinstance(value, _UNREAD):
            return None
    return tuple(parts)
