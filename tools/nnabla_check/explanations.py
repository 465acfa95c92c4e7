"""Why atled differs from NNabla 1.39 where it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nnabla_check.comparison import Difference


@dataclass(frozen=True)
class Explanation:
    """Why the differences of a function are as they should be.

    functions: names, or a regular expression of them.  what: kinds of difference, as in `Difference.what`.
    case: a regular expression that the case's name matches.
    """

    functions: str
    what: tuple[str, ...]
    reason: str
    case: str = ".*"

    def covers(self, difference: Difference) -> bool:
        """Whether it explains a difference."""
        return (
            difference.what in self.what
            and re.fullmatch(self.functions, difference.function) is not None
            and re.search(self.case, difference.case) is not None
        )


EXPLANATIONS: tuple[Explanation, ...] = ()


def reason(difference: Difference) -> str | None:
    """The explanation of a difference, None where there is none."""
    return next((item.reason for item in EXPLANATIONS if item.covers(difference)), None)


def unexplained(differences: Sequence[Difference]) -> list[Difference]:
    """Those without explanation."""
    return [difference for difference in differences if reason(difference) is None]


def unneeded(differences: Sequence[Difference]) -> list[str]:
    """The explanations of nothing, in words."""
    return [
        f"{item.functions} ({', '.join(item.what)}): {item.reason}"
        for item in EXPLANATIONS
        if not any(item.covers(difference) for difference in differences)
    ]
