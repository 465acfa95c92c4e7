"""Downloading files, with progress and checksum; an interrupted download leaves no file."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import IO, Any

from atled.errors import four_parts, in_words, listing
from atled.files.replacing import replacing
from atled.logger import logger

__all__ = ["download", "get_data_home"]

_BLOCK_BYTES = 1 << 16
_TIMEOUT_S = 60.0
_SCHEMES = ("http", "https", "file")

Progress = Callable[[int, int | None], None]
"""Called with the count of bytes that have come and that of the whole file, None where the server does not say."""


def get_data_home() -> str:
    """The folder of downloaded data, NNabla's: `nnabla_data` in the home folder."""
    return os.path.join(os.path.expanduser("~"), "nnabla_data")


def download(
    url: str,
    output_file: str | os.PathLike[str] | None = None,
    open_file: bool = True,
    allow_overwrite: bool = False,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
) -> IO[bytes] | None:
    """Download a file, unless it is there already.

    The file is written beside and renamed when it is complete and its checksum right: an interrupted download leaves
    nothing under its name.

    Args:
        url: `http://`, `https://` or `file://`.
        output_file: path; None: the last part of the url, in `get_data_home()`, which is made if needed.
        open_file: open the file for reading, in binary mode.
        allow_overwrite: download it even if it is there.
        sha256: checksum in hexadecimal digits. A file that is there with another one is downloaded again.
        progress: called with (bytes so far, bytes of all or None) after each block; None: a line on stderr, where that
            is a terminal.

    Returns:
        the open file; None for `open_file=False`.

    Raises:
        ValueError: not an url of these kinds; no name to save it by; the file has another checksum than it should.
        OSError: the server cannot be reached (ConnectionError), refuses, or breaks off; the file cannot be written.
    """
    asked = f"download({url!r})"
    path = os.fspath(output_file) if output_file is not None else os.path.join(get_data_home(), _name(asked, url))
    wanted = None if sha256 is None else _digest(asked, sha256)
    if allow_overwrite or not os.path.exists(path) or (wanted is not None and _sha256(path) != wanted):
        _fetch(asked, url, path, wanted, progress)
    else:
        logger.info("%s is there: not downloaded again", path)
    return open(path, "rb") if open_file else None


def _name(asked: str, url: str) -> str:
    name = os.path.basename(urllib.parse.unquote(_parts(asked, url).path).replace("\\", "/"))
    if name in ("", ".", ".."):
        raise ValueError(four_parts(asked, "the url ends in no name", "", "pass output_file="))
    return name


def _parts(asked: str, url: str) -> urllib.parse.SplitResult:
    try:
        return urllib.parse.urlsplit(url)
    except ValueError as error:
        raise ValueError(four_parts(asked, f"not an url ({error})", "", "check the url")) from error


def _digest(asked: str, sha256: str) -> str:
    digits = sha256.lower()
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise ValueError(four_parts(asked, f"sha256={sha256!r} is no SHA-256", "", "pass its 64 hexadecimal digits"))
    return digits


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(asked: str, url: str, path: str, wanted: str | None, progress: Progress | None) -> None:
    """Download to a path."""
    if _parts(asked, url).scheme.lower() not in _SCHEMES:
        raise ValueError(
            four_parts(asked, "not an url that can be downloaded", f"known are {listing(_SCHEMES)}", "check the url")
        )
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with replacing(path) as beside:
        with open(beside, "xb") as file:
            found = _copy(asked, url, file, progress if progress is not None else _shown(os.path.basename(path)))
            file.flush()
            os.fsync(file.fileno())
        if wanted is not None and found != wanted:
            raise ValueError(
                four_parts(
                    asked,
                    f"its SHA-256 is {found}, not {wanted}: the file is damaged or another one",
                    "",
                    "try again; if it stays so, ask the owner of the file for its checksum",
                )
            )


def _copy(asked: str, url: str, file: IO[bytes], progress: Progress) -> str:
    """Copy the contents of a URL into a file; their SHA-256."""
    digest = hashlib.sha256()
    count = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdigit() else None
            while block := response.read(_BLOCK_BYTES):
                file.write(block)
                digest.update(block)
                count += len(block)
                progress(count, total)
    except urllib.error.HTTPError as error:
        remedy = "check the url; if it is right, the file is not there any more, or not for everyone"
        raise OSError(four_parts(asked, f"the server answers {error.code} {error.reason}", "", remedy)) from error
    except urllib.error.URLError as error:
        raise _unreachable(asked, url, error.reason) from error
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        wrong = f"the connection broke off after {count} bytes ({in_words(error)})"
        raise ConnectionError(four_parts(asked, wrong, "", "try again")) from error
    if total is not None and count != total:
        raise ConnectionError(
            four_parts(asked, f"the connection broke off after {count} of {total} bytes", "", "try again")
        )
    return digest.hexdigest()


def _unreachable(asked: str, url: str, reason: Any) -> OSError:
    parts = _parts(asked, url)
    wrong = in_words(reason) if isinstance(reason, BaseException) else str(reason)
    if parts.scheme.lower() == "file":
        return OSError(four_parts(asked, f"the file could not be read ({wrong})", "", "check the url"))
    host = parts.netloc
    return ConnectionError(
        four_parts(
            asked,
            f"{host} cannot be reached ({wrong})",
            "",
            "check the network (HTTPS_PROXY names a proxy), or download the file elsewhere and pass its path to the "
            f"program; files in {get_data_home()} are taken as they are",
        )
    )


def _shown(name: str) -> Progress:
    """Progress as one line on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    shown = -1

    def show(done: int, total: int | None) -> None:
        nonlocal shown
        step = done * 100 // total if total else done >> 20
        if step != shown:
            shown = step
            end = "\n" if done == total else ""
            sys.stderr.write(f"\r{name}: {f'{step} %' if total else f'{step} MiB'}{end}")
            sys.stderr.flush()

    return show


def __dir__() -> list[str]:
    return sorted(__all__)
