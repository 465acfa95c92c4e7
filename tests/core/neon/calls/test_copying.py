"""Copies with the axes in another order."""

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3), None), ((2, 3), (0, 1)), ((2, 3, 4), None), ((2, 3, 4), (1, 2, 0)), ((2, 3, 4, 5), None)],
)
def test_a_copy_is_transposed_as_by_numpy(be, shape, axes):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = np.transpose(values, axes)
    out = be.zeros(expected.shape)
    assert be.copy_transpose(be.array(values), out, axes, repeat=2) is out
    np.testing.assert_array_equal(out.get(), expected)


def test_a_view_is_transposed_into_a_view_of_itself(be):
    x = be.array(np.arange(16).reshape(4, 4))
    expected = x.get()
    be.copy_transpose(x[:2, 1:], x[:3, :2])
    expected[:3, :2] = expected[:2, 1:].T.copy()
    np.testing.assert_array_equal(x.get(), expected)


@pytest.mark.parametrize(
    ("out", "axes", "message"),
    [((2, 3), None, r"out has shape \[2, 3\], where \[3, 2\]"), ((3, 2), (0, 0), "axes"), ((3, 2), (0, 1, 2), "axes")],
)
def test_another_shape_or_wrong_axes_are_refused(cpu, out, axes, message):
    out = cpu.zeros(out)
    with pytest.raises(ValueError, match=message):
        cpu.copy_transpose(cpu.ones((2, 3)), out, axes)
    assert not out.get().any()


def test_a_double_buffer_takes_transposed_arrays_in_turns(be):
    host = [np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)]
    device = [be.zeros((3, 2)), None]
    kept = device[0]
    for number in (0, 1, 0):
        host[number] += 1
        be.consume(number, host, device)
        np.testing.assert_array_equal(device[number].get(), host[number].T, strict=True)
    assert device[0] is kept
    with pytest.raises(ValueError, match="there are two buffers"):
        be.consume(2, host, device)


def test_a_copy_is_one_program_with_a_plan(cpu):
    assert "1 steps" in str(cpu.plan("copy_transpose", cpu.zeros((2, 3)), cpu.zeros((3, 2))))
    with pytest.raises(TypeError, match="no tensor"):
        cpu.copy_transpose(cpu.zeros((2, 3)), np.zeros((3, 2)))
