"""Products of matrices: by cuBLAS, small ones by tiles of our own, which add the bias and compute formulas as well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy import cublas
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.matrices import stored
from atled_cuda_cupy.kernels.sized import computed_bytes, of_one_float, types
from atled_cuda_cupy.kernels.tiles import choose, finish, tiled
from atled_cuda_cupy.launching import call_step, queued

_SMALL = 2**21
"""Multiplications up to which a product takes as long as its launch, so that one launch is better than two."""
_MOST = 2**31 - 1  # of a size, for cuBLAS


class Shape(NamedTuple):
    """y(rows, columns) = a(rows, depth) b(depth, columns), `batch` times.

    transposes: whether a, and b, is given transposed.  is_shared: whether all products have one a.
    pitches: elements from row to row of a, b and y, where these are views; of a single product.
    """

    rows: int
    columns: int
    depth: int
    batch: int
    transposes: tuple[bool, bool]
    is_shared: bool = False
    pitches: tuple[int, int, int] | None = None

    @property
    def multiplications(self) -> int:
        """How many there are."""
        return self.rows * self.columns * self.depth * self.batch

    @property
    def is_for_cublas(self) -> bool:
        """Whether the launch is not what takes long, and cuBLAS, which counts in 32 bits, can have it."""
        return self.multiplications > _SMALL and max(self.rows, self.columns, self.depth, self.batch) <= _MOST


def _shape(call: Call) -> Shape:
    a, b = call.inputs[:2]
    assert a is not None and b is not None
    if call.spec.name == "Dot":
        # With y of more axes one product for each of its matrices, and all with one x.
        columns = b.shape[-1] if b.ndim > 1 else 1
        return Shape(math.prod(a.shape[:-1]), columns, a.shape[-1], math.prod(b.shape[:-2]), (False, False))
    if call.spec.name == "Affine":
        rows = math.prod(a.shape[: call.attributes["base_axis"]])
        return Shape(rows, math.prod(b.shape[1:]), b.shape[0], 1, (False, False))
    rows, columns = call.outputs[0].shape[-2:]
    transposes = call.attributes["transpose_a"], call.attributes["transpose_b"]
    depth = a.shape[-2] if transposes[0] else a.shape[-1]
    return Shape(rows, columns, depth, math.prod(a.shape[:-2]), transposes)


def _stored_shape(call: Call) -> Shape | None:
    """The same with the pitches of views; None where they have none."""
    shape = _shape(call)
    if not call.strided:
        return shape
    found = stored(call)
    if found is None or found[2].by_columns:
        return None
    a, b, y = found
    transposes = shape.transposes[0] != a.by_columns, shape.transposes[1] != b.by_columns
    return shape._replace(transposes=transposes, pitches=(a.pitch, b.pitch, y.pitch))


def _refuses_views(call: Call) -> str:
    """Why a call is not computed with the strides that it has; "" where it is."""
    shape = _stored_shape(call)
    if shape is None:
        return "takes single matrices whose rows, or columns, are contiguous and lie one behind the other"
    if call.outputs[0].strides is None:
        return ""
    if call.after or (len(call.inputs) > 2 and call.inputs[2] is not None):
        return "adds nothing to what it writes into a view"
    return "" if shape.is_for_cublas else "writes small products into arrays of their own"


def accepts(call: Call) -> bool | str:
    """True for what is computed here, else the reason."""
    if reason := of_one_float(call):
        return reason
    if call.spec.name == "Dot" and not all(desc is not None and desc.ndim for desc in call.inputs):
        return "an operand without axes is a factor, not one of a product of matrices"
    return _refuses_views(call) or True


def prepare(call: Call) -> Prepared:
    """By tiles where the launch is what takes long, else by cuBLAS."""
    shape = _stored_shape(call)
    assert shape is not None
    if call.spec.name == "Dot" and shape.batch != 1:
        return _prepare_tiles(call, shape)
    return by_cublas(call, shape, (1, max(shape.columns, 1))) if shape.is_for_cublas else _prepare_tiles(call, shape)


def _prepare_tiles(call: Call, shape: Shape) -> Prepared:
    rows, columns, depth, batch, (of_a, of_b), _, pitches = shape
    a_row, b_row, y_row = pitches or (rows if of_a else depth, depth if of_b else columns, columns)
    where, y = device(call.device_id), call.outputs[0]
    tiling = choose(rows, columns, depth, batch, where.multiprocessors, computed_bytes(y) == 8, has_largest=False)
    sizes = {
        "A_GROUP_STEP": rows * depth,
        "A_ROW_STEP": 1 if of_a else a_row,
        "A_DEPTH_STEP": a_row if of_a else 1,
        "B_GROUP_STEP": depth * columns,
        "B_DEPTH_STEP": 1 if of_b else b_row,
        "B_COLUMN_STEP": b_row if of_b else 1,
        "Y_GROUP_STEP": rows * columns,
        "Y_ROW_STEP": y_row,
    }
    if call.spec.name == "Dot":  # the matrices of y lie side by side in a row of the result, and share x
        sizes |= {"A_GROUP_STEP": 0, "Y_GROUP_STEP": columns, "Y_ROW_STEP": batch * columns}
    defines = {"AXES": 0, "A_BY_DEPTH": int(not of_a), "B_BY_DEPTH": int(of_b), "BIAS_BY_ROW": 0}
    product = (rows, columns, depth)
    made = tiled(call, "MATRIX", product, batch, sizes, tiling, batch, defines, (1, max(columns, 1)))

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (a, b, *bias, y), attached, workspace = call.split(arguments)
        return made.steps((a, b, *(bias or [None]), y), attached, workspace)

    return queued(call, steps, workspace=made.workspace, note=made.note)


def by_cublas(call: Call, shape: Shape, bias: tuple[int, int], *, is_swapped: bool = False) -> Prepared:
    """A call as a product by cuBLAS, and what adds the bias and computes the formula, if there are any.

    bias: how many elements of y in a row have the same, and how many biases there are.
    is_swapped: whether the op's second input is a, and its first one b.
    """
    where, y = device(call.device_id), call.outputs[0]
    own = cublas.workspace_bytes(where, shape.multiplications)
    has_end = bool(call.after) or (len(call.inputs) > 2 and call.inputs[2] is not None)
    # What is yet to be added to is rounded once, at the end.
    is_apart = has_end and (computed_bytes(y) != y.dtype.itemsize or not call.wanted[0])
    result = {4: "float32", 8: "float64"}[computed_bytes(y)] if is_apart else y.dtype.name
    multiply = cublas.product(
        where,
        *shape[:4],
        transposes=shape.transposes,
        is_shared=shape.is_shared,
        pitches=shape.pitches,
        dtype=y.dtype.name,
        result=result,
        is_tf32=call.precision == "tf32",
        workspace=own,
    )
    source = types(y)["A" if is_apart else "T"]
    end = finish(where, call, 1, *bias, source) if has_end else None

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (a, b, *biases, result), attached, (workspace,) = call.split(arguments)
        a, b = (b, a) if is_swapped else (a, b)
        memory = workspace.data.ptr
        product = memory + own if is_apart else result.data.ptr
        made: list[Any] = [call_step(where, multiply(a.data.ptr, b.data.ptr, product, memory))]
        if end is not None:
            made.append((end, (product, *(biases or [None]), result, *attached), 0))
        return made

    workspace = own + (y.size * computed_bytes(y) if is_apart else 0)
    return queued(call, steps, workspace=workspace, note="cuBLAS")


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    strides = {"Affine": ("x", "weight", "y"), "BatchMatmul": ("a", "b", "y")}
    for op, result in (("Affine", "y"), ("BatchMatmul", "y"), ("Dot", "z")):
        registrar.implementation(
            op,
            "cuda",
            prepare,
            accepts=accepts,
            note="cuBLAS, or tiles",
            attaches=(result,),
            strides=strides.get(op, ()),
        )
