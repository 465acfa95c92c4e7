"""One run of the demo from the request to the files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atled.demo import figures, summary
from atled.demo.digits import Digits, load_digits
from atled.demo.display import Screen, open_screen
from atled.demo.output import open_folder
from atled.demo.preparing import PreparationLog
from atled.demo.training import Plan, Result, train
from atled.errors import CommandError, four_parts, in_words
from atled.files.parameters import save_parameters
from atled.files.replacing import replace_bytes
from atled.named_tuple import NamedTuple
from atled.parameter import clear_parameters, parameter_scope
from atled_contexts import (
    Context,
    Preparation,
    context_scope,
    get_current_context,
    get_extension_context,
    watch_preparation,
)

_SCOPE = "atled_demo_digits"


class Request(NamedTuple):
    """What the user asked for, checked as far as its form goes.

    context: "name" or "name:type_config"; None: the default.  out: path of the folder for files.
    json: one JSON object on stdout, and nothing else there.
    """

    context: str | None
    epochs: int
    batch_size: int
    dynamic: bool
    seed: int
    out: str
    json: bool


def run_digits(request: Request) -> None:
    """Train, write the files, tell the user.

    Before training CommandError for a folder that cannot be written or a batch larger than the data, PluginError or
    ContextError for a Context that cannot be. Behind the report CommandError where the disk did not take the files.
    """
    context = choose_context(request.context)
    plan = Plan(request.epochs, request.batch_size, request.seed, request.dynamic)
    stream = sys.stderr if request.json else sys.stdout
    print("loading scikit-learn's digits ...", file=stream, flush=True)
    digits = load_digits()
    steps = _step_count(digits, plan)
    folder = open_folder(request.out)
    preparations = PreparationLog()
    with context_scope(context), _fresh_parameters():
        with open_screen(stream, plan.epochs, steps) as screen:
            screen.say(_headline(digits, plan, context))
            result = _train_watched(digits, plan, screen, preparations)
        print("drawing ...", file=stream, flush=True)
        files, unwritten = _written(folder, digits, result)
    if request.json:
        print(json.dumps(summary.as_json(plan, context, result, preparations, files), indent=2, allow_nan=False))
    else:
        print(summary.as_text(result, files))
    if unwritten is not None:
        why = in_words(unwritten.__cause__ or unwritten)
        raise CommandError(
            four_parts(f"--out {request.out}", "not all files can be written", why, "name another folder")
        ) from unwritten


def _step_count(digits: Digits, plan: Plan) -> int:
    """Steps in an epoch; CommandError if there is none."""
    count = len(digits.train_images)
    if plan.batch_size > count:
        raise CommandError(
            four_parts(
                f"--batch-size {plan.batch_size}", f"there are {count} training images", "", "choose a smaller batch"
            )
        )
    return count // plan.batch_size


@contextmanager
def _fresh_parameters() -> Iterator[None]:
    """An empty parameter scope, emptied again in the end, so that a process can run the demo twice."""
    with parameter_scope(_SCOPE):
        clear_parameters()
        try:
            yield
        finally:
            clear_parameters()


def choose_context(wanted: str | None) -> Context:
    """The Context that "name" or "name:type_config" stands for; the default one for None."""
    if wanted is None:
        return get_current_context()
    name, _, type_config = wanted.partition(":")
    return get_extension_context(name, type_config=type_config or "float")


def _headline(digits: Digits, plan: Plan, context: Context) -> str:
    kind = "dynamic" if plan.dynamic else "static"
    backends = ", ".join(f"{name}:{type_config}" for name, type_config in context.backends)
    return (
        f"training on {len(digits.train_images)} images, {len(digits.test_images)} held out; "
        f"{kind} graph, batches of {plan.batch_size}; backends {backends}"
    )


def _train_watched(digits: Digits, plan: Plan, screen: Screen, preparations: PreparationLog) -> Result:
    def watch(report: Preparation) -> None:
        preparations(report)
        if not report.is_finished:
            screen.prepare(report, preparations.count)

    with watch_preparation(watch):
        result = train(digits, plan, screen, preparations.seconds)
    if preparations.count:
        screen.say(f"preparing {preparations.count} kernels took {preparations.seconds():.1f} s of that")
    return result


def _written(folder: Path, digits: Digits, result: Result) -> tuple[dict[str, Path], OSError | None]:
    """The files that were written, and what ended that before all were: what was trained is reported all the same."""
    curve, grid, parameters = folder / "learning_curve.png", folder / "digits.png", folder / "digits.h5"
    files: dict[str, Path] = {}
    try:
        replace_bytes(curve, figures.learning_curve(result.epochs))
        files["learning_curve"] = curve
        replace_bytes(grid, figures.predictions_grid(digits, result.predictions))
        files["digits"] = grid
        save_parameters(parameters)
        files["parameters"] = parameters
    except OSError as error:
        return files, error
    return files, None
