"""The command line of a training."""

import logging

import numpy as np
import pytest

from atled.neon import logger
from atled.neon.backends import cleanup_backend
from atled.neon.callbacks import Callbacks
from atled.neon.nervana_object import NervanaObject
from atled.neon.util.argparser import NeonArgparser, extract_valid_args


@pytest.fixture(autouse=True)
def no_backend():
    """None before and after; the logger as it was."""
    cleanup_backend()
    level, handlers = logger.level, list(logger.handlers)
    yield
    cleanup_backend()
    logger.setLevel(level)
    for each in set(logger.handlers) - set(handlers):
        logger.removeHandler(each)
        each.close()


def parsed(*words, gen_be=False):
    return NeonArgparser("Learns.").parse_args(gen_be=gen_be, args=list(words))


def test_defaults():
    args = parsed()
    wanted = ("cpu", 10, 128, None, np.float32, 0, True)
    found = (args.backend, args.epochs, args.batch_size, args.rng_seed, args.datatype, args.device_id)
    assert (*found, args.progress_bar) == wanted


def test_backend_is_made_of_the_arguments():
    parsed("-b", "cpu", "-z", "32", "-d", "f64", "-r", "7", "--caffe", gen_be=True)
    be = NervanaObject.be
    assert (be.bsz, be.default_dtype, be.deterministic, be.compat_mode) == (32, np.float64, True, "caffe")


def test_backend_is_not_made_on_request():
    parsed()
    assert NervanaObject.be is None


def test_atled_backends_have_their_names():
    parsed("-b", "sim", gen_be=True)
    assert NervanaObject.be.context.backends[0][0] == "sim"


def test_callback_args_are_those_of_callbacks(tmp_path):
    args = parsed("-eval", "2", "-s", str(tmp_path / "m.h5"), "--serialize", "--no_progress_bar")
    assert args.callback_args == {
        "output_file": None,
        "eval_freq": 2,
        "progress_bar": False,
        "save_path": str(tmp_path / "m.h5"),
        "serialize": 1,
        "history": 1,
        "model_file": None,
    }


def test_folders_of_written_files_are_made(tmp_path):
    parsed("-o", str(tmp_path / "a" / "o.h5"), "-l", str(tmp_path / "b" / "log.txt"))
    assert (tmp_path / "a").is_dir()
    logger.warning("is told")
    assert "WARNING: is told" in (tmp_path / "b" / "log.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "level"), [((), logging.WARNING), (("-v",), logging.INFO), (("-vv",), logging.DEBUG)]
)
def test_verbosity_is_the_level_of_the_logger(words, level):
    parsed(*words)
    assert logger.level == level


def test_programs_add_arguments():
    parser = NeonArgparser()
    parser.add_argument("--depth", type=int, default=3)
    assert parser.parse_args(gen_be=False, args=["--depth", "4"]).depth == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--serialize", "2"), "--save_path"),
        (("--model_file", "nowhere.h5"), "nowhere.h5"),
        (("-d", "f8"), "f8"),
        (("-e", "-3"), "count"),
        (("--unknown",), "--unknown"),
    ],
)
def test_wrong_arguments_end_with_a_message(capsys, words, told):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert told in capsys.readouterr().err


def test_help_tells_defaults(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    shown = capsys.readouterr().out
    assert "Learns." in shown
    assert "(default: 128)" in shown


def test_list_in_the_place_of_gen_be_is_refused():
    with pytest.raises(TypeError, match="args="):
        NeonArgparser().parse_args(["-e", "3"])


def test_valid_args_are_those_that_a_function_takes():
    args = parsed()
    assert extract_valid_args(args, lambda epochs, backend: None, startidx=1) == {"backend": "cpu"}
    assert extract_valid_args(args, Callbacks.__init__, 1).keys() == args.callback_args.keys()


def test_rounding_is_taken_with_and_without_bits():
    assert [parsed(*words).rounding for words in ((), ("--rounding",), ("--rounding", "8"))] == [False, True, 8]
