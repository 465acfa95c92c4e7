"""How many threads may work on one large kernel: what the setting ATLED_NUM_THREADS may say."""

from __future__ import annotations

import functools
import math
import os


def usable_processors() -> int:
    """Count of processors that this process may run on, or of those whose time its container may take."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _granted())


@functools.cache  # asked for each kernel that is prepared
def _granted() -> int:
    """How many processors' time Linux gives to this container, as `docker run --cpus` says; very many where all."""
    return parse_quota(*(_text(path) for path in _QUOTA if os.path.isfile(path)))


_QUOTA = [f"/sys/fs/cgroup/{name}" for name in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")]


def _text(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def parse_quota(*texts: str) -> int:
    """From the files of control groups: "QUOTA PERIOD", or both apart; a quota "max" or "-1" is none."""
    words = " ".join(texts).split()
    if len(words) < 2 or not words[0].isdecimal() or not words[1].isdecimal():
        return 1 << 20
    return max(1, math.ceil(int(words[0]) / max(1, int(words[1]))))


def most_threads() -> int:
    """The largest count that is taken: more threads than processors only help to find errors, thousands hurt."""
    return max(64, 8 * usable_processors())


def parse_thread_count(text: str) -> int:
    """The count that the text of ATLED_NUM_THREADS says; ValueError, in words, for one that cannot be."""
    word = text.strip()
    if not word.isdecimal() or int(word) < 1:
        raise ValueError("is not a count of threads, 1 or more")
    if int(word) > most_threads():
        processors = usable_processors()
        raise ValueError(f"is more than {most_threads()} threads, the most for {processors} usable processors")
    return int(word)
