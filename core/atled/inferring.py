"""Inference in one call: arrays in, arrays out, of a graph that was recorded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.arrays.place import HOST
from atled.dtypes import in_native_order, is_float
from atled.errors import RefusedError, four_parts, taken_apart
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANNING
from atled.graph.inference.by_samples import loops_in_words
from atled.graph.inference.compiling import Known, compile_inference
from atled.graph.inference.fixed_values import FixedValues
from atled.graph.inference.kept_plans import KeptPlans
from atled.graph.inference.on_host import runner_of
from atled.graph.inference.recorded import Recorded
from atled.graph.inference.runner import BoundRunner, Runner
from atled.limits.collection import COLLECTION_PAUSED
from atled.named_tuple import NamedTuple
from atled.variable import Variable
from atled_contexts import is_observed, plugin_generation

if TYPE_CHECKING:
    from atled.explanation import Explanation

__all__ = ["Inference", "inference"]


def inference(outputs: Variable | Sequence[Variable], inputs: Variable | Sequence[Variable]) -> Inference:
    """A function that computes outputs of a graph from arrays, and touches none of its Variables.

        x = nn.Variable((1, 3, 224, 224))
        y = network(x)  # recorded with batch_stat=False, without dropout
        infer = nn.inference(y, x)
        scores = infer(images)  # an array; images of any batch size

    It stores nothing but the outputs, and puts normalization by running statistics and sums with a number per channel
    into the convolution or affine before them. Results are those of `forward` but for rounding: up to 1e-5 of the
    largest element in float32 where the network has no more than some dozens of layers. Several threads may call it at
    once.

    Inputs may have other sizes than when the graph was recorded. Sizes in it follow, or the call is refused; but
    numbers that Python computed of a size stay as they were, as in `F.sum(x, axis=1) / x.shape[1]`: let functions find
    the sizes, as `F.mean(x, axis=1)` does, or record a graph and make an inference for each size.

    The graph is taken as it is now; parameters are read as they are at each call. What another thread assigns to one
    meanwhile, or a solver or `nn.load_parameters` to all, a call sees as a whole or not at all: if need be it runs
    again, or they wait for it. Only writes through views that somebody holds are not seen.

    Args:
        outputs: what to compute; one Variable gives calls that return an array, a list those that return a list.
        inputs: the leaves whose values a call is given, in this order.

    Raises:
        TypeError: anything but Variables.  ValueError: an output is a leaf, an input is none, is named twice or is not
            read; a function that draws random numbers or changes arrays.
    """
    return Inference(outputs, inputs)


_RESTLESS = "written"  # in front of the keys of plans for parameters that are written at nearly every call
_RESTLESS_IN_WORDS = (
    "The parameters are written at nearly every call, so nothing is computed of them once, until some calls in a row "
    "find them as they were."
)


class _Planned(NamedTuple):
    """A plan for inputs of some shapes and dtypes.

    epoch: at which the parameters were looked at.  key: of what they were like.
    observed: runs the plan where a trace or a verification looks on.
    """

    epoch: int
    key: object
    runner: Runner
    observed: Runner

    @property
    def step_count(self) -> int:
        """See kept_plans.Planned."""
        return len(self.runner.plan.steps)

    def let_go(self) -> None:
        """See kept_plans.Planned."""
        self.runner.let_go()
        self.observed.let_go()


class Inference:
    """Outputs of a graph as a function of arrays, made by `inference`; call it with one array per input.

    Plans are made per shapes and dtypes of the inputs and kept, up to 20 000 steps of those that were used last.
    """

    def __init__(self, outputs: Variable | Sequence[Variable], inputs: Variable | Sequence[Variable]) -> None:
        self._is_single = isinstance(outputs, Variable)
        found = _variables("outputs", outputs)
        leaves = _variables("inputs", inputs)
        _check(found, leaves)
        self._recorded = Recorded([each.value for each in found], [each.value for each in leaves])
        unread = self._recorded.unread_input()
        if unread is not None:
            raise _refused(f"inputs[{unread}] is read by no output", "leave it out, or give the outputs that read it")
        self._descs = [self._recorded.input_desc(number) for number in range(len(leaves))]
        self._integers = {number for number in range(len(leaves)) if self._recorded.takes_integers(number)}
        self._plans: KeptPlans[_Planned] = KeptPlans()
        self._values = FixedValues(())
        self._known = Known()
        self._last: Any = None  # a key

    @property
    def plan(self) -> Plan:
        """The plan that ran last, to be printed; before the first call that for inputs as they were recorded."""
        return self._last_runner().plan

    def _last_runner(self) -> Runner:
        return self._planned(self._last or tuple((desc.shape, desc.dtype) for desc in self._descs)).runner

    def explain(self) -> Explanation:
        """Who would compute each recorded call, and why.

        And which ones the plan that ran last computes once, of parameters alone, in others, or in a loop over samples.
        """
        from atled.explanation import InPlan, explain_calls  # lazy: few programs ask

        def found() -> InPlan:
            runner = self._last_runner()
            note = _RESTLESS_IN_WORDS if self._last and self._last[0] == _RESTLESS else ""
            return InPlan(runner.compiled.elsewhere, loops_in_words(runner.plan), note)

        return explain_calls(self._recorded.functions, found)

    def __call__(self, *arrays: Any) -> Any:  # Any: an array or a list of them, as the outputs were given
        """The outputs for some inputs, as new NumPy arrays.

        arrays: per input a NumPy array, or what becomes one. Its dtype: that of the input, or one that NumPy casts
            to it safely; any integers where the input is read as indices only. Its shape: that of the input, or another
            one that the functions of the graph can be computed for, such as another batch size.

        Raises:
            TypeError: the number of arrays is another, an input is no array of numbers, or a dtype does not fit.
            ValueError: a shape does not.
            What forward raises.
        """
        if len(arrays) != len(self._descs):
            raise TypeError(
                four_parts(
                    f"an inference of {len(self._descs)} inputs",
                    f"{len(arrays)} arrays were given",
                    "",
                    "give one per input, in the order of nn.inference",
                )
            )
        given = [self._array(number, array) for number, array in enumerate(arrays)]
        key: Any = tuple([(array.shape, array.dtype) for array in given])  # a generator takes .2 us more, at each call
        if self._values.restlessness.is_seen and self._values.stay_restless():
            key = _RESTLESS, key
        planned = self._plans.get(key)
        if planned is None or planned.epoch != EPOCH.but_need_grad:
            planned = self._planned(key)
        if planned is not self._plans.latest:
            self._plans.note_use(key, planned)
            self._last = key
        outputs = (planned.observed if is_observed() else planned.runner).run(given)
        return outputs[0] if self._is_single else outputs

    def _array(self, number: int, given: Any) -> np.ndarray:
        """What was given for an input as an array of a dtype that the plans take."""
        desc = self._descs[number]
        if type(given) is not np.ndarray:
            try:
                given = np.asarray(given) if hasattr(given, "dtype") else _array_of_numbers(given, desc.dtype)
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last by arrays of others
                raise TypeError(
                    four_parts(
                        f"inference with inputs[{number}] of type {type(given).__name__}",
                        f"it does not become an array of {desc.dtype}: {error}",
                        "",
                        f"give an array of {desc.dtype} and of shape {_free(desc.shape)}",
                    )
                ) from error
        if given.ndim != len(desc.shape):
            raise RefusedError(
                four_parts(
                    f"inference with inputs[{number}] of shape {given.shape}",
                    f"it was recorded with shape {desc.shape}, which has {len(desc.shape)} axes",
                    "",
                    f"give an array of shape {_free(desc.shape)}",
                )
            )
        if given.dtype == desc.dtype or given.dtype == self._recorded.compute_dtype(number):
            return given
        if given.dtype.kind in "iub" and number in self._integers:
            return given if given.dtype.isnative else given.astype(in_native_order(given.dtype))
        if not np.can_cast(given.dtype, desc.dtype):
            raise TypeError(
                four_parts(
                    f"inference with inputs[{number}] of dtype {given.dtype}",
                    f"the input is {desc.dtype}, to which {given.dtype} is not cast without loss",
                    "",
                    f'give it as {desc.dtype}: array.astype("{desc.dtype}")',
                )
            )
        return given.astype(desc.dtype)

    def _planned(self, key: Any) -> _Planned:
        """The plan for some shapes and dtypes; a new one where parameters were replaced by others since."""
        with PLANNING, COLLECTION_PAUSED:
            epoch = EPOCH.but_need_grad
            found = self._recorded.parameters()
            for cell, _ in found:
                cell.settle()
            like = plugin_generation(), tuple((id(cell), shape, cell.dtype, cell.place) for cell, shape in found)
            planned = self._plans.get(key)
            if planned is None or planned.key != like:
                planned = self._made(key, epoch, like, found)
            else:
                planned = planned._replace(epoch=epoch)
            self._plans.keep(key, planned)
            return planned

    def _made(self, key: Any, epoch: int, like: object, found: Sequence[tuple[ArrayCell, tuple[int, ...]]]) -> _Planned:
        is_restless = key[0] == _RESTLESS
        descs = [ArrayDesc(shape, dtype) for shape, dtype in (key[1] if is_restless else key)]
        cells = list({id(cell): cell for cell, _ in found}.values())
        numbers = {id(cell): number for number, cell in enumerate(cells, len(descs))}
        parameters = []
        for cell, shape in found:
            assert cell.dtype is not None, "settled"
            parameters.append((numbers[id(cell)], ArrayDesc(shape, cell.dtype)))
        are_others = tuple(map(id, self._values.parameters)) != tuple(map(id, cells))
        if are_others:
            self._known = Known()
        try:
            on_host = {numbers[id(cell)] for cell in cells if cell.place is HOST}
            compiled = compile_inference(self._recorded, descs, parameters, self._known, on_host, not is_restless)
        except ValueError as error:
            raise self._unfit(descs, error) from error
        if are_others:
            self._values = FixedValues(cells)
            self._plans.clear()  # the others are of arrays that were replaced, which they would keep alive
        runner = runner_of(compiled, descs, self._values, self._plans.memories, is_restless)
        observed = runner if isinstance(runner, BoundRunner) else BoundRunner(compiled, descs, self._values)
        for reader in (runner, observed):  # only now: another thread may tell them at once
            self._values.note_reader(reader)
        return _Planned(epoch, like, runner, observed)

    def _unfit(self, descs: Sequence[ArrayDesc], error: ValueError) -> ValueError:
        """The error for inputs of which the graph cannot be computed."""
        if [desc.shape for desc in descs] == [desc.shape for desc in self._descs]:
            return error
        given = ", ".join(f"inputs[{number}] of shape {desc.shape}" for number, desc in enumerate(descs))
        fits = ", ".join(str(_free(desc.shape)) for desc in self._descs)
        wrong, considered, remedy = taken_apart(str(error))
        recorded = "it was recorded with " + ", ".join(str(desc.shape) for desc in self._descs)
        return RefusedError(
            four_parts(
                f"inference with {given}",
                f"the graph cannot be computed for that: {wrong}",
                f"{recorded}; {considered}" if considered else recorded,
                f"give arrays of shape {fits}; where the batch size is the reason, record the graph with that one"
                + (f", or {remedy}" if remedy else ""),
            )
        )

    def __reduce__(self) -> NoReturn:
        """TypeError: an inference is neither pickled nor copied."""
        raise TypeError(
            four_parts(
                f"a pickle or a copy by `copy` of {self!r}",
                "it is a recorded graph with plans for this machine, which are neither pickled nor copied",
                "several threads may call one inference",
                "record the graph in each process and call nn.inference there, with the parameters of "
                "nn.get_parameters(), which are pickled, or of a file of nn.save_parameters",
            )
        )

    def __repr__(self) -> str:
        return f"<inference of {len(self._recorded.outputs)} outputs from {len(self._descs)} inputs>"


def _free(shape: tuple[int, ...]) -> str:
    """A shape whose first axis may have any size."""
    return str(("N", *shape[1:])).replace("'N'", "N") if shape else "()"


def _variables(name: str, given: object) -> list[Variable]:
    """One or several Variables as a list."""
    found = [given] if isinstance(given, Variable) else given
    if not isinstance(found, Sequence) or not all(isinstance(item, Variable) for item in found):
        kinds = sorted({type(item).__name__ for item in found}) if isinstance(found, Sequence) else []
        got = type(found).__name__ + (f" of {', '.join(kinds)}" if kinds else "")
        raise TypeError(four_parts(f"inference({name}=...)", f"got {got}", "", "give a Variable, or a list of some"))
    if not found:
        raise _refused(f"there are no {name}", "give one Variable or more")
    return list(found)


def _check(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> None:
    for position, variable in enumerate(outputs):
        if variable.parent is None:
            raise _refused(f"outputs[{position}] is a leaf: nothing computes it", "give a function's result")
    seen = set()
    for position, variable in enumerate(inputs):
        if variable.parent is not None:
            raise _refused(f"inputs[{position}] is a result, not a leaf", "give Variables that were created")
        if variable in seen:
            raise _refused(f"inputs[{position}] is named twice", "give each input once")
        seen.add(variable)


def _refused(wrong: str, remedy: str) -> ValueError:
    return ValueError(four_parts("inference", wrong, "", remedy))


def __dir__() -> list[str]:
    return sorted(__all__)


def _array_of_numbers(given: Any, dtype: np.dtype) -> np.ndarray:
    """An array of Python's numbers, in lists or buffers, of a dtype; of their own where that would lose fractions.

    TypeError, ValueError, OverflowError: they are none, or do not fit.
    """
    # Without the dtype at first: with it, NumPy makes NaN of None, numbers of text, and whole numbers of fractions.
    array = np.asarray(given)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"NumPy makes an array of {array.dtype} of it")
    if is_float(dtype):
        return array.astype(dtype)
    return array if array.dtype.kind == "f" else np.asarray(given, dtype)
