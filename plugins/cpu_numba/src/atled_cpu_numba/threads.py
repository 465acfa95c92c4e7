"""How many threads may work on one large kernel: what the setting ATLED_NUM_THREADS may say."""

from __future__ import annotations

import functools
import math
import os
import re


def usable_processors() -> int:
    """Count of processors that this process may run on, or of those whose time its container may take."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, _granted())


@functools.cache  # asked for each kernel that is prepared
def _granted() -> int:
    """How many processors' time Linux gives to this process, as `docker run --cpus` and CPUQuota of systemd say."""
    if not os.path.isfile(_OWN_GROUPS):
        return _ALL
    return granted_by(_text(_OWN_GROUPS), _text(_OWN_MOUNTS))


_ALL = 1 << 20
_OWN_GROUPS, _OWN_MOUNTS = "/proc/self/cgroup", "/proc/self/mountinfo"
_QUOTAS = {"cgroup2": ("cpu.max",), "cgroup": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}  # by type of file system


def granted_by(groups: str, mounts: str) -> int:
    """The least that a control group or one around it grants; very many where all processors may be used.

    groups: of the process, as /proc/self/cgroup has them.  mounts: as /proc/self/mountinfo has them, by which groups
    are folders. Version 1 and 2 of control groups may be there at once, with the processors in one of them.
    """
    paths = {}
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            paths["cgroup" if controllers else "cgroup2"] = path
    found = [_ALL]
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in paths and (kind == "cgroup2" or "cpu" in options.split(",")):
            root, folder = (_unescaped(word) for word in before.split(" ")[3:5])
            for group in _folders(paths[kind], root, folder):
                files = [os.path.join(group, name) for name in _QUOTAS[kind]]
                found.append(parse_quota(*(_text(path) for path in files if os.path.isfile(path))))
    return min(found)


def _unescaped(word: str) -> str:
    """A path of mountinfo, which has a space as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def _folders(path: str, root: str, folder: str) -> list[str]:
    """The folders of a group and of those around it, as far as they are seen; root: the group that `folder` shows."""
    inside = os.path.relpath(path, root)
    steps = [] if inside.startswith("..") else [step for step in inside.split("/") if step != "."]
    return [os.path.join(folder, *steps[:count]) for count in range(len(steps) + 1)]


def _text(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def parse_quota(*texts: str) -> int:
    """From the files of control groups: "QUOTA PERIOD", or both apart; a quota "max" or "-1" is none."""
    words = " ".join(texts).split()
    if len(words) < 2 or not words[0].isdecimal() or not words[1].isdecimal():
        return _ALL
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
