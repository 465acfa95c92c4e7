"""What tests of single op specs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops.spec import SPECS


def _reference(op: str, *arrays: np.ndarray | None, **attributes: Any) -> Any:
    spec = SPECS[op]
    descs = [None if array is None else ArrayDesc(array.shape, array.dtype) for array in arrays]
    checked = spec.check_attributes(attributes, descs)
    outputs = spec.infer_outputs(descs, checked)
    results = spec.reference(*arrays, **checked)
    results = [results] if isinstance(results, np.ndarray) else list(results)
    assert [(y.shape, y.dtype) for y in results] == [(desc.shape, desc.dtype) for desc in outputs]
    return results[0] if len(results) == 1 else results


@pytest.fixture
def reference() -> Callable[..., Any]:
    """`reference(op, *arrays, **attributes)`: check, infer and compute one call by the op's reference."""
    return _reference
