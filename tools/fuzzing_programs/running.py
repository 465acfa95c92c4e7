"""Running a program by the library or by the plain interpreter, and what the program sees of it."""

from __future__ import annotations

import contextlib
import gc
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from types import CodeType
from typing import Any

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
import atled_sim
from atled.arrays.storage import HostStorage
from atled.function import PythonFunction
from atled.graph.run.binding import Binding
from fuzzing_programs.plain import front
from fuzzing_programs.plain.state import STATE, JustifiedError
from fuzzing_programs.setting import Setting

HELPERS = """
def draw(seed, shape, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def whole(seed, shape, stop):
    return np.random.default_rng(seed).integers(0, stop, shape)


def sampled(op, number, seed, position):
    from atled.conformance.cases import samples_of
    from atled.ops.spec import SPECS

    values = samples_of(SPECS[op])[number].draw(seed)[position]
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def launches(trace):
    return sum(row.calls for row in trace.rows() for name in row.op.split("+") if name in ("Convolution", "Affine"))


class Scaled(PythonFunction):
    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        outputs[0].d = 1.5 * inputs[0].d

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        if propagate_down[0]:
            inputs[0].g = inputs[0].g + 1.5 * outputs[0].g if accum[0] else 1.5 * outputs[0].g


class Product(PythonFunction):
    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        outputs[0].d = inputs[0].d * inputs[1].d

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        for number in (0, 1):
            if propagate_down[number]:
                g = outputs[0].g * inputs[1 - number].d
                inputs[number].g = inputs[number].g + g if accum[number] else g
"""
"""What programs are written with, beside the library."""

_HEAD = """# {title}
import gc

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.function import PythonFunction

nn.set_default_context(nn.Context({backends}, fallback="{fallback}"))
"""
_MODES = """
import contextlib

import atled_sim

modes = contextlib.ExitStack()
"""
_LARGE = """
from atled.graph.constants import cut  # treats these arrays as large ones
from atled.graph.recompute import choice

choice._STREAMED_BYTES = choice._LEAST_BYTES = cut._LEAST_BYTES = 0
"""
_LOOK = """

def look(read):
    try:
        print(np.array(read()))
    except RuntimeError as refusal:
        print(refusal)


attempt = look

"""

LOST = ("compute the graph again", "run the step again", "the graph is gone", "a root is gone")
"""What errors say of values that no plan stored and that cannot be computed any more."""


def script(setting: Setting, statements: Sequence[str], title: str) -> str:
    """A program as a script that prints what it sees."""
    head = _HEAD.format(title=title, backends=setting.context.split(), fallback=setting.fallback)
    head += _LARGE if setting.as_large else ""
    if setting.modes:
        head += "".join([_MODES, *(f"modes.enter_context({mode})\n" for mode in setting.modes)])
    return "".join([head, "\n", HELPERS, _LOOK, *(f"{statement}\n" for statement in statements)])


_REPEATABLE = re.compile(r"(step\d+\(.*\)|solver\d+\.update\(\)|look\(lambda: \w+\.[dg]\))$")


