"""Attributes of ops as NNabla's messages hold them, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atled.errors import four_parts
from atled.files.messages import Message
from atled.ops.spec import OpSpec

# Fields of later versions for which an op has no attribute, with what the op does: absent fields read as 0.
_FIXED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    # (written, accepted). Matters for weights that are exactly 0, which atled, as NNabla 1.0, makes -1.
    "quantize_zero_to": (-1.0, (-1.0, 0.0, 1.0)),
    "largest": (True, (True,)),
    # Whether memory is shared is for the plan to decide.
    "inplace": (False, (False, True)),
}


def put_attributes(asked: str, function: Message, spec: OpSpec, attributes: Mapping[str, Any]) -> None:
    """Write an op's checked attributes into its message within `function`.

    Raises ValueError for an attribute that NNabla's format does not have and that is not at its default.
    """
    field_name = f"{spec.function}_param"
    fields = function.DESCRIPTOR.fields_by_name
    known: dict[str, Any] = {}
    if field_name in fields:
        message = getattr(function, field_name)
        message.SetInParent()
        known = {field.name: field for field in message.DESCRIPTOR.fields}
        for name, field in known.items():
            value = attributes[name] if name in attributes else _FIXED.get(name, (None,))[0]
            if value is not None:
                _put(message, field, value)
    for attribute in spec.attributes:
        free = attribute.hidden or attribute.name == "output_stat"  # which shows in the count of outputs
        if attribute.name in known or free or attributes[attribute.name] == attribute.default:
            continue
        raise ValueError(
            four_parts(
                f"{asked}, function {function.name!r}",
                f"NNabla's format has no attribute {attribute.argument} of {spec.function}, "
                f"which is {attributes[attribute.name]!r}",
                "",
                f"leave {attribute.argument} at its default, {attribute.default!r}",
            )
        )


def _put(message: Message, field: Any, value: Any) -> None:
    if field.message_type is not None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        inner.dim.extend(value)
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    else:
        # The number that a logical function reads as a truth value is one in the format.
        setattr(message, field.name, bool(value) if field.cpp_type == field.CPPTYPE_BOOL else value)


def taken_attributes(asked: str, function: Message, spec: OpSpec, batch_size: int) -> dict[str, Any]:
    """The attributes in a function's message, as a call takes them; those not in the format are left out.

    Sizes of -1, but in a reshape, stand for the batch size.

    Raises ValueError for a field that the op has no attribute for, unless it says what the op does anyway.
    """
    message = _message(asked, function, spec.function)
    if message is None:
        return {}
    attributes = {attribute.name: attribute for attribute in spec.attributes if not attribute.hidden}
    taken: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = _take(message, field)
        attribute = attributes.get(field.name)
        if attribute is None:
            # Sizes of 0, such as the output_padding of a deconvolution, are as good as none.
            sizes = () if isinstance(value, tuple) and not any(value) else value
            if sizes not in _FIXED.get(field.name, (None, (0, "", ())))[1]:
                raise ValueError(
                    four_parts(
                        asked,
                        f"{spec.function} has no attribute {field.name}, which is {value!r} here",
                        "",
                        "save the network without it",
                    )
                )
        # Both libraries write down all axes where a call says none; an empty list is one that the call gave.
        elif value != () or attribute.default is not None or field.name == "axes":
            if field.name == "shape" and spec.name != "Reshape":
                value = tuple(batch_size if size == -1 else size for size in value)
            taken[field.name] = value
    return taken


def fields_of(asked: str, function: Message, name: str) -> dict[str, Any]:
    """All attributes in a function's message, as the format has them; nothing where it has no message.

    name: of the function.
    """
    message = _message(asked, function, name)
    return {} if message is None else {field.name: _take(message, field) for field in message.DESCRIPTOR.fields}


def _message(asked: str, function: Message, name: str) -> Message | None:
    """The message of a function's attributes, None if there is none; ValueError for that of another function."""
    field_name = f"{name}_param"
    given = function.WhichOneof("parameter")
    if given is not None and given != field_name:
        raise ValueError(
            four_parts(asked, f"the attributes are those of another function ({given})", "", "save the network again")
        )
    return None if given is None else getattr(function, field_name)


def _take(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None:
        return tuple(value.dim)
    return tuple(value) if field.is_repeated else value
