"""How the function of a layer is made of a base layer and a transform of its weight."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, TypeVar

from atled import functions
from atled.parameter import Initializer  # noqa: F401  # for typing.get_type_hints of a layer
from atled.parametric.api import parametric_function_api
from atled.parametric.arguments import Argument, Signature, docstring
from atled.parametric.base_layers import (
    Affine,
    BaseLayer,
    Convolution,
    Deconvolution,
    DepthwiseConvolution,
    DepthwiseDeconvolution,
)
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import Array  # noqa: F401  # for typing.get_type_hints of a layer
from atled.variable import Variable

LAYERS: dict[str, Callable[..., Any]] = {}
"""The functions of all layers made here, by name."""

_B = TypeVar("_B", bound=BaseLayer)

_ERRORS = "an argument that does not fit the input or the parameters that are there; no parameter is made then"


class WeightTransform(Generic[_B]):
    """What layers compute with instead of their weight: a subclass adds to `LAYERS` one function per base layer.

    Its docstring begins theirs; `{layer}` stands there for the base layer, `y = {x} W + b` for its formula.

    Class attributes:
        prefix, scope: what comes before the name of the base layer, and before its scope.
        bases: the base layers.
        before: arguments that the base layer does not take, by the name of the argument they come before; "": at the
            end.
        without: arguments of the base layer that are not taken; they have their defaults.
        shown: arguments in `before` that error messages name.
        parameters: shape, dtype and meaning of each parameter; `{W}` and `{b}` stand for what the base layer says.
        source: publication that the transform is from.
    """

    prefix: ClassVar[str] = ""
    scope: ClassVar[str] = ""
    bases: ClassVar[tuple[type[BaseLayer], ...]] = (Affine, Convolution)
    before: ClassVar[Mapping[str, Sequence[Argument]]] = {}
    without: ClassVar[tuple[str, ...]] = ()
    shown: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Mapping[str, str]] = {"W": "{W}", "b": "{b}"}
    source: ClassVar[str] = ""

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__()
        for base in () if abstract else cls.bases:
            name = cls.prefix + base.function
            assert name not in LAYERS, name
            LAYERS[name] = _function(name, cls(), base)

    def call(self, layer: _B) -> Any:
        """Make the parameters and compute: here by the function of the layer's name, of inp, W, `more`, and b.

        Args:
            layer: the checked call.

        Returns:
            the result, or the `LayerCall` it is the result of.
        """
        w = layer.weight()
        more = self.more(layer)
        b = layer.bias()
        return LayerCall(
            getattr(functions, layer.name), layer.inp, w, *more, b, **layer.attributes, **self.attributes(layer)
        )

    def more(self, layer: _B) -> Sequence[Variable]:
        """The parameters that the function takes between W and b."""
        return ()

    def attributes(self, layer: _B) -> Mapping[str, Any]:
        """What the function takes beyond the attributes of the base layer."""
        return {}

    def summary(self, base: type[BaseLayer]) -> str:
        """The beginning of a layer's docstring."""
        return inspect.cleandoc(type(self).__doc__ or "").format(layer=base.title, x=base.times)


def _arguments(transform: WeightTransform[Any], base: type[BaseLayer]) -> Iterator[Argument]:
    """What a layer takes, in order."""
    for argument in base.takes:
        yield from transform.before.get(argument.name, ())
        if argument.name not in transform.without and not argument.keyword_only:
            yield argument
    yield from transform.before.get("", ())
    yield from (a for a in base.takes if a.keyword_only and a.name not in transform.without)


def _function(name: str, transform: WeightTransform[Any], base: type[BaseLayer]) -> Callable[..., Any]:
    """The function of a layer, with signature and docstring."""
    arguments = list(_arguments(transform, base))
    signature = Signature(name, arguments, [a for a in base.takes if a.name in transform.without])
    scope = transform.scope + base.scope

    def layer(*args: Any, **kwargs: Any) -> Any:
        given = SimpleNamespace(**signature.bind(args, kwargs))
        return transform.call(base(name, given, transform.shown))

    layer.__name__ = layer.__qualname__ = name
    layer.__signature__ = signature.python  # type: ignore[attr-defined]  # where inspect and help() look
    layer.__annotations__ = {argument.name: argument.annotation for argument in arguments} | {"return": "Any"}
    layer.__doc__ = docstring(
        transform.summary(base),
        {
            f"Parameters, in scope `{scope}`": {
                parameter: text.format(**base.parameters) for parameter, text in transform.parameters.items()
            },
            "Args": {a.name: a.doc for a in arguments} | {"name": f"scope above `{scope}`"},
            "Returns": base.returns,
            "Raises": {"TypeError, ValueError": _ERRORS},
            "Source": transform.source,
        },
    )
    return parametric_function_api(scope)(layer)


class NoTransform(WeightTransform[BaseLayer]):
    """The base layers themselves."""

    bases = (Affine, Convolution, Deconvolution, DepthwiseConvolution, DepthwiseDeconvolution)

    def summary(self, base: type[BaseLayer]) -> str:
        return inspect.cleandoc(base.__doc__ or "")
