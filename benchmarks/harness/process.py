"""The handle on the process of one library."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BENCHMARKS = Path(__file__).resolve().parent.parent

_ANSWER_TIMEOUT_S = 600.0


class LibraryError(Exception):
    """A library could not do what was asked: `summary` says in a line what happened, `args[0]` holds all of it."""

    def __init__(self, text: str, summary: str | None = None) -> None:
        super().__init__(text)
        self.summary = text.strip().splitlines()[-1] if summary is None else summary


class LibraryProcess:
    """A process of `worker.py` that stays alive between requests, stopped then; a context manager that ends it.

    Stopped, because threads of most libraries wait for further work by spinning, on the cores of whoever is asked next.
    """

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._python = python
        self._environment = dict(environment)
        self._start()

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by `_close`, with the process
        self._process = subprocess.Popen(
            [self._python, "-m", "harness.worker"],
            cwd=_BENCHMARKS,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def make(self, timeout_s: float, **request: Any) -> dict[str, Any]:
        """The answer to the request for a case, by a new process if an earlier case has ended the old one.

        Raises LibraryError, also if it takes longer than `timeout_s`; the process is ended then.
        """
        if self._process.poll() is not None:
            self._close()
            self._start()
        return self.ask("make", timeout_s, **request)

    def ask(self, do: str, timeout_s: float = _ANSWER_TIMEOUT_S, **request: Any) -> dict[str, Any]:
        """The answer to a request. LibraryError if it fails; the process may then have ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise LibraryError(self._last_words()) from error
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            self._process.kill()
            self._process.wait()
            raise LibraryError(f"{do}: no answer within {timeout_s:g} s")
        line = self._process.stdout.readline()
        self._process.send_signal(signal.SIGSTOP)
        if not line:
            raise LibraryError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LibraryError(answer["error"], answer["summary"])
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        return f"{self._log.read()[-2000:]}\nits process ended with status {self._process.returncode}"

    def __enter__(self) -> LibraryProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
