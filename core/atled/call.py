"""One op call as an implementation sees it: descriptions in (`Call`), prepared work out (`Prepared`).

Shapes are known before data. So an implementation is asked twice: `prepare(call)` once per call
description, for everything that can be decided without data, and then what it returned, for every
execution, to do nothing but launch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc as ArrayDesc  # part of this module for those who write plugins
from atled.dtypes import is_float, is_narrow
from atled.type_configs import declared

if TYPE_CHECKING:
    from atled.ops.spec import OpSpec


RANGE_BLOCK_WORDS = 256
"""The most words of the block of a range kernel of which a carrying kernel makes a copy for each share."""


class RowWord(IntEnum):
    """The words of a row of a native program, which an executor runs by `run_program`."""

    KERNEL = 0  # its address
    BLOCK = 1  # address of its argument block
    PARTS = 2
    TICKS = 3  # how long it takes: 0 at first, then the executor's own
    COUNT = 4  # address of the count of such rows that are done, or 0: no handler of a signal runs before or within one


class FormWord(IntEnum):
    """The words of a form, from which an executor makes a call of one kernel by `run_call`; then comes the block."""

    KERNEL = 0  # its address
    PARTS = 1  # 0: with the interpreter lock held
    BLOCK_WORDS = 2
    ADDRESSES = 3  # how many are put into the block
    FLOATS = 4  # how many are put into the block after them
    VALUES = 5  # from here on: for each of these values its word in the block, or -1


def call_form(
    kernel: int, parts: int, block: Sequence[int] | np.ndarray, addresses: Sequence[int], floats: Sequence[int]
) -> np.ndarray:
    """A form, (words,) int64; addresses, floats: the words of the block that values are put into, or -1."""
    head = [0] * FormWord.VALUES
    head[FormWord.KERNEL] = kernel
    head[FormWord.PARTS] = parts
    head[FormWord.BLOCK_WORDS] = len(block)
    head[FormWord.ADDRESSES] = len(addresses)
    head[FormWord.FLOATS] = len(floats)
    return np.array([*head, *addresses, *floats, *block], np.int64)


class RangeWord(IntEnum):
    """The words that a kernel's block has for a range kernel, from the one named by `Native.before` or `after` on."""

    KERNEL = 0  # its address, or 0
    BLOCK = 1  # address of its block
    BLOCK_WORDS = 2  # where the kernel gives each range a place: how many words that block has, else 0
    ADDRESS_WORD = 3  # and which of them holds the address of what is made


_NOTHING: Mapping[int, Any] = {}
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_COMPUTED = frozenset(("compute", "precise", "truth"))  # kinds of inputs that are floats under type configs


