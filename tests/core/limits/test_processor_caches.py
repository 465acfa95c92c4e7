"""The cache of a core is what Linux says it is, and a typical one where nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from atled.limits.processor_caches import core_cache_bytes


def folder_of(path: Path, caches: list[dict[str, str]]) -> str:
    for number, files in enumerate(caches):
        folder = path / f"index{number}"
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")
    return str(path)


@pytest.mark.parametrize("size, nbytes", [("512K", 512 << 10), ("2M", 2 << 20)])
def test_the_cache_of_level_2_counts(tmp_path, size, nbytes):
    caches = [{"level": "1", "size": "32K"}, {"level": "2", "size": size}, {"level": "3", "size": "32768K"}]
    assert core_cache_bytes(folder_of(tmp_path, caches)) == nbytes


@pytest.mark.parametrize("files", [{}, {"level": "2"}, {"level": "2", "size": "much"}, {"level": "1", "size": "32K"}])
def test_where_nobody_says_it_is_a_typical_one(tmp_path, files):
    assert core_cache_bytes(folder_of(tmp_path, [files])) == 1 << 20


def test_a_processor_has_some():
    assert core_cache_bytes() >= 1 << 16
