"""Recurrent layers over sequences, and their gradients.

One product for the inputs of all steps; then for each step a product and a kernel for the gates. The gradients of
inputs and weights are products of their own, which atled composes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy import cublas
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.launching import CallStep, Launch, Step, call_step, queued

Product = Callable[[int, int, int, int], CallStep]
"""Of the addresses of both factors, the result and the memory of cuBLAS."""
_ALIGNED = 256  # bytes that parts of the workspace are aligned to


def accepts(call: Call) -> bool | str:
    """True for sequences that have something to compute, in dtypes that cuBLAS knows; else the reason."""
    dtype = call.outputs[0].dtype
    if dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        return f"no product in {dtype}"
    first, weight = call.inputs[0], call.inputs[call.spec.input_names.index("weight")]
    assert first is not None
    assert weight is not None
    if not first.shape[-1]:
        return "there are no inputs, or no units"
    if max(first.size, weight.size) >= 2**31:
        return "cuBLAS counts rows and columns in 32 bits"
    return True


class _Layer:
    """Sizes of a call, its launches and products.

    real: the dtype that gates are computed in.  width: numbers of all gates of a sequence.  row: of the weight.
    units: of all sequences.  in_place: whether outputs have the dtype of sums, which are then made where they go.
    """

    def __init__(self, call: Call) -> None:
        first, weight = call.inputs[0], call.inputs[call.spec.input_names.index("weight")]
        assert first is not None
        assert weight is not None
        self.call, self.where, self.dtype = call, device(call.device_id), first.dtype
        self.real = np.dtype(np.float64 if self.dtype == np.float64 else np.float32)
        self.in_place = self.dtype == self.real
        (self.steps, self.batch), self.size = first.shape[:2], weight.shape[1]
        self.width, self.row = weight.shape[0] * self.size, weight.shape[2]
        self.units = self.batch * self.size
        self.memory = cublas.workspace_bytes(self.where, self.steps * self.batch * self.width * self.row)

    def launch(self, name: str, pitch: int = 0) -> Launch:
        """A kernel of the file for one step; pitch: numbers of the sums from sequence to sequence."""
        storage, real = type_names(self.dtype)
        defines = {"T": storage, "A": real, "TANH": int(self.call.attributes.get("nonlinearity") == "tanh")}
        words, blocks = (self.units, self.size, pitch), self.where.blocks(self.units)
        is_wide = 4 * self.units >= 2**31
        return Launch(self.where, template("recurrent"), name, blocks, 256, words, defines, wide=is_wide)

    def of_inputs(self, pitch: int) -> Product:
        """Sums for the inputs of all steps; pitch: numbers from row to row."""
        depth = self.row - self.size
        shape = self.steps * self.batch, self.width, depth
        return self._product(shape, (depth, self.row, pitch), self.real, transposes_b=True)

    def of_state(self, pitch: int, *, adds: bool) -> Product:
        """Sums for the state before a step."""
        pitches = self.size, self.row, pitch
        return self._product((self.batch, self.width, self.size), pitches, self.real, transposes_b=True, adds=adds)

    def back(self, dtype: Any, *, adds: bool = False) -> Product:  # Any: a dtype
        """What goes from a step's maps to the state before it; dtype: of what it is written to."""
        pitches = self.width, self.row, self.size
        return self._product((self.batch, self.size, self.width), pitches, dtype, adds=adds)

    def _product(
        self,
        shape: tuple[int, int, int],
        pitches: tuple[int, int, int],
        result: Any,  # Any: a dtype
        *,
        transposes_b: bool = False,
        adds: bool = False,
    ) -> Product:
        multiply = cublas.product(
            self.where,
            *shape,
            1,
            transposes=(False, transposes_b),
            dtype=self.dtype.name,
            result=np.dtype(result).name,
            is_tf32=self.call.precision == "tf32",
            workspace=self.memory,
            pitches=pitches,
            adds=adds,
        )
        return lambda *addresses: call_step(self.where, multiply(*addresses))

    def of_h(self, weight: Any) -> int:  # Any: an array of this device
        """Where the columns of a weight for the state begin."""
        address: int = weight.data.ptr
        return address + (self.row - self.size) * self.dtype.itemsize

    def at(self, array: Any, step: int, rows: int = 1) -> Any:  # Any: as above, or an address
        """Where the numbers of a step begin in (T, B, rows, H); None for an absent array."""
        return None if array is None else array.data.ptr + step * rows * self.units * self.dtype.itemsize

    def parts(self, *counts: int) -> tuple[int, list[int]]:
        """Bytes of a workspace for cuBLAS and arrays of so many numbers in `real`; where each of these begins."""
        sizes = [-(-count * self.real.itemsize // _ALIGNED) * _ALIGNED for count in counts]
        *starts, end = accumulate([self.memory, *sizes])
        return end, starts

    def forwards(self) -> Iterator[tuple[int, int | None, bool]]:
        """Each step, the one before it, whether it is the last one gone through."""
        order = list(range(self.steps))
        if self.call.attributes["reverse"]:
            order.reverse()
        for number, step in enumerate(order):
            yield step, order[number - 1] if number else None, number == len(order) - 1

    def backwards(self) -> Iterator[tuple[int, int | None, bool]]:
        """The same from the last one gone through on."""
        return reversed(list(self.forwards()))


def _without_units(call: Call) -> Prepared:
    return queued(call, lambda *_: [])


def prepare_lstm(call: Call) -> Prepared:
    """Sums are made in the output `gates` where that has their dtype, else in the workspace."""
    layer = _Layer(call)
    if not layer.units:
        return _without_units(call)
    pitch = layer.width
    size, (at_sums,) = layer.parts(0 if layer.in_place else layer.steps * layer.batch * pitch)
    launch = layer.launch("lstm", pitch)
    of_inputs, of_state = layer.of_inputs(pitch), layer.of_state(pitch, adds=True)

    def steps(x: Any, h: Any, c: Any, weight: Any, bias: Any, *others: Any) -> Sequence[Step]:  # Any: arrays
        y, h_n, c_n, gates, cells, workspace = others
        memory = workspace.data.ptr
        sums = gates.data.ptr if layer.in_place else memory + at_sums
        made: list[Step] = [of_inputs(x.data.ptr, weight.data.ptr, sums, memory)]
        for step, before, is_last in layer.forwards():
            mine = sums + step * layer.batch * pitch * layer.real.itemsize
            state = h.data.ptr if before is None else layer.at(y, before)
            cell = c if before is None else layer.at(cells, before)
            made.append(of_state(state, layer.of_h(weight), mine, memory))
            ends = (h_n, c_n) if is_last else (None, None)
            given = (mine, bias, cell, layer.at(gates, step, 4), layer.at(cells, step), layer.at(y, step), *ends)
            made.append((launch, given, 0))
        return made

    return queued(call, steps, workspace=size)


def prepare_lstm_grad(call: Call) -> Prepared:
    """What goes from step to step is kept as it is computed."""
    layer = _Layer(call)
    if not layer.units:
        return _without_units(call)
    size, (at_h, at_c) = layer.parts(layer.units, layer.units)
    launch = layer.launch("lstm_back")
    back, back_first = layer.back(layer.real), layer.back(layer.dtype)

    def steps(gates: Any, cells: Any, c: Any, weight: Any, *others: Any) -> Sequence[Step]:  # Any: as above
        gy, gh_n, gc_n, ggates, gcells, maps, gh, gc, workspace = others
        memory = workspace.data.ptr
        of_h, of_c = memory + at_h, memory + at_c
        made: list[Step] = []
        for step, before, is_last in layer.backwards():
            mine = layer.at(maps, step, 4)
            arrives = (None, None, gh_n, gc_n) if is_last else (of_h, of_c, None, None)
            leaves = (None, gc) if before is None else (of_c, None)
            cell = c if before is None else layer.at(cells, before)
            own = layer.at(gates, step, 4), layer.at(cells, step), cell, layer.at(gy, step)
            asked = layer.at(ggates, step, 4), layer.at(gcells, step)
            made.append((launch, (*own, *arrives, *asked, mine, *leaves), 0))
            product, to = (back_first, gh.data.ptr) if before is None else (back, of_h)
            made.append(product(mine, layer.of_h(weight), to, memory))
        return made

    return queued(call, steps, workspace=size)


def prepare_gru(call: Call) -> Prepared:
    """The sums of inputs and of states stay apart, since the reset gate comes between them."""
    layer = _Layer(call)
    if not layer.units:
        return _without_units(call)
    pitch = 4 * layer.size if layer.in_place else layer.width
    size, (at_state, at_sums) = layer.parts(3 * layer.units, 0 if layer.in_place else layer.steps * layer.batch * pitch)
    launch = layer.launch("gru", pitch)
    of_inputs, of_state = layer.of_inputs(pitch), layer.of_state(layer.width, adds=False)

    def steps(x: Any, h: Any, weight: Any, bias: Any, *others: Any) -> Sequence[Step]:  # Any: as above
        y, h_n, gates, workspace = others
        memory = workspace.data.ptr
        sums, of_h = gates.data.ptr if layer.in_place else memory + at_sums, memory + at_state
        made: list[Step] = [of_inputs(x.data.ptr, weight.data.ptr, sums, memory)]
        for step, before, is_last in layer.forwards():
            mine = sums + step * layer.batch * pitch * layer.real.itemsize
            state = h.data.ptr if before is None else layer.at(y, before)
            made.append(of_state(state, layer.of_h(weight), of_h, memory))
            outputs = layer.at(gates, step, 4), layer.at(y, step), h_n if is_last else None
            made.append((launch, (mine, of_h, bias, state, *outputs), 0))
        return made

    return queued(call, steps, workspace=size)


def prepare_gru_grad(call: Call) -> Prepared:
    """What goes to the step before is begun by the kernel, and the product is added."""
    layer = _Layer(call)
    if not layer.units:
        return _without_units(call)
    size, (at_h,) = layer.parts(layer.units)
    launch = layer.launch("gru_back")
    back, back_first = layer.back(layer.real, adds=True), layer.back(layer.dtype, adds=True)

    def steps(gates: Any, y: Any, h: Any, weight: Any, *others: Any) -> Sequence[Step]:  # Any: as above
        gy, gh_n, ggates, of_x, of_h, gh, workspace = others
        memory = workspace.data.ptr
        made: list[Step] = []
        for step, before, is_last in layer.backwards():
            arrives = (None, gh_n) if is_last else (memory + at_h, None)
            leaves = (None, gh) if before is None else (memory + at_h, None)
            own = layer.at(gates, step, 4), h if before is None else layer.at(y, before), layer.at(gy, step)
            maps = layer.at(of_x, step, 3), layer.at(of_h, step, 3)
            made.append((launch, (*own, *arrives, layer.at(ggates, step, 4), *maps, *leaves), 0))
            product, to = (back_first, gh.data.ptr) if before is None else (back, memory + at_h)
            made.append(product(maps[1], layer.of_h(weight), to, memory))
        return made

    return queued(call, steps, workspace=size)


def prepare_rnn(call: Call) -> Prepared:
    """Sums are made in y where that has their dtype, else in the workspace."""
    layer = _Layer(call)
    if not layer.units:
        return _without_units(call)
    size, (at_sums,) = layer.parts(0 if layer.in_place else layer.steps * layer.units)
    launch = layer.launch("rnn")
    of_inputs, of_state = layer.of_inputs(layer.size), layer.of_state(layer.size, adds=True)

    def steps(x: Any, h: Any, weight: Any, bias: Any, *others: Any) -> Sequence[Step]:  # Any: as above
        y, h_n, workspace = others
        memory = workspace.data.ptr
        sums = y.data.ptr if layer.in_place else memory + at_sums
        made: list[Step] = [of_inputs(x.data.ptr, weight.data.ptr, sums, memory)]
        for step, before, is_last in layer.forwards():
            mine = sums + step * layer.units * layer.real.itemsize
            state = h.data.ptr if before is None else layer.at(y, before)
            made.append(of_state(state, layer.of_h(weight), mine, memory))
            made.append((launch, (mine, bias, layer.at(y, step), h_n if is_last else None), 0))
        return made

    return queued(call, steps, workspace=size)


def prepare_rnn_grad(call: Call) -> Prepared:
    """From the last step to the first."""
    layer = _Layer(call)
    if not layer.units:
        return _without_units(call)
    size, (at_h,) = layer.parts(layer.units)
    launch = layer.launch("rnn_back")
    back, back_first = layer.back(layer.real), layer.back(layer.dtype)

    def steps(y: Any, weight: Any, gy: Any, gh_n: Any, *others: Any) -> Sequence[Step]:  # Any: as above
        maps, gh, workspace = others
        memory = workspace.data.ptr
        made: list[Step] = []
        for step, before, is_last in layer.backwards():
            arrives = (None, gh_n) if is_last else (memory + at_h, None)
            mine = layer.at(maps, step)
            made.append((launch, (layer.at(y, step), layer.at(gy, step), *arrives, mine), 0))
            product, to = (back_first, gh.data.ptr) if before is None else (back, memory + at_h)
            made.append(product(mine, layer.of_h(weight), to, memory))
        return made

    return queued(call, steps, workspace=size)


_OPS = {
    "LSTMSequence": prepare_lstm,
    "LSTMSequenceGrad": prepare_lstm_grad,
    "GRUSequence": prepare_gru,
    "GRUSequenceGrad": prepare_gru_grad,
    "RNNSequence": prepare_rnn,
    "RNNSequenceGrad": prepare_rnn_grad,
}


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op, prepare in _OPS.items():
        registrar.implementation(op, "cuda", prepare, accepts=accepts, note="cuBLAS, a kernel per step")
