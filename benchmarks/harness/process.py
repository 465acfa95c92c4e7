"""The handle on the process of one library."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BENCHMARKS = Path(__file__).resolve().parent.parent

# Covers the first compilation of all kernels of a row.
_ANSWER_TIMEOUT_S = 600.0


class LibraryError(Exception):
    """A library could not do what was asked: the last line says what happened, `args[0]` holds all of it."""

    @property
    def summary(self) -> str:
        """The last line."""
        return str(self).strip().splitlines()[-1]


class LibraryProcess:
    """A process of `worker.py` that stays alive between requests; a context manager that ends it."""

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by `close`, with the process
        self._process = subprocess.Popen(
            [python, "-m", "harness.worker"],
            cwd=_BENCHMARKS,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer to a request. LibraryError if it fails; the process may then have ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise LibraryError(self._last_words()) from error
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_TIMEOUT_S)
        if not ready:
            self._process.kill()
            raise LibraryError(f"{do}: no answer within {_ANSWER_TIMEOUT_S:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise LibraryError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LibraryError(answer["error"])
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        return f"{self._log.read()[-2000:]}\nits process ended with status {self._process.returncode}"

    def __enter__(self) -> LibraryProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
