"""MRG31k3p as C: the values and rows of the reference, where there is a compiler."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from atled.ops import mrg31k3p
from atled.plugin import C99, CUDA, OPENCL, write_stream_c

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or clang) on this machine")
def test_steps_are_those_of_the_reference(tmp_path):
    source = tmp_path / "stream.c"
    source.write_text(write_stream_c(C99) + "\nint step(unsigned int *x) { return mrg_next(x); }\n")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", tmp_path / "stream.so", source], check=True)
    step = ctypes.CDLL(str(tmp_path / "stream.so")).step
    # The largest numbers of a row are there as well, where sums are largest.
    for row in ([1, 2, 3, 4, 5, 6], [mrg31k3p.M1 - 1] * 3 + [mrg31k3p.M2 - 1] * 3):
        x, rows = np.array(row, np.uint32), np.array([row], np.int32)
        z, after = mrg31k3p.draw(rows, 2000)
        assert [step(ctypes.c_void_p(x.ctypes.data)) for _ in range(2000)] == z.tolist()
        np.testing.assert_array_equal(x, after[0])


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        (CUDA, "static __device__ __forceinline__ int mrg_next(unsigned int *x)"),
        (OPENCL, "(__private unsigned int *x)"),
    ],
)
def test_it_is_written_for_devices(dialect, words):
    assert words in write_stream_c(dialect)
