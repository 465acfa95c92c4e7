"""What the demo says at its end: a text for people, an object for programs."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from atled import __version__
from atled.demo.preparing import PreparationLog
from atled.demo.training import Plan, Result
from atled_contexts import Context, Trace, TraceRow


def as_text(result: Result, files: dict[str, Path]) -> str:
    """Which backend ran which op, the accuracy, and the paths of the files."""
    last = result.epochs[-1]
    lines = ["Who ran what:", str(result.trace), *_by_note(result.trace), ""]
    lines.append(f"test accuracy: {last.accuracy:.2%} of {len(result.predictions)} held-out images")
    lines.append(f"training took {result.seconds:.1f} s")
    lines += [f"{what.replace('_', ' ')}: {path}" for what, path in files.items()]
    return "\n".join(lines)


def _by_note(trace: Trace) -> list[str]:
    """One paragraph per sort of implementation: its share of the time, and its ops."""
    rows = trace.rows()
    total = sum(row.seconds for row in rows)
    groups: dict[str, list[TraceRow]] = {}
    for row in rows:
        # What follows a semicolon is a variant, of interest only to those who read the JSON.
        sort = ", ".join(part for part in (row.backend, row.note.partition(";")[0]) if part)
        groups.setdefault(sort, []).append(row)
    paragraphs = []
    for sort, members in groups.items():
        share = sum(row.seconds for row in members) / total
        names = ", ".join(row.op for row in members)
        paragraphs.append(textwrap.fill(f"{sort}, {share:.0%} of the time: {names}", 80, subsequent_indent="  "))
    return paragraphs


# `Any`: what JSON can hold.
def as_json(
    plan: Plan, context: Context, result: Result, preparations: PreparationLog, files: dict[str, Path]
) -> dict[str, Any]:
    """The same for `json.dumps`: times in seconds, null for a number that is not finite."""
    trace = result.trace
    fallen = [row for row in trace.rows() if row.fallbacks]
    return {
        "version": __version__,
        "test_accuracy": result.epochs[-1].accuracy,
        "test_count": len(result.predictions),
        "seconds": result.seconds,
        "context": {
            "backend": [f"{name}:{type_config}" for name, type_config in context.backends],
            "array_class": context.array_class,
            "device_id": context.device_id,
        },
        "mode": "dynamic" if plan.dynamic else "static",
        "epochs": plan.epochs,
        "batch_size": plan.batch_size,
        "seed": plan.seed,
        "losses": [_finite(epoch.loss) for epoch in result.epochs],
        "accuracies": [epoch.accuracy for epoch in result.epochs],
        "images_per_second": [epoch.images_per_second for epoch in result.epochs],
        "preparation": {"count": preparations.count, "seconds": preparations.seconds()},
        "trace": trace.to_json(),
        "fallbacks": [
            {"op": row.op, "backend": row.backend, "calls": row.fallbacks, "bytes_moved": row.bytes_moved}
            for row in fallen
        ],
        "files": {what: str(path) for what, path in files.items()},
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
