"""The exceptions for native steps that returned a code."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_char, c_int64

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Native, RowWord
from atled.errors import RefusedError, four_parts, taken_apart
from atled.graph.compile.step import Step, in_words
from atled.graph.nodes.dispatch import has_bodies
from atled.ops.spec import Input

_WORD_BYTES = 8


def native_error(step: Step, status: int, addresses: Sequence[int] = ()) -> Exception:
    """The exception for a native step that returned a code, naming plugin, op and call.

    addresses: of its inputs, as they are while it has failed: the wrong one among its indices is named then.
    """
    code = status & 0xFFFF
    assert step.native is not None
    asked, what = in_words(step.node), step.native.errors.get(code, f"error {code}")
    if has_bodies(step.node.spec):
        from atled.loop_words import LOOP_ERRORS  # lazy: few graphs have loops

        if code in LOOP_ERRORS:
            return RefusedError(four_parts(asked, what, "", "give a count from 0 to that of its rows"))
        what += f", in step {status >> 40}" if step.node.spec.kind == "Loop" else ""
    remedy = "check the values of its inputs"
    if "out of range" not in what:
        return RuntimeError(four_parts(asked, what, "", remedy))
    return IndexError(four_parts(asked, *(_out_of_range(step, addresses) or (what, "", remedy))))


def error_in_row(step: Step, status: int, rows_address: int, row: int) -> Exception:
    """The same for a step of a program, which has the addresses in its argument block.

    rows_address: of the first of all rows of the program.
    """
    assert step.native is not None
    block = c_int64.from_address(rows_address + _WORD_BYTES * (len(RowWord) * row + RowWord.BLOCK)).value
    return native_error(step, status, _addresses_in(block, step.native))


def _addresses_in(block: int, native: Native) -> list[int]:
    """Per argument its address, 0 for one that the kernel does not want."""
    words = native.arguments
    return [0 if word < 0 else c_int64.from_address(block + _WORD_BYTES * word).value for word in words]


def _out_of_range(step: Step, addresses: Sequence[int]) -> tuple[str, str, str] | None:
    """What the op's reference says of its indices, which it checks first; None where they are not at hand.

    What is wrong, what was considered, what to do.
    """
    decision = step.node.decision
    assert decision is not None
    call = decision.call
    declared = call.spec.inputs
    if len(addresses) < len(call.inputs) or all(each.kind != "index" for each in declared):
        return None
    inputs = map(_as_given, declared, call.inputs, addresses)
    try:
        call.spec.reference(*inputs, **call.attributes)
    except IndexError as error:
        wrong, considered, remedy = taken_apart(str(error))
        return wrong.partition("): ")[2] or wrong, considered, remedy
    return None


def _as_given(declared: Input, desc: ArrayDesc | None, address: int) -> np.ndarray | None:
    """An input for the reference: indices as they are; of others the values do not matter."""
    if desc is None:
        return None
    if declared.kind != "index" or not address:
        return np.broadcast_to(np.zeros((), desc.dtype), desc.shape)
    return np.frombuffer(memoryview((c_char * desc.nbytes).from_address(address)), desc.dtype).reshape(desc.shape)
