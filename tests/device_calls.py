"""Calls of one op on a device, by what `prepare` gives, and by the reference; for tests of the plugins for GPUs."""

import numpy as np

from atled.plugin import ArrayDesc, Call, op_spec, reference_run


def call_of(op, *shapes, dtype="float32", results=None, **attributes):
    """A call on arrays of these shapes; results: dtypes of the outputs."""
    spec = op if not isinstance(op, str) else op_spec(op)
    shapes = tuple(None if shape is None else ArrayDesc(shape, dtype) for shape in shapes)
    outputs = spec.infer_outputs(list(shapes), attributes) if results is None else ()
    if results is not None:
        full = np.broadcast_shapes(*(desc.shape for desc in shapes))
        outputs = tuple(ArrayDesc(full, result) for result in results)
    return Call(spec, shapes, tuple(outputs), attributes, device_id="0")


def uploaded(arrays, values, offset=0):
    """An array with these values; offset: so many elements behind an aligned place."""
    if values is None:
        return None
    values = np.asarray(values, order="C")
    if not offset:
        array = arrays.allocate(ArrayDesc(values.shape, values.dtype), "0")
    else:
        wide = arrays.allocate(ArrayDesc((values.size + offset,), values.dtype), "0")
        array = type(wide)(values.shape, values.dtype, memptr=wide.data + offset * values.dtype.itemsize)
    arrays.upload(values, array)
    return array


def downloaded(arrays, array):
    """The values of an array."""
    values = np.empty(array.shape, array.dtype)
    arrays.download(array, values)
    return values


def computed(arrays, prepared, inputs, outputs, floats=(), *, extra=(), offset=0, inplace=None, is_random=False):
    """What a prepared call makes of values: by `run`, and by `bind` with a table, which gives the same.

    outputs: descriptions; None for what is not wanted.  extra: what comes behind the arrays.
    inplace: by output the input that it is.  is_random: whether the last input is a random state, which is not moved.
    """
    state = [len(inputs) - 1] if is_random else []
    found = []
    for form in ("run", "bind"):
        given = [values if n in state else uploaded(arrays, values, offset) for n, values in enumerate(inputs)]
        made = [
            given[inplace[n]]
            if inplace and n in inplace
            else None
            if desc is None
            else uploaded(arrays, np.zeros(desc.shape, desc.dtype), offset)
            for n, desc in enumerate(outputs)
        ]
        if form == "run":
            prepared.run(*given, *made, *extra, *floats)
        else:
            words = np.array([7, 7, *np.array(floats, np.float64).view(np.int64), *(inputs[state[0]] if state else ())])
            table = uploaded(arrays, words.astype(np.int64))
            bound = [None if n in state else array for n, array in enumerate(given)]
            prepared.bind([*bound, *made, *extra], table, 2)()
        found.append([None if array is None else downloaded(arrays, array) for array in made])
    for first, second in zip(*found, strict=True):
        assert first is None or first.tobytes() == second.tobytes()
    return found[0]


def expected(call, inputs, floats=()):
    """What the reference makes of them; None for what is not wanted."""
    outputs = [None if desc is None else np.zeros(desc.shape, desc.dtype) for desc in call.writes]
    reference_run(call)(*(None if x is None else x.copy() for x in inputs), *outputs, *floats)
    return outputs
