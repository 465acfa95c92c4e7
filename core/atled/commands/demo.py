"""Train a small network on real data and show who computed what.

`digits` trains a convolutional network on scikit-learn's handwritten digits (1797 images of 8x8 pixels, a fifth of
them held out) and ends with the accuracy on the held-out ones, a table of which backend ran which op, two pictures
and the parameters in a file. Equal seeds give equal results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

_EXAMPLES = """\
examples:
  python -m atled demo digits
  python -m atled demo digits --context reference --epochs 3
  python -m atled demo digits --context cpu:half --out half
  python -m atled demo digits --dynamic
  python -m atled demo digits --json > result.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `demo`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("task", choices=["digits"], help="what to train")
    parser.add_argument(
        "--context", metavar="NAME", help="backend to prefer, such as cpu or cpu:half (default: the default Context)"
    )
    parser.add_argument("--epochs", type=_whole(1), default=15, metavar="N", help="passes over the data (default: 15)")
    parser.add_argument(
        "--batch-size", type=_whole(1), default=32, metavar="N", help="images per training step (default: 32)"
    )
    parser.add_argument("--dynamic", action="store_true", help="record a new graph at every step, computing at once")
    # The limit is that of numpy.random.seed.
    parser.add_argument("--seed", type=_whole(0, 2**32 - 1), default=0, metavar="N", help="of all chance (default: 0)")
    parser.add_argument("--out", default="demo-out", metavar="DIR", help="folder for files (default: ./demo-out)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on stdout; progress goes to stderr then"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; the exit status."""
    # Here, not at the top: these import the library's front and load optional libraries.
    from atled.demo.requirements import check_libraries

    check_libraries()
    from atled.demo.session import Request, run_digits

    run_digits(
        Request(
            arguments.context,
            arguments.epochs,
            arguments.batch_size,
            arguments.dynamic,
            arguments.seed,
            arguments.out,
            arguments.json,
        )
    )
    return 0


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser for whole numbers in these limits, both included."""
    limits = f"at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{number} is not {limits}")
        return number

    return parse
