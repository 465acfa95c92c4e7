"""Configuration files override each other in order; the logger follows them and stays out of the way."""

import logging
import subprocess
import sys

import pytest

import atled
from atled import config as c


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Files of a home, a current folder and a named one, none of which is there yet."""
    home, here, named = tmp_path / "home", tmp_path / "here", tmp_path / "named.conf"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NNABLA_CONFIG_FILE_PATH", str(named))
    monkeypatch.chdir(here)
    return home / ".nnabla", here / "nnabla.conf", named


def test_the_defaults_are_nnablas():
    config = c.read_config()
    assert config.sections() == ["DATA_ITERATOR", "LOG", "MISC", "CALLBACK", "CHECKPOINT", "MULTINODE"]
    assert config.get("DATA_ITERATOR", "data_source_buffer_max_size") == "1073741824"
    assert config.getint("DATA_ITERATOR", "data_source_file_cache_size") == 100
    assert "%(asctime)s" in config.get("LOG", "log_console_format")


def test_later_files_win(places):
    for number, path in enumerate(places):
        keys = [
            "data_source_file_cache_size",
            "data_source_file_cache_num_of_threads",
            "cache_file_cache_num_of_threads",
        ]
        path.write_text(
            "[DATA_ITERATOR]\n" + "".join(f"{key} = {number + 7}\n" for key in keys[number:]) + "[MINE]\na = b\n"
        )
    config = c.read_config()
    assert config.get("DATA_ITERATOR", "data_source_file_cache_size") == "7"
    assert config.get("DATA_ITERATOR", "data_source_file_cache_num_of_threads") == "8"
    assert config.get("DATA_ITERATOR", "cache_file_cache_num_of_threads") == "9"
    assert config.get("MINE", "a") == "b"


@pytest.mark.parametrize("content", [b"nonsense\n", b"[A]\nx\n", b"\xff\xfe[A]"])
def test_a_damaged_file_is_named(places, content):
    places[1].write_bytes(content)
    with pytest.raises(ValueError, match="mend the file, or move it away") as raised:
        c.read_config()
    assert str(places[1]) in str(raised.value)


def run(code, folder):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=folder)


def test_the_logger_shows_on_stderr_by_its_level(tmp_path):
    done = run("from atled.logger import logger\nlogger.info('hello')\nlogger.debug('no')", tmp_path)
    assert done.stdout == "" and done.stderr.endswith("[atled][INFO]: hello\n") and "no" not in done.stderr


def test_the_logger_follows_the_configuration(tmp_path):
    (tmp_path / "nnabla.conf").write_text(
        "[LOG]\nlog_console_level = ERROR\nlog_file_name = a.log\nlog_file_format = %(message)s\n"
    )
    done = run("from atled.logger import logger\nlogger.debug('one')\nlogger.error('two')", tmp_path)
    assert done.stderr.count("\n") == 1 and "two" in done.stderr
    assert (tmp_path / "a.log").read_text() == "one\ntwo\n"


def test_an_unknown_level_is_refused(tmp_path):
    (tmp_path / "nnabla.conf").write_text("[LOG]\nlog_console_level = LOUD\n")
    done = run("import atled.logger", tmp_path)
    assert "use one of DEBUG, INFO, WARNING, ERROR, CRITICAL" in done.stderr


def test_the_logger_leaves_messages_to_logging_of_the_programs_own(tmp_path):
    code = (
        "import logging, atled.logger\nlogging.basicConfig(format='mine: %(message)s')\natled.logger.logger.info('x')"
    )
    assert run(code, tmp_path).stderr == "mine: x\n"


def test_the_module_answers_like_the_logger():
    from atled.logger import logger

    assert isinstance(logger, logging.Logger) and logger.name == "atled"
    assert atled.logger.info == logger.info
    with pytest.raises(AttributeError):
        atled.logger.nothing  # noqa: B018  # the access is what is tested
