"""How many threads may work on one large kernel: what the setting ATLED_NUM_THREADS may say."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Count of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
