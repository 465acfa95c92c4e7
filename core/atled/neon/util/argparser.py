"""NeonArgparser: the command line of programs that train a model."""

from __future__ import annotations

import argparse
import inspect
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.backends import gen_backend
from atled.neon.callbacks.callbacks import Callbacks
from atled.neon.message_log import logger
from atled.neon.util.persist import ensure_dirs_exist, get_data_cache_dir

_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def extract_valid_args(args: Any, func: Callable[..., Any], startidx: int = 0) -> dict[str, Any]:
    """Those of the parsed arguments that a function takes, by name; startidx: how many of its first to leave out."""
    names = list(inspect.signature(func).parameters)[startidx:]
    return {name: value for name, value in vars(args).items() if name in names}


class NeonArgparser(argparse.ArgumentParser):
    """A parser with the arguments of a training, to which a program adds its own.

        args = NeonArgparser(__doc__).parse_args()
        callbacks = Callbacks(model, eval_set=data, **args.callback_args)

    description: shown by --help.  kwargs: as of argparse.ArgumentParser.
    """

    def __init__(self, description: str | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.ArgumentDefaultsHelpFormatter)
        super().__init__(description=description, **kwargs)
        self.setup_default_args()

    def setup_default_args(self) -> None:
        """Add the arguments that every program has."""
        self.add_argument("-v", "--verbose", action="count", default=1, help="tell more; -vv for still more")
        self.add_argument("--no_progress_bar", action="store_true", help="show no bar")
        run = self.add_argument_group("run")
        run.add_argument("-w", "--data_dir", default=get_data_cache_dir(), help="folder of data")
        run.add_argument("-e", "--epochs", type=_count, default=10, help="passes over the data")
        run.add_argument("-s", "--save_path", help="where the model is saved")
        save = "save the model every N epochs; 1 without N"
        run.add_argument("--serialize", type=_count, nargs="?", default=0, const=1, metavar="N", help=save)
        run.add_argument("-H", "--history", type=_count, default=1, help="how many saved models are kept")
        run.add_argument("--model_file", help="saved model to begin with")
        run.add_argument("-l", "--log", dest="logfile", help="file to which messages are written as well")
        run.add_argument("-o", "--output_file", help="HDF5 file for costs and metrics")
        run.add_argument("-eval", "--eval_freq", type=_count, help="evaluate every so many epochs")
        backend = self.add_argument_group("backend")
        which = "cpu, gpu, mkl, or any backend of atled, such as sim"
        backend.add_argument("-b", "--backend", default="cpu", help=which)
        backend.add_argument("-i", "--device_id", type=_count, default=0, help="number of the GPU")
        backend.add_argument("-r", "--rng_seed", type=int, help="seed of random numbers; without one, all runs differ")
        backend.add_argument("-d", "--datatype", choices=_DTYPES, default="f32", help="floating-point numbers")
        backend.add_argument("-z", "--batch_size", type=_count, default=128, help="examples of a batch")
        rounding = "bits of stochastic rounding; for programs that read it, no effect"
        backend.add_argument(
            "--rounding", type=_count, nargs="?", default=False, const=True, metavar="BITS", help=rounding
        )
        backend.add_argument("--caffe", action="store_true", help="output sizes and drop-out as in caffe")

    # Another result than argparse's: neon's method takes gen_be first.
    def parse_args(  # type: ignore[override]
        self, gen_be: bool = True, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """The arguments of the command line, and what follows from them.

        gen_be: whether the backend is made that they name.  args: the arguments, instead of the command line's.

        Of the result: datatype is a dtype; progress_bar, whether there is one; callback_args, those that Callbacks
        takes. The level of `logger` is set: WARNING, with -v INFO, with -vv DEBUG.

        SystemExit: as argparse, after a message; also serialize without save_path, and a model_file that is not there.
        """
        if isinstance(gen_be, list | tuple):
            asked = f"{type(self).__name__}.parse_args of a list"
            raise TypeError(four_parts(asked, "gen_be comes first", "", "pass the list as args="))
        parsed = super().parse_args(args, namespace)
        if parsed.serialize and not parsed.save_path:
            self.error("--serialize needs a place: add --save_path PATH")
        if parsed.model_file and not os.path.isfile(parsed.model_file):
            self.error(f"--model_file {parsed.model_file}: there is no such file")
        for path in parsed.save_path, parsed.output_file, parsed.logfile:
            if path:
                ensure_dirs_exist(path)
        _set_log(parsed.verbose, parsed.logfile)
        parsed.datatype = _DTYPES[parsed.datatype]
        parsed.progress_bar = not parsed.no_progress_bar
        parsed.callback_args = extract_valid_args(parsed, Callbacks.__init__, startidx=1)
        if gen_be:
            gen_backend(
                parsed.backend,
                rng_seed=parsed.rng_seed,
                datatype=parsed.datatype,
                batch_size=parsed.batch_size,
                device_id=parsed.device_id,
                compat_mode="caffe" if parsed.caffe else None,
            )
        return parsed


def _count(text: str) -> int:
    """A whole number from 0 up; argparse makes a message of a ValueError."""
    value = int(text)
    if value < 0:
        raise ValueError
    return value


_count.__name__ = "count"  # as argparse's message has it


def _set_log(verbose: int, path: str | None) -> None:
    logger.setLevel(max(logging.DEBUG, 40 - 10 * verbose))
    if path:
        handler = logging.FileHandler(path, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s: %(message)s"))
        logger.addHandler(handler)
