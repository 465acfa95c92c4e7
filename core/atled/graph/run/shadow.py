"""Verification of one step by the reference: its inputs are copied before it runs, its results compared after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.arrays.guarded import GuardedArray
from atled.call import Call
from atled.dtypes import epsilon, is_float
from atled.errors import four_parts, in_words
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Slot, Step
from atled.ops.spec import OpSpec
from atled.reference import prepare_reference, reference_run
from atled.type_configs import error_of, precise_dtype
from atled_contexts import Decision, Verification, VerificationError
from atled_contexts.signals import is_of_a_handler

_SMALLEST_SCALE = 1e-3  # an array of zeros, or nearly, is compared with this instead of with its largest element

# How far a result may move, in units of what a relative change of the inputs by one rounding error moves it. Sums in
# any order stay below: the error of adding up n numbers one by one is some sqrt(n) / 2 roundings of the partial sums.
_ROUNDINGS = 32
_TRIALS = 4  # random changes, of which the largest effect counts: one alone may cancel by chance

ArrayAt = Callable[[int], Any]
"""The array of a slot: NumPy's or the device's own."""


class Shadow:
    """One run of one step by the reference, to compare with.

    outputs: memory with guards for the step to write to, by position among its arguments: for outputs in host memory
        that share it with no input.
    """

    def __init__(self, plan: Plan, step: Step, array_at: ArrayAt, floats: Sequence[float]) -> None:
        assert step.node.spec is not None and step.node.decision is not None
        self._plan = plan
        self._spec: OpSpec = step.node.spec
        self._mutated = step.node.mutated
        self._decision: Decision[Call] = step.node.decision
        self._array_at = array_at
        self._inputs = step.arguments[: step.input_count]
        self._outputs = step.arguments[step.input_count :]
        # Now, before the step runs: it may write into its inputs.
        self._before = [None if slot < 0 else self._host_copy(slot) for slot in self._inputs]
        self._floats = dict(zip(self._spec.float_names, floats, strict=True))
        read = self._memories(self._inputs)
        self._guarded = {
            position: GuardedArray(self._slot(slot).desc)
            for position, slot in enumerate(step.arguments[step.input_count :], step.input_count)
            if slot >= 0 and self._is_guarded(self._slot(slot)) and self._slot(slot).memory not in read
        }
        self.outputs = {position: memory.values for position, memory in self._guarded.items()}

    @staticmethod
    def _is_guarded(slot: Slot) -> bool:
        return slot.place.array_class is None and not slot.is_window

    def check(self) -> None:
        """Compare what the step made with the reference; VerificationError where it differs beyond the tolerance.

        So is a write beside an output, and a changed input that the op leaves alone.
        """
        self._check_guards()
        for position, values in self.outputs.items():
            self._array_at(self._outputs[position - len(self._inputs)])[...] = values
        self._check_inputs()
        got = self._found()
        wanted = self._recomputed(self._in_float64)
        if self._worst(wanted, got) is None:
            return
        # A second opinion: at a jump (rounding, comparison, overflow) the dtype of the call may fall on the other side.
        narrow = self._recomputed(self._in_own_dtype)
        if self._worst(narrow, got) is None:
            return
        # A third: where large numbers cancel, no order of adding them up is more right than another.
        worst = self._worst(wanted, got, self._slack(wanted))
        if worst is not None:
            raise self._error(*worst)

    def _results(self) -> list[tuple[str, int]]:
        """Names and slots of all that the step writes: outputs, then the inputs that it changes."""
        spec = self._spec
        names = [*spec.outputs[: len(self._outputs)]]
        names += [f"{spec.outputs[-1]}[{position}]" for position in range(len(names), len(self._outputs))]
        changed = [(f"changed {spec.input_names[position]}", self._inputs[position]) for position in self._mutated]
        return [*zip(names, self._outputs, strict=True), *changed]

    def _found(self) -> list[tuple[str, np.ndarray | None]]:
        """What the step made, by name; None for what nobody reads, or a later result of it took the memory of."""
        results = self._results()
        last = {self._slot(slot).memory: position for position, (_, slot) in enumerate(results) if slot >= 0}
        found: list[tuple[str, np.ndarray | None]] = []
        for position, (name, slot) in enumerate(results):
            kept = self.outputs.get(position + len(self._inputs)) if position < len(self._outputs) else None
            if kept is None and slot >= 0 and last[self._slot(slot).memory] == position:
                kept = self._host_copy(slot)
            found.append((name, kept))
        return found

    def _check_guards(self) -> None:
        for position, memory in self._guarded.items():
            if memory.damage:
                name = self._results()[position - len(self._inputs)][0]
                raise self._made_error(f"it writes beside its output {name}, {memory.damage}", float("nan"))

    def _check_inputs(self) -> None:
        """What the op neither changes nor has as the memory of a result must be the same bytes as before."""
        written = self._memories([*self._outputs, *(self._inputs[position] for position in self._mutated)])
        results = [self._array_at(slot) for slot in self._outputs if slot >= 0]
        for position, (slot, before) in enumerate(zip(self._inputs, self._before, strict=True)):
            if before is None or self._slot(slot).memory in written:
                continue
            if self._slot(slot).place.array_class is None and self._is_among(self._array_at(slot), results):
                continue
            if self._host_copy(slot).tobytes() != before.tobytes():  # bytes: NaN is equal to itself here
                name = self._spec.input_at(position).name
                raise self._made_error(f"it changes its input {name}, which the op does not", float("nan"))

    @staticmethod
    def _is_among(array: np.ndarray, results: Sequence[Any]) -> bool:
        """Whether an array is the memory of a result: a plan sees two arrays where a gradient is added to."""
        return any(isinstance(y, np.ndarray) and np.may_share_memory(array, y) for y in results)

    def _memories(self, slots: Sequence[int]) -> set[int]:
        return {self._slot(slot).memory for slot in slots if slot >= 0}

    def _slot(self, number: int) -> Slot:
        return self._plan.slots[number]

    def _host_copy(self, number: int) -> np.ndarray:
        slot = self._slot(number)
        array = self._array_at(number)
        if slot.place.array_class is None:
            copied: np.ndarray = array.copy()
            return copied
        values = np.empty(slot.desc.shape, slot.desc.dtype)
        if not slot.is_window:
            slot.place.download(array, values)
            return values
        # Devices only copy arrays in C order.
        slots = enumerate(self._plan.slots)
        base = next(n for n, other in slots if other.memory == slot.memory and not other.is_window)
        return slot.window_of(self._host_copy(base)).copy()

    def _recomputed(self, compute: Callable[[list[np.ndarray | None]], list[np.ndarray]]) -> list[np.ndarray]:
        inputs = [None if array is None else array.copy() for array in self._before]
        try:
            outputs = compute(inputs)
        except Exception as error:  # whatever the reference raises, the implementation gave a result instead
            if is_of_a_handler(error):
                raise
            text = f"it gave a result, where the reference raises {in_words(error)}"
            raise self._made_error(text, float("nan")) from error
        return [*outputs, *(array for position in self._mutated if (array := inputs[position]) is not None)]

    def _in_float64(self, inputs: list[np.ndarray | None]) -> list[np.ndarray]:
        for position, array in enumerate(inputs):
            if array is not None and is_float(array.dtype):
                inputs[position] = array.astype(np.float64)
        attributes = {**self._decision.call.attributes, **self._floats}
        if not self._spec.user_inputs:
            # What makes its output from nothing is told the dtype.
            hidden = [item.name for item in self._spec.attributes if item.hidden and item.kind == "dtype"]
            attributes.update(dict.fromkeys(hidden, np.dtype(np.float64)))
        values = self._spec.reference(*inputs, **attributes)
        return [np.asarray(value) for value in ([values] if isinstance(values, np.ndarray | np.generic) else values)]

    def _in_own_dtype(self, inputs: list[np.ndarray | None]) -> list[np.ndarray]:
        call = self._decision.call
        # Also those that are not wanted: they are among the results, though nothing is compared with them.
        made = [desc for formula in call.after.values() for desc in formula.outputs]
        outputs = [np.empty(desc.shape, desc.dtype) for desc in (*call.outputs, *made)]
        reference_run(call)(*inputs, *outputs, *self._floats.values())
        return outputs

    def _slack(self, wanted: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Per result how far each element may be off because of the roundings of its own inputs."""
        step = epsilon(precise_dtype(self._decision.type_config))
        rng = np.random.default_rng(0)
        slack = [np.zeros(want.shape) for want in wanted]

        def changed(inputs: list[np.ndarray | None]) -> list[np.ndarray]:
            for position, array in enumerate(inputs):
                if array is not None and is_float(array.dtype):
                    inputs[position] = array.astype(np.float64) * (1 + step * rng.uniform(-1, 1, array.shape))
            return self._in_float64(inputs)

        for _ in range(_TRIALS):
            for most, want, other in zip(slack, wanted, self._recomputed(changed), strict=True):
                with np.errstate(invalid="ignore"):  # inf - inf
                    moved = np.abs(other.astype(np.float64) - want.astype(np.float64))
                np.fmax(most, _ROUNDINGS * moved, out=most)
        return slack

    def _worst(
        self,
        wanted: Sequence[np.ndarray],
        got: Sequence[tuple[str, np.ndarray | None]],
        slack: Sequence[np.ndarray] | None = None,
    ) -> tuple[str, float, int, int, float] | None:
        """The first result that differs: name, largest difference, how many elements differ, of how many, tolerance."""
        slack = [np.zeros(())] * len(wanted) if slack is None else slack
        for want, (name, found), more in zip(wanted, got, slack, strict=True):
            if found is None:
                continue
            tolerance = self._tolerance(found.dtype)
            far, error = _differences(want, found, tolerance, more)
            if far:
                return name, error, far, found.size, tolerance
        return None

    def _tolerance(self, dtype: np.dtype) -> float:
        computed = self._spec.allowed_error(self._decision.type_config)
        return max(computed, error_of(self._spec.tolerance, dtype.name)) if is_float(dtype) else computed

    def _error(self, name: str, error: float, far: int, size: int, tolerance: float) -> VerificationError:
        return self._made_error(
            f"{far} of {size} elements of {name} differ from the reference, the largest difference is {error:.3g}",
            error,
            f"the op's tolerance is {tolerance:g}, relative to the largest element; the reference ran in float64",
        )

    def _made_error(self, wrong: str, error: float, considered: str = "") -> VerificationError:
        decision = self._decision
        return VerificationError(
            four_parts(
                f"{decision.call} by {decision.backend} of plugin {decision.plugin}",
                wrong,
                considered,
                f"report it to the authors of plugin {decision.plugin}; using='reference' computes this call without "
                "it. The arrays hold what was computed so far",
            ),
            op=decision.op,
            backend=decision.backend,
            plugin=decision.plugin,
            call=repr(decision.call),
            error=error,
        )


