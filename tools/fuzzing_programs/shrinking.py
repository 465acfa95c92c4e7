"""Unclean programs made smaller: what can be left out without another outcome is left out."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzzing_programs.setting import Setting

_CHECKER = Path(__file__).with_name("checker.py")
_TIME_S = 60.0


def shrunk(statements: Sequence[str], fails: Callable[[Sequence[str]], bool], most: int = 400) -> list[str]:
    """The statements without those that are not needed for the failure; at most `most` attempts."""
    left = list(statements)
    tries = 0
    size = max(1, len(left) // 2)
    while tries < most:
        is_smaller = False
        end = len(left)
        while end > 0 and tries < most:
            start = max(0, end - size)
            candidate = left[:start] + left[end:]
            tries += 1
            if candidate and fails(candidate):
                left, is_smaller = candidate, True
            end = start
        if size == 1 and not is_smaller:
            break
        size = max(1, size // 2)
    return _without_lines(left, fails)


def _without_lines(statements: list[str], fails: Callable[[Sequence[str]], bool]) -> list[str]:
    """The same for lines within loops and functions."""
    for number, statement in enumerate(statements):
        for line in range(len(statement.splitlines()) - 1, 0, -1):
            lines = statements[number].splitlines()
            text = "\n".join(lines[:line] + lines[line + 1 :])
            candidate = [*statements[:number], text, *statements[number + 1 :]]
            if _is_valid(text) and fails(candidate):
                statements = candidate
    return statements


def _is_valid(text: str) -> bool:
    try:
        compile(text, "<statement>", "exec")
    except SyntaxError:
        return False
    return True


class Checker:
    """A process that says what comes of programs; a new one after one that died or hung."""

    def __init__(self, setting: Setting, threads: str) -> None:
        self._words = [sys.executable, str(_CHECKER), json.dumps(setting), threads]
        self._child: subprocess.Popen[str] | None = None

    def outcome(self, statements: Sequence[str]) -> str:
        """The kind of outcome of a program: "right", "invalid", ..., "crashing" or "hanging"."""
        if self._child is None:
            self._child = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ,
            )
        child = self._child
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(list(statements)) + "\n")
        child.stdin.flush()
        if not select.select([child.stdout], [], [], _TIME_S)[0]:
            self.close()
            return "hanging"
        line = child.stdout.readline()
        if not line:
            self.close()
            return "crashing"
        found: str = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None