class UncleanError(Exception):
    """What came of a program is wrong.

    kind: "wrong", "foreign", "refused" without a reason, or "bits".
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Run:
    """One run of a program.

    seen: what the program looked at, in order: the number of the statement, and the values; None where refused.
    refusals: the texts of refusals by the number of the look or attempt.
    end: the number of a statement that was refused, with which the program ended, and the text; None if none was.
    """

    def __init__(self) -> None:
        self.end: tuple[int, str] | None = None
        self.seen: list[tuple[int, np.ndarray | None]] = []
        self.refusals: dict[int, str] = {}
        self.statement = 0

    def execute(self, statements: Sequence[str], names: dict[str, Any]) -> None:
        """Run the statements; UncleanError for an exception that none should raise."""
        names.update(look=self._look, attempt=self._attempt)
        exec(HELPERS, names)
        for self.statement, statement in enumerate(statements):
            try:
                if not self._goes_on(compile(statement, f"<statement {self.statement}>", "exec"), names):
                    return
            except UncleanError:
                raise
            except Exception as error:
                text = f"statement {self.statement}: {statement}\n{type(error).__name__}: {error}\n{_place(error)}"
                raise UncleanError("foreign", text) from error

    def _goes_on(self, code: CodeType, names: dict[str, Any]) -> bool:
        """Run a statement; whether it was not refused."""
        try:
            exec(code, names)
        except RuntimeError as error:
            if not any(text in str(error) for text in LOST):
                raise
            self.end = self.statement, str(error)
            return False
        return True

    def _look(self, read: Callable[[], Any]) -> None:
        try:
            self.seen.append((self.statement, np.array(read(), copy=True)))
        except RuntimeError as error:
            self._refused(error)

    def _attempt(self, step: Callable[[], Any]) -> None:
        try:
            step()
        except RuntimeError as error:
            self._refused(error)
        else:
            self.seen.append((self.statement, np.zeros(())))

    def _refused(self, error: RuntimeError) -> None:
        if not any(text in str(error) for text in LOST):
            raise error
        self.refusals[len(self.seen)] = str(error)
        self.seen.append((self.statement, None))


class FaultyRun(Run):
    """A run on a simulated device that fails now and then; what failed is done again, and nothing is to show of it."""

    def __init__(self) -> None:
        super().__init__()
        self.statements: Sequence[str] = ()
        self._random = Random(0)

    def execute(self, statements: Sequence[str], names: dict[str, Any]) -> None:
        self.statements = statements
        super().execute(statements, names)

    def _goes_on(self, code: CodeType, names: dict[str, Any]) -> bool:
        if not _REPEATABLE.match(self.statements[self.statement]):
            return super()._goes_on(code, names)
        operation = self._random.choice(("allocation", "upload", "download", "copy", "table copy", "replay"))
        with atled_sim.faults.fail(operation, self._random.randint(1, 3)), contextlib.suppress(atled_sim.SimFault):
            return super()._goes_on(code, names)
        return super()._goes_on(code, names)


class PlainRun(Run):
    """A run by the plain interpreter, which asks of what the library refused whether there was a reason."""

    def __init__(self, refusals: Mapping[int, str], end: tuple[int, str] | None) -> None:
        super().__init__()
        self.refusals = dict(refusals)
        self.end = end

    def _goes_on(self, code: CodeType, names: dict[str, Any]) -> bool:
        if self.end is None or self.end[0] != self.statement:
            exec(code, names)
            return True
        STATE.is_refused = True
        try:
            exec(code, names)
        except JustifiedError:
            return False
        finally:
            STATE.is_refused = False
        raise UncleanError("refused", f"statement {self.statement}: refused without a reason: {self.end[1]}")

    def _look(self, read: Callable[[], Any]) -> None:
        self._with_refusals(lambda: self.seen.append((self.statement, np.array(read(), copy=True))))

    def _attempt(self, step: Callable[[], Any]) -> None:
        def try_it() -> None:
            step()
            self.seen.append((self.statement, np.zeros(())))

        self._with_refusals(try_it)

    def _with_refusals(self, step: Callable[[], Any]) -> None:
        refusal = self.refusals.get(len(self.seen))
        if refusal is None:
            step()  # of a statement that was refused another part may be what was
            return
        STATE.is_refused = True
        try:
            step()
        except JustifiedError:
            self.seen.append((self.statement, None))
        else:
            raise UncleanError("refused", f"statement {self.statement}: refused without a reason: {refusal}")
        finally:
            STATE.is_refused = False


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames[-6:]))


def run_by_library(statements: Sequence[str], setting: Setting, is_faulty: bool = False) -> Run:
    """Run a program by the library, from a state without parameters and plans."""
    run = FaultyRun() if is_faulty else Run()
    nn.clear_parameters()
    nn.clear_memory_cache()
    names = {"nn": nn, "F": F, "PF": PF, "S": S, "PythonFunction": PythonFunction, "np": np, "gc": gc}
    context = nn.Context(setting.context.split(), fallback=setting.fallback)
    with nn.context_scope(context), warnings.catch_warnings(), nn.auto_forward(False):
        warnings.simplefilter("error")
        run.execute(statements, names)
    return run


def run_plainly(statements: Sequence[str], library: Run | None = None, noise: float = 0.0, seed: int = 0) -> Run:
    """Run a program by the plain interpreter; library: the run whose refusals are to be justified."""
    run = PlainRun(library.refusals, library.end) if library is not None else PlainRun({}, None)
    STATE.reset(noise, seed)
    run.execute(statements, {**front.names(), "gc": gc})
    return run


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Within, memory is filled with NaN when it is handed out and when it is freed: wrong reads show.

    So are arenas of devices before each run of a plan.
    """
    make, free, run = HostStorage.__init__, HostStorage.__del__, Binding.run

    def filled(storage: HostStorage, *arguments: Any) -> None:
        make(storage, *arguments)
        storage._buffer[0].fill(0xFF)

    def poison(storage: HostStorage) -> None:
        if not getattr(storage, "exported", True):  # of one that was made natively, and never filled in
            storage._buffer[0].fill(0xFF)
        free(storage)

    def run_poisoned(bound: Binding, *arguments: Any) -> None:
        for arena in bound._arenas:
            if arena.free:
                atled_sim.device(arena.storage.place.device_id).reach(arena.storage.buffer).fill(0xFF)
        run(bound, *arguments)

    HostStorage.__init__, HostStorage.__del__, Binding.run = filled, poison, run_poisoned
    try:
        yield
    finally:
        HostStorage.__init__, HostStorage.__del__, Binding.run = make, free, run
