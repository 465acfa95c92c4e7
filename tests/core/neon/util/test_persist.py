"""Saved objects, folders, classes by name."""

import os
import pickle

import numpy as np
import pytest

from atled.neon.transforms import Rectlin
from atled.neon.util.persist import ensure_dirs_exist, get_data_cache_dir, load_class, load_obj, save_obj


def test_folders_above_a_path_are_made(tmp_path):
    path = str(tmp_path / "a" / "b" / "m.h5")
    assert ensure_dirs_exist(path) == path
    assert os.listdir(tmp_path / "a" / "b") == []


def test_path_that_ends_with_a_separator_is_a_folder(tmp_path):
    ensure_dirs_exist(f"{tmp_path}/a/b/")
    assert (tmp_path / "a" / "b").is_dir()


def test_folder_of_data_is_of_the_environment(monkeypatch):
    monkeypatch.setenv("NEON_DATA_CACHE_DIR", "/data")
    assert (get_data_cache_dir(), get_data_cache_dir(subdir="x")) == ("/data", "/data/x")
    assert get_data_cache_dir("/other", "x") == "/other/x"


def test_folder_of_data_is_at_home(monkeypatch):
    monkeypatch.delenv("NEON_DATA_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert get_data_cache_dir() == "/home/me/nervana/data"


@pytest.mark.parametrize("name", ["neon.transforms.Rectlin", "atled.neon.transforms.Rectlin", Rectlin().modulenm])
def test_class_is_found_by_its_name(name):
    assert load_class(name) is Rectlin


@pytest.mark.parametrize("name", ["Rectlin", "neon.nothing.Rectlin", "neon.transforms.Nothing", "os.path.join", ""])
def test_name_of_no_class_is_refused(name):
    with pytest.raises(ValueError, match="load_class"):
        load_class(name)


SAVED = {"name": "a", "sizes": (2, 3), "values": [1.5, None, True]}


def test_saved_object_is_loaded(tmp_path):
    path = tmp_path / "new" / "o.h5"
    save_obj(SAVED | {"W": np.arange(6.0).reshape(2, 3)}, path)
    found = load_obj(path)
    np.testing.assert_array_equal(found.pop("W"), [[0, 1, 2], [3, 4, 5]])
    assert found == SAVED


def test_pickle_of_plain_values_is_loaded(tmp_path):
    (tmp_path / "o.p").write_bytes(pickle.dumps(SAVED, 2))
    assert load_obj(tmp_path / "o.p") == SAVED


def test_pickle_that_names_a_function_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "o.p").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match="mkdir"):
        load_obj(tmp_path / "o.p")
    assert not (tmp_path / "made").exists()


def test_object_of_a_class_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match="object"):
        save_obj({"x": object()}, tmp_path / "o.h5")
    assert list(tmp_path.iterdir()) == []