def _differences(want: np.ndarray, got: np.ndarray, tolerance: float, slack: np.ndarray) -> tuple[int, float]:
    """How many elements are too far from those wanted, and the largest distance; slack: allowed on top, per element."""
    if want.shape != got.shape:
        return max(want.size, got.size, 1), float("nan")
    with np.errstate(over="ignore", invalid="ignore"):  # a large number becomes inf in a narrow dtype, as it should
        want = want.astype(got.dtype)
        if not is_float(got.dtype):
            unequal = (want != got) & (slack == 0)
            return int(unequal.sum()), float(np.abs(want.astype(np.float64) - got).max(initial=0.0, where=unequal))
        wide_want, wide_got = want.astype(np.float64), got.astype(np.float64)
        distance = np.abs(wide_want - wide_got)
        finite = np.isfinite(wide_want)
        scale = max(float(np.abs(wide_want).max(initial=0.0, where=finite)), _SMALLEST_SCALE)
        near = distance <= tolerance * (scale + np.abs(wide_want)) + slack
        same = (want == got) | (np.isnan(want) & np.isnan(got))
        far = ~(near & finite & np.isfinite(wide_got) | same)
    known = far & np.isfinite(distance)
    largest = float(distance.max(initial=0.0, where=known)) if known.any() else float("nan")
    return int(far.sum()), largest


def shadow_of(
    verification: Verification, plan: Plan, step: Step, array_at: ArrayAt, floats: Sequence[float]
) -> Shadow | None:
    """The shadow of a step that is to be checked; None for one that is not picked, and for the reference itself."""
    decision = step.node.decision
    if decision is None or step.node.spec is None or decision.implementation.prepare is prepare_reference:
        return None
    if step.node.spec.by_engine:
        return None  # code of the user, or plans of their own: there is nothing to compare them with
    if not verification.wants(step.name):
        return None
    return Shadow(plan, step, array_at, floats)
