"""How many processors there are for a process in a container, or under a quota."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from atled_cpu_numba import threads
from atled_cpu_numba.threads import granted_by, parse_quota, usable_processors

V2 = "31 23 0:27 {root} {folder} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 23 0:27 {root} {folder} rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
MEMORY = "32 23 0:28 / /nowhere rw,nosuid shared:9 - cgroup cgroup rw,memory\n33 23 0:29 / /proc rw - proc proc rw\n"


@pytest.mark.parametrize(
    ("texts", "count"),
    [(["200000 100000"], 2), (["150000 100000"], 2), (["50000 100000"], 1), (["400000", "100000"], 4)],
)
def test_a_container_has_the_processors_that_its_quota_pays_for(texts, count):
    assert parse_quota(*texts) == count


@pytest.mark.parametrize("texts", [["max 100000"], ["-1", "100000"], []])
def test_without_a_quota_all_processors_may_be_used(texts):
    assert parse_quota(*texts) > 1000


def granted(folder: Path, groups: str, mount: str, quotas: Mapping[str, str], root: str = "/") -> int:
    """quotas: per folder below `folder` the quota, as version 2 writes it or version 1."""
    for name, quota in quotas.items():
        group = folder / name
        group.mkdir(parents=True, exist_ok=True)
        if mount is V2:
            (group / "cpu.max").write_text(f"{quota} 100000\n")
        else:
            (group / "cpu.cfs_quota_us").write_text(f"{'-1' if quota == 'max' else quota}\n")
            (group / "cpu.cfs_period_us").write_text("100000\n")
    shown = str(folder).replace(" ", "\\040")
    return granted_by(groups, MEMORY + mount.format(root=root, folder=shown))


@pytest.mark.parametrize(
    ("quotas", "count"),
    [
        ({"system.slice/job.service": "200000"}, 2),
        ({"system.slice": "300000", "system.slice/job.service": "max"}, 3),
        ({"system.slice": "300000", "system.slice/job.service": "800000"}, 3),
        ({".": "100000", "system.slice/job.service": "max"}, 1),
        ({"system.slice/other.service": "100000"}, 1 << 20),
    ],
)
@pytest.mark.parametrize("mount", [V2, V1], ids=["version 2", "version 1"])
def test_the_least_quota_of_all_groups_around_a_process_counts(tmp_path, mount, quotas, count):
    path = "/system.slice/job.service"
    groups = f"0::{path}\n" if mount is V2 else f"4:memory:/\n3:cpu,cpuacct:{path}\n0::/\n"
    assert granted(tmp_path / "with space", groups, mount, quotas) == count


def test_groups_are_found_where_a_container_sees_its_own_alone(tmp_path):
    quotas = {".": "200000", "docker/abc": "100000"}
    assert granted(tmp_path, "3:cpu:/docker/abc\n", V1, quotas, root="/docker/abc") == 2
    assert granted(tmp_path, "3:cpu:/docker/abc/job\n", V1, quotas | {"job": "100000"}, root="/docker/abc") == 1
    assert granted(tmp_path, "3:cpu:/other\n", V1, quotas | {"job": "100000"}, root="/docker/abc") == 2


def test_the_groups_of_this_process_are_read(tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "groups").write_text("0::/\n")
    (tmp_path / "mounts").write_text(V2.format(root="/", folder=tmp_path))
    monkeypatch.setattr(threads, "_OWN_GROUPS", str(tmp_path / "groups"))
    monkeypatch.setattr(threads, "_OWN_MOUNTS", str(tmp_path / "mounts"))
    threads._granted.cache_clear()
    assert usable_processors() == 1
    monkeypatch.setattr(threads, "_OWN_GROUPS", str(tmp_path / "none"))
    threads._granted.cache_clear()
    assert usable_processors() >= 1
    threads._granted.cache_clear()