class Call:
    """One op call without data: what `accepts`, `prefers` and `prepare` look at.

    spec: the op spec.
    inputs: one ArrayDesc per input, variadic ones spread out; None where an optional one is absent.
    outputs: one ArrayDesc per output, auxiliary ones included.
    attributes: the checked values of all attributes but the `float` ones. Those are run-time values (a
        changing learning rate or scale must not prepare anything again), given at every execution. `channel_last` is
        among them only where it is True: who does not know it (`Implementation.layout`) sees the call without.
    device_id: where it is to run, as the Context says it; "" where only `accepts` is asked, for a manifest.
    type_config: its name, such as "float" or "half".
    deterministic: whether equal inputs must give equal bits.
    local_errors: whether the rounding error of an output may come only from the inputs that the output is defined by,
        which excludes Winograd's and FFT algorithms.
    by_operands: whether its dtypes follow from its inputs, by NumPy's promotion, not from the type config.
    wanted: per output whether anybody reads it; False only for auxiliary ones that the implementation `omits`, and for
        those that only a formula behind them reads. `run` and `bind` get None for them.
    before: by the position of an input that a formula makes the call of that formula, whose only output it is.
    after: by the position of an output that a formula reads the call of that formula, whose first input it is.
        Such calls are made for implementations that `attach` formulas to these inputs and outputs (`reads`, `writes`).
        Shapes may differ from those of the op, but element k in C order is element k.
    """

    __slots__ = (
        "_ends",
        "after",
        "attributes",
        "before",
        "by_operands",
        "deterministic",
        "device_id",
        "inputs",
        "key",
        "local_errors",
        "outputs",
        "spec",
        "type_config",
        "wanted",
    )

    _ends: tuple[int, int]  # behind the arrays that are read, and behind those that are written; made by `split`

    def __init__(
        self,
        spec: OpSpec,
        inputs: tuple[ArrayDesc | None, ...],
        outputs: tuple[ArrayDesc, ...],
        attributes: Mapping[str, Any],
        *,
        device_id: str = "",
        type_config: str = "float",
        deterministic: bool = False,
        local_errors: bool = False,
        wanted: tuple[bool, ...] | None = None,
        before: Mapping[int, Call] = _NOTHING,
        after: Mapping[int, Call] = _NOTHING,
        by_operands: bool = False,
    ) -> None:
        self.spec = spec
        self.inputs = inputs
        self.outputs = outputs
        self.attributes = attributes
        self.device_id = device_id
        self.type_config = type_config
        self.deterministic = deterministic
        self.local_errors = local_errors
        self.by_operands = by_operands
        self.wanted = (True,) * len(outputs) if wanted is None else wanted
        self.before = before
        self.after = after
        self.key: tuple[Any, ...] = (
            spec.name,
            inputs,
            outputs,
            tuple(sorted(attributes.items())),
            device_id,
            type_config,
            deterministic,
            local_errors,
            self.wanted,
        )
        if before or after:
            self.key += tuple((position, formula.spec.program, formula.key) for position, formula in self.formulas)

    def replaced_by(self, spec: OpSpec, inputs: Iterable[ArrayDesc | None], outputs: Iterable[ArrayDesc]) -> Call:
        """A call of an op without attributes, in the place of this one: on its device, under the same conditions."""
        return Call(
            spec,
            tuple(inputs),
            tuple(outputs),
            {},
            device_id=self.device_id,
            type_config=self.type_config,
            deterministic=self.deterministic,
            local_errors=self.local_errors,
            by_operands=self.by_operands,
        )

    def without(self, unread: Collection[int]) -> Call:
        """The same call, but for outputs that nobody reads."""
        wanted = tuple(position not in unread for position in range(len(self.outputs)))
        return self.attached(self.before, self.after, wanted)

    def on(
        self,
        inputs: tuple[ArrayDesc | None, ...],
        outputs: tuple[ArrayDesc, ...],
        attributes: Mapping[str, Any] | None = None,
        *,
        type_config: str = "",
    ) -> Call:
        """The same call on other arrays, under the same conditions; attributes, type_config: others, if given.

        What is attached to it stays: the arrays must be those that the formulas make and read, strides aside.
        """
        return Call(
            self.spec,
            inputs,
            outputs,
            self.attributes if attributes is None else attributes,
            device_id=self.device_id,
            type_config=type_config or self.type_config,
            deterministic=self.deterministic,
            local_errors=self.local_errors,
            by_operands=self.by_operands,
            wanted=self.wanted,
            before=self.before,
            after=self.after,
        )

    def attached(self, before: Mapping[int, Call], after: Mapping[int, Call], wanted: tuple[bool, ...]) -> Call:
        """The same call with these formulas, which asks for the outputs that are wanted."""
        return Call(
            self.spec,
            self.inputs,
            self.outputs,
            self.attributes,
            device_id=self.device_id,
            type_config=self.type_config,
            deterministic=self.deterministic,
            local_errors=self.local_errors,
            by_operands=self.by_operands,
            wanted=wanted,
            before=before,
            after=after,
        )

    @property
    def mutated(self) -> tuple[int, ...]:
        """The positions of the inputs that it changes in place, but for those that are outputs, too."""
        return self.spec.mutated_with(self.attributes)

    @property
    def channel_last(self) -> bool:
        """Whether the channel axis of its images is the last one; selection asks who knows what that means."""
        return bool(self.spec.channelled) and self.attributes.get("channel_last", False)

    @property
    def has_integers(self) -> bool:
        """Whether integers or truth values are where type configs have floats; selection asks who computes them."""
        if not self.by_operands:
            return False
        floats = (desc for i, desc in enumerate(self.inputs) if self.spec.input_at(i).kind in _COMPUTED)
        made = self.outputs if self.spec.predicate else ()
        return any(desc is not None and not is_float(desc.dtype) for desc in (*floats, *made))

    @property
    def strided(self) -> tuple[str, ...]:
        """The names of the inputs and outputs that are described with strides; selection asks who takes these."""
        outputs = self.spec.outputs
        found = [
            self.spec.input_at(n).name
            for n, desc in enumerate(self.inputs)
            if desc is not None and not desc.is_contiguous
        ]
        found += [outputs[min(n, len(outputs) - 1)] for n, desc in enumerate(self.outputs) if not desc.is_contiguous]
        return tuple(found)

    @property
    def compute_dtype(self) -> np.dtype:
        """The dtype in which the formula of an elementwise call, a copy or a cast is computed.

        Operands of others are converted as they are read and stored: as NumPy casts, by way of float32 for narrow ones.
        """
        present = [desc.dtype for desc in self.inputs if desc is not None]
        found = self.spec.computed_in(present)
        if self.spec.program is None and not is_float(self.outputs[0].dtype):
            source = present[0] if present else self.outputs[0].dtype
            found = _SINGLE if is_narrow(source) else source  # a cast, a copy, or what fills an array
        if found is not None:
            return found
        operands = (*present, *(desc.dtype for desc in self.outputs))
        return _DOUBLE if _DOUBLE in operands else _SINGLE

    @property
    def formulas(self) -> list[tuple[int, Call]]:
        """Position and call of the formulas before the op, by position, then of those behind it."""
        return [*sorted(self.before.items()), *sorted(self.after.items())]

    @property
    def reads(self) -> tuple[ArrayDesc | None, ...]:
        """The arrays that `run` reads: inputs, None for those that formulas make, then what else each formula reads."""
        own = [None if position in self.before else desc for position, desc in enumerate(self.inputs)]
        before = [desc for _, formula in sorted(self.before.items()) for desc in formula.inputs]
        return (*own, *before, *(desc for _, formula in sorted(self.after.items()) for desc in formula.inputs[1:]))

    @property
    def writes(self) -> tuple[ArrayDesc | None, ...]:
        """The arrays that `run` writes: outputs, None for those not wanted, then what formulas behind them make."""
        own = [desc if wanted else None for desc, wanted in zip(self.outputs, self.wanted, strict=True)]
        return (*own, *(desc for _, formula in sorted(self.after.items()) for desc in formula.outputs))

    def split(self, arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """The arguments of `run`: the arrays of the op, those that its formulas read besides and make, all others."""
        try:
            reads, arrays = self._ends
        except AttributeError:
            reads = len(self.reads)
            reads, arrays = self._ends = reads, reads + len(self.writes)  # a device's launch asks at each run
        own_reads, own_writes = len(self.inputs), reads + len(self.outputs)
        if own_reads == reads and own_writes == arrays:
            return arguments[:arrays], (), arguments[arrays:]
        own = (*arguments[:own_reads], *arguments[reads:own_writes])
        return own, (*arguments[own_reads:reads], *arguments[own_writes:arrays]), arguments[arrays:]

    @property
    def float_count(self) -> int:
        """How many floats `run` gets: those of the op, then those of its formulas."""
        return len(self.spec.float_names) + sum(len(formula.spec.float_names) for _, formula in self.formulas)

    @property
    def op_version(self) -> int:
        """The version of the op spec; selection refuses implementations written for another one."""
        return self.spec.version

    @property
    def precision(self) -> str:
        """To what factors may be rounded if the op sums products: "tf32" or the name of a dtype (`TypeConfig`)."""
        return declared(self.type_config).precision

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        inputs = ", ".join("None" if d is None else repr(d) for d in self.inputs)
        attributes = "".join(f", {name}={value!r}" for name, value in self.attributes.items())
        names = self.spec.outputs  # not of variadic ones: those are no auxiliary outputs, and always wanted
        unread = "".join(f", without {names[number]}" for number, wanted in enumerate(self.wanted) if not wanted)
        formulas = "".join(f", with {formula}" for _, formula in self.formulas)
        return f"{self.spec.name}({inputs}{attributes}{unread}{formulas})"


class Native:
    """A step as machine code: `int64 kernel(int64 block, int64 part, int64 parts)`.

    The kernel gets the address of an argument block of 64-bit words and computes the share `part` of
    `parts`; all shares together, in any order or at the same time, do the whole. It returns 0 or a positive
    error code from `errors`, never raises, allocates or starts threads, and checks indices before it writes.

    address: of the kernel, whose code lives as long as `owner`; or what gives it, which is asked once the kernel is to
        be launched: of an elementwise step that another one computes, never.
    block: (words,) int64; template of the argument block, everything filled in but what follows.
    arguments: word that receives the address of each argument (inputs, outputs, then the workspace if one
        was asked for); -1 where the kernel does not want it.
    attributes: word that receives each float attribute, as the bits of a float64.
    parts: the most shares that are worth having; 1 for work below some tens of microseconds.
    most_parts: the most shares there can be, for the sake of a step that is computed on the way; `parts` if not given.
    is_brief: whether it takes some microseconds at most, in one share: called alone, it keeps the interpreter lock, as
        giving that away and back would take a large part of the call.
    errors: what each positive return code means, in words.

    A kernel can have an elementwise one computed piece by piece, on what it has just made or is about to read, while
    that is in the cache. Any elementwise step fits any such kernel; nothing is compiled for the pair.

    ranges: of an elementwise step: gives the address of `int64 kernel(int64 block, int64 begin, int64 end)`, which
        computes the flat elements begin <= i < end of all outputs from the same elements of the inputs and returns 0;
        None where there is none.
    is_at_hand: of an elementwise step: says whether its kernel, for True that on ranges, for None one of the two needs
        not be compiled; None where neither ever does. See `Implementation.splits`.
    steps: of an elementwise step on few elements: `steps(count, strides, states)` gives a Native with the same
        arguments that computes it `count` times; None where there is none. From one time to the next an argument is
        `strides` bytes further on; where these are negative it begins at the last of `count` rows. By input, `states`
        has the output, which stays where it is, that it is from the second time on.
    after: by output, counted from 0, the first of two words that receive the address of a range kernel and of its
        block, or stay 0. Where they are not 0, the kernel calls it with each range of the output that it has written,
        every element exactly once; what it wrote there may be changed by that, and is not to be read again.
    bounds: by output of `after` the first of two words, if the kernel has such, for the least and the greatest number
        that the output is to hold: minus infinity and infinity in `block`. A step behind it that does no more than
        that, such as a rectifier, is put into these words, and those of `after` stay 0. Each is a float64 where the
        output is one, else a float32, in the first bytes of its word. A NaN stays one, and a zero keeps its sign.
    before: by input the same; the kernel calls it with each range before it reads that range of the input, every
        element exactly once.
    in_place: by input of `before` the output whose memory that input may have.
    range_bytes: by input of `before` how many bytes per share are memory enough for its ranges. Four words belong to
        `before` then. Where the third is not 0, the input's address is that of `parts` such pieces of memory, one after
        the other; the kernel gives each range a place in its share's piece. For that it needs a block of its own for
        the range kernel: a copy of the given one, whose length (at most RANGE_BLOCK_WORDS) is in the third word, with
        the address that its word of the number in the fourth is to hold: that of element 0, if the range's elements lie
        where they shall.
    spread: by output the first of two words as in `after`, for a step on arrays of the size of the first input, which
        reads the output spread along trailing axes. The kernel calls it with each range of the input's elements once
        the elements of the output are written that these belong to, every element exactly once.
    spread_inner: by output of `spread`, if that is not 1, how many neighbouring elements it is spread in one: the step
        reads it as (n, 1, inner), spread to (n, m, inner), as sums along leading axes are read.
    """

    __slots__ = (
        "_address",
        "after",
        "arguments",
        "attributes",
        "before",
        "block",
        "bounds",
        "errors",
        "in_place",
        "is_at_hand",
        "is_brief",
        "most_parts",
        "owner",
        "parts",
        "range_bytes",
        "ranges",
        "spread",
        "spread_inner",
        "steps",
    )

    def __init__(
        self,
        address: int | Callable[[], int],
        block: np.ndarray,
        arguments: tuple[int, ...],
        *,
        attributes: Mapping[str, int] | None = None,
        parts: int = 1,
        most_parts: int = 0,
        is_brief: bool = False,
        errors: Mapping[int, str] | None = None,
        owner: object = None,
        ranges: Callable[[], int] | None = None,
        is_at_hand: Callable[[bool | None], bool] | None = None,
        steps: Callable[[int, Sequence[int], Mapping[int, int]], Native] | None = None,
        after: Mapping[int, int] | None = None,
        bounds: Mapping[int, int] | None = None,
        before: Mapping[int, int] | None = None,
        in_place: Mapping[int, int] | None = None,
        range_bytes: Mapping[int, int] | None = None,
        spread: Mapping[int, int] | None = None,
        spread_inner: Mapping[int, int] | None = None,
    ) -> None:
        self._address = address
        self.block = block
        self.arguments = arguments
        self.attributes = dict(attributes or {})
        self.parts = parts
        self.most_parts = most_parts or parts
        self.is_brief = is_brief
        self.errors = dict(errors or {})
        self.owner = owner
        self.ranges = ranges
        self.is_at_hand = is_at_hand
        self.steps = steps
        self.after = dict(after or {})
        self.bounds = dict(bounds or {})
        self.before = dict(before or {})
        self.in_place = dict(in_place or {})
        self.range_bytes = dict(range_bytes or {})
        self.spread = dict(spread or {})
        self.spread_inner = dict(spread_inner or {})

    @property
    def address(self) -> int:
        """The address of the kernel, which may be compiled for that now."""
        if callable(self._address):
            self._address = self._address()
        return self._address


class Pack:
    """A form of one input that a kernel reads quicker, which depends on nothing but that input.

    While the input was not written, the engine makes it once, keeps it, and hands its address over; all plans that want
    the same form of an array have the same one. Where it is not kept - it would be too large, or the input is another
    one at each run - the word stays 0, and the kernel does what `native` does.

    input: position of the input, which is no longer read where there is a pack.
    word: of the step's argument block, which receives the address of the pack, or stays 0.
    form: hashable; of equal inputs, equal forms are equal bytes.
    nbytes: of the pack, which begins at a multiple of 64.
    native: machine code with three arguments: the input, the pack, a workspace.
    workspace: bytes of that.
    """

    __slots__ = ("form", "input", "native", "nbytes", "word", "workspace")

    def __init__(
        self, input: int, word: int, form: Hashable, nbytes: int, native: Native, *, workspace: int = 0
    ) -> None:
        self.input = input
        self.word = word
        self.form = form
        self.nbytes = nbytes
        self.native = native
        self.workspace = workspace


# Any: arrays of the device's own type
Bind = Callable[[Sequence[Any], Any, int], Callable[[], object]]


class Prepared:
    """What `prepare(call)` returns: how to launch the call, as machine code, as a Python callable, or both.

    run: `run(*arguments)`: input arrays (None where an optional one is absent), output arrays, the workspace
        if one was asked for, then the float attributes as Python floats in the order of the spec. The arrays are those
        of the backend's array class: NumPy arrays on the host. It writes its outputs, returns nothing, and is
        stateless and reentrant. The random state of a random op is a NumPy array everywhere, to be read only, and
        before it returns.
    native: the same as machine code (`Native`); for host backends, and instead of `run` for one with an executor.
    workspace: bytes of memory for the run (uint8 array, 64-byte aligned) that the caller supplies for each run.
    note: what was chosen and why, for `explain` and the plan's listing, such as "direct, 8x48 tiles".
    queued: whether all that `run` does is to put work into the device's queue, which is done in order: it does not
        wait, allocate or read back. Such steps make up device programs (`ArrayClass.program`).
    bind: of a queued one, `bind(arrays, table, first) -> launch`, for arrays that stay the same from run to run,
        and are kept alive as long as the launch.
        `arrays` are those that `run` gets, the workspace included; `launch()` puts the same work into the queue.
        Numbers that change are read by the device when its turn comes, from `table`, its own int64 array: from word
        `first` on the float attributes in the order of the spec, as the bits of float64; then, for a random op, key and
        count of its random state, whose argument is None. A step without any gets None as its table. `bind` and
        `launch` must not look at them. Nothing is allocated or waited for by `launch`, which may be called while the
        device records a program.
        Without `bind` only those steps are part of programs whose floats never change.
    may_fail: of a queued one, what the device may find wrong while it works, such as "an index is out of range". `run`
        and `bind` get two arguments more, behind the workspace: the flag of the device, its own (1,) int64 array, and a
        number; what goes wrong writes the number into the flag if that is still 0, and nothing beside the outputs. The
        host looks at the flag when it waits for the device, and raises an error then: IndexError for what is "out of
        range".
    heeds_failure: of a queued one, that it changes nothing where the flag is not 0. `run` and `bind` get the flag, as
        above, in front of the number if both are said. What changes arrays (updates, running statistics) and does not
        heed waits for what may have failed before.
    packs: of one with native=: the forms of its inputs that it would like to be given ready-made (`Pack`).
    """

    __slots__ = ("bind", "heeds_failure", "may_fail", "native", "note", "packs", "queued", "run", "workspace")

    def __init__(
        self,
        run: Callable[..., None] | None = None,
        *,
        native: Native | None = None,
        workspace: int = 0,
        note: str = "",
        queued: bool = False,
        bind: Bind | None = None,
        may_fail: str = "",
        heeds_failure: bool = False,
        packs: Sequence[Pack] = (),
    ) -> None:
        if run is None and native is None:
            raise TypeError("Prepared needs run=, native=, or both")
        if queued and (run is None or native is not None):
            raise TypeError("Prepared(queued=True) is for a device: it needs run= and has no native=")
        if bind is not None and not queued:
            raise TypeError("Prepared(bind=...) needs queued=True")
        if (may_fail or heeds_failure) and not queued:
            raise TypeError("Prepared(may_fail=...) and Prepared(heeds_failure=True) need queued=True")
        if packs and native is None:
            raise TypeError("Prepared(packs=...) needs native=")
        self.packs = tuple(packs)
        self.may_fail = may_fail
        self.heeds_failure = heeds_failure
        self.queued = queued
        self.bind = bind
        self.run = run
        self.native = native
        self.workspace = workspace
        self.note = note
