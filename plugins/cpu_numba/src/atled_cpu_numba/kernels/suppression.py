"""NmsDetection2d: of boxes that overlap too much the one with the highest score stays.

Only boxes whose score is not 0 are sorted and compared: the others neither suppress nor change.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    fitting_shares,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    y: int  # address
    workspace: int  # address
    batches: int
    boxes: int
    length: int  # numbers per box
    thresh: int  # bits of a float64
    nms: int  # bits of a float64
    per_class: int  # whether boxes of one class alone are compared


_NUMBERS_PER_US = 100.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, ints64, words
    from atled_cpu_numba.kernels.random.random_state import exact
    from atled_cpu_numba.kernels.shared.options import Real

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @exact  # like the reference, which decides by comparisons with a threshold
    def suppress(block, part, parts):
        w = words(block)
        boxes, length = w[Block.boxes], w[Block.length]
        thresh, nms = number(float64_of_bits(w[Block.thresh])), number(float64_of_bits(w[Block.nms]))
        zero, half = number(0), number(0.5)
        order = ints64(w[Block.workspace] + 16 * boxes * part)
        suppressed = ints64(w[Block.workspace] + 16 * boxes * part + 8 * boxes)
        for batch in range(w[Block.batches] * part // parts, w[Block.batches] * (part + 1) // parts):
            x = floats(w[Block.x] + size * batch * boxes * length)
            y = floats(w[Block.y] + size * batch * boxes * length)
            for box in range(boxes):
                at = box * length
                for i in range(4):
                    y[at + i] = x[at + i]
                objectness = zero if x[at + 4] < thresh else x[at + 4]
                y[at + 4] = objectness
                for i in range(at + 5, at + length):
                    score = x[i] * objectness
                    y[i] = zero if score < thresh else score
            for column in range(5 if w[Block.per_class] != 0 else 4, length if w[Block.per_class] != 0 else 5):
                count = 0
                for box in range(boxes):  # sorted by score, of equal ones the first first, NaN last
                    score = y[box * length + column]
                    if score == zero:
                        continue
                    place = count
                    while place > 0:
                        other = y[order[place - 1] * length + column]
                        if not (score > other or (other != other and score == score)):
                            break
                        order[place] = order[place - 1]
                        place -= 1
                    order[place] = box
                    suppressed[count] = 0
                    count += 1
                for place in range(count):
                    a = order[place] * length
                    if suppressed[place] != 0 or not y[a + column] > zero:
                        continue
                    area = max(y[a + 2], zero) * max(y[a + 3], zero)
                    for later in range(place + 1, count):
                        b = order[later] * length
                        both = number(1)
                        for i in range(2):
                            high = min(y[a + i] + y[a + 2 + i] * half, y[b + i] + y[b + 2 + i] * half)
                            low = max(y[a + i] - y[a + 2 + i] * half, y[b + i] - y[b + 2 + i] * half)
                            both *= max(high - low, zero)
                        either = area + max(y[b + 2], zero) * max(y[b + 3], zero) - both
                        if either > zero and both / either > nms:
                            suppressed[later] = 1
                for place in range(count):
                    if suppressed[place] != 0:
                        at = order[place] * length
                        y[at + column] = zero
                        if w[Block.per_class] == 0:
                            for i in range(at + 5, at + length):
                                y[i] = zero
        return 0

    return suppress


_KERNELS = kernels_by_dtype("suppress", _build)


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64 and not empty."""
    return refuse_floats(call, REALS, floats=(0,), empty=False) or True


def prepare(call: Call) -> Prepared:
    """NmsDetection2d: x -> y."""
    x = call.inputs[0]
    assert x is not None
    batches, boxes, length = x.shape
    parts = fitting_shares(share_count(x.size / _NUMBERS_PER_US, batches), 16 * boxes)
    per_class = int(call.attributes["nms_per_class"])
    return launch(
        _KERNELS[x.dtype.name],
        filled(Block, batches=batches, boxes=boxes, length=length, per_class=per_class),
        (Block.x, Block.y, Block.workspace),
        parts=parts,
        workspace=16 * boxes * parts,
        attributes={"thresh": Block.thresh, "nms": Block.nms},
    )
