"""Every test of files starts and ends without parameters."""

from pathlib import Path

import pytest

pytest.importorskip("google.protobuf")

FILES = Path(__file__).parent / "files"


@pytest.fixture
def files():
    """The folder of files that NNabla 1.39 wrote (`tools/nnabla_check/worker.py` has the network)."""
    return FILES
