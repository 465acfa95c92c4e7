"""The settings that NNabla keeps in `nnabla.conf`: `nnabla_config`, read from the same files under the same names."""

from __future__ import annotations

import configparser
import os

from atled.errors import four_parts

__all__ = ["nnabla_config"]

DEFAULTS = {
    "DATA_ITERATOR": {
        # Format of the files that DataSourceWithFileCache writes: .npy or .h5.
        "cache_file_format": ".npy",
        # Threads that read samples while cache files are written, and that read cache files ahead.
        "data_source_file_cache_num_of_threads": "10",
        "cache_file_cache_num_of_threads": "4",
        # Samples per cache file.
        "data_source_file_cache_size": "100",
        # Folder for temporary caches; empty: the system's.
        "data_source_file_cache_location": "",
        # Bytes; a data set below that is kept in memory by DataSourceWithMemoryCache.
        "data_source_buffer_max_size": "1073741824",
    },
    "LOG": {
        "log_file_name": "",
        "log_file_level": "DEBUG",
        "log_file_format": (
            "%(asctime)s [%(name)s][%(levelname)s]: %(pathname)s : %(funcName)s : %(lineno)s : %(message)s"
        ),
        "log_console_level": "INFO",
        "log_console_format": "%(asctime)s [%(name)s][%(levelname)s]: %(message)s",
    },
    "MISC": {"misc_show_progress": "True", "nnp_param_format": ".h5"},
    # Names that scripts may ask for; nothing in atled reads them.
    "CALLBACK": {"util_callback_module": ""},
    "CHECKPOINT": {"optimizer_interval": "5"},
    "MULTINODE": {
        "analyse_gpu_status_interval": "20",
        "gpu_slowing_warning_threshold": "2",
        "gpu_slowing_error_threshold": "10",
    },
}


def config_files() -> list[str]:
    """The files that are looked for, later ones overriding earlier ones.

    That of the system, of the user, of the current folder, then the one that NNABLA_CONFIG_FILE_PATH names.
    """
    if os.name == "nt":
        folders = [os.environ.get(name, "") for name in ("ProgramData", "APPDATA")]
        files = [os.path.join(folder, "NNabla", "nnabla.ini") for folder in folders if folder]
    else:
        files = ["/etc/nnabla.conf", os.path.join(os.path.expanduser("~"), ".nnabla")]
    files.append(os.path.join(os.getcwd(), "nnabla.conf"))
    named = os.environ.get("NNABLA_CONFIG_FILE_PATH")
    return [*files, named] if named else files


def read_config() -> configparser.RawConfigParser:
    """The defaults, overridden by whatever files there are.

    Raises ValueError, naming file and line, for a file that does not parse.
    """
    config = configparser.RawConfigParser()
    config.read_dict(DEFAULTS)
    for path in config_files():
        if os.path.isfile(path):
            _read(config, path)
    return config


def _read(config: configparser.RawConfigParser, path: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            config.read_file(file)
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ValueError(
            four_parts(f"configuration file {path!r}", str(error), "", "mend the file, or move it away")
        ) from error


def whole_number(section: str, name: str, least: int = 0) -> int:
    """A setting as a number of at least `least`; ValueError, naming it, for anything else."""
    text = nnabla_config.get(section, name)
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ValueError(
            four_parts(
                f"setting {name} = {text} in section [{section}]",
                f"it is not a whole number of at least {least}",
                f"read from {', '.join(path for path in config_files() if os.path.isfile(path)) or 'no file'}",
                f"the default is {DEFAULTS[section][name]}",
            )
        )
    return number


nnabla_config = read_config()


def __dir__() -> list[str]:
    return sorted(__all__)
