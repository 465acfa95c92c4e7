"""What of a graph asks for the passes of lowering that few graphs need: they are imported where something does."""

from __future__ import annotations

from collections.abc import Sequence

from atled.dtypes import is_float
from atled.errors import four_parts
from atled.graph.nodes.dispatch import BetweenTransposes
from atled.graph.nodes.ir import IRNode, IRValue
from atled.ops.channel_axis import Channelled
from atled.ops.spec import SPECS
from atled.preparing import who


def wants_other_layout(node: IRNode) -> bool:
    """Whether a node's images are wanted in the other order, and have a channel axis."""
    if wanted_layout(node) != ("channel_first" if node.attributes.get("channel_last") else "channel_last"):
        return False
    assert isinstance(node.spec, Channelled) and node.inputs[0] is not None
    return node.inputs[0].ndim > len(node.attributes[node.spec.spatial])


def wanted_layout(node: IRNode) -> str | None:
    """The order that the implementation of a node asks for; "" if it takes both, None if it takes no other one."""
    if node.spec is None or node.decision is None or node.computed or not node.spec.channelled:
        return None
    made = node.decision.implementation
    if isinstance(made, BetweenTransposes):
        return "channel_first"
    if made.layout is None:
        return None
    try:
        answer = made.layout(node.decision.call)
    except Exception as error:
        error.add_note(f"while {who(made)} said the layout of {node.decision.call}")
        raise
    if answer not in ("", "channel_first", "channel_last"):
        raise ValueError(
            four_parts(
                f"the layout of {node.decision.call!r}",
                f"{who(made)} answered {answer!r}",
                'known: "channel_first", "channel_last", and "" for the one that it is in',
                "have the plugin's layout(call) give one of them",
            )
        )
    return answer


def has_read_parts(nodes: Sequence[IRNode]) -> bool:
    """Whether slices may read parts of matrix products."""
    return {"BatchMatmul", "Slice"} <= {node.name for node in nodes}


def is_float_cast(node: IRNode) -> bool:
    """Whether a node casts floats to floats."""
    if node.spec is not SPECS["Cast"] or node.computed or node.decision is None or node.inputs[0] is None:
        return False
    return is_float(node.inputs[0].dtype) and is_float(node.outputs[0].dtype)


def only_chooses(node: IRNode) -> bool:
    """Whether a node only chooses elements of what it reads (`OpSpec.window`)."""
    spec = node.spec
    return spec is not None and node.decision is not None and not node.computed and spec.chooses


def is_repeated(node: IRNode) -> bool:
    """Whether a node only repeats what it reads."""
    return node.spec is SPECS["Broadcast"] and node.decision is not None and not node.computed


def strided_images(node: IRNode) -> list[IRValue]:
    """The strided images that a node reads."""
    spec, image = node.spec, node.inputs[0] if node.inputs else None
    if spec is None or image is None or node.computed or not spec.channelled or image.desc.is_contiguous:
        return []
    return [image]


def takes_formulas_in(node: IRNode) -> bool:
    """Whether the implementation of a node compiles formulas beside it in."""
    return node.decision is not None and bool(node.decision.implementation.attaches)
