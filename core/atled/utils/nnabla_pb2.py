"""NNabla's protobuf messages by the names of its generated module: `nnabla_pb2.NNablaProtoBuf()`."""

from __future__ import annotations

from typing import Any

from atled.errors import did_you_mean, four_parts
from atled.files.messages import message_classes


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    classes = message_classes(f"nnabla_pb2.{name}")
    if name not in classes:
        remedy = did_you_mean(name, classes, "dir(nnabla_pb2) lists the messages")
        raise AttributeError(four_parts(f"nnabla_pb2.{name}", "no such message", "", remedy))
    return classes[name]


def __dir__() -> list[str]:
    return sorted(message_classes("dir(nnabla_pb2)"))
