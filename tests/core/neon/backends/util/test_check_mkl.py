"""What programs ask of the original's MKL library."""

import os

from atled.neon.backends.util.check_mkl import get_mkl_lib


def test_there_is_no_library():
    assert not os.path.exists(get_mkl_lib())
