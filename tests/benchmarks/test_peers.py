"""The environments of the peers; nothing is installed."""

from __future__ import annotations

import sys

import pytest

import peers


def test_a_python_that_is_not_there_is_a_missing_peer(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    with pytest.raises(peers.PeerMissingError, match=r"no Python 3.10 on the path"):
        peers.interpreter("nnabla")


def test_pyenv_gives_its_newest_patch_release(monkeypatch, tmp_path):
    for version in ("3.10.9", "3.10.13", "3.11.7"):
        folder = tmp_path / "versions" / version / "bin"
        folder.mkdir(parents=True)
        (folder / "python").touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert peers.find_python("3.10") == str(tmp_path / "versions" / "3.10.13" / "bin" / "python")


@pytest.mark.slow
def test_a_failing_command_is_a_missing_peer_with_its_words():
    with pytest.raises(peers.PeerMissingError, match=r"torch: -c .* failed: no disk"):
        peers._run("torch", [sys.executable, "-c", "import sys; sys.exit('no disk')"])


def test_a_ready_environment_is_taken_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    python = tmp_path / "torch" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "torch" / ".ready").write_text("\n".join(peers.PEERS["torch"].requirements))
    assert peers.interpreter("torch") == python
