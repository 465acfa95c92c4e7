"""The solvers of the library, for the tests that hold for each of them."""

from __future__ import annotations

import atled.solvers as S

SOLVERS: list[type[S.Solver]] = [
    kind
    for kind in (getattr(S, name) for name in S.__all__)
    if issubclass(kind, S.Solver) and kind is not S.Solver  # the base moves nothing
]
