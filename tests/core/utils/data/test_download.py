"""Downloads, from a server on this machine."""

import contextlib
import hashlib
import http.server
import os
import threading

import pytest

from atled.utils import data_source_loader
from atled.utils.download import download, get_data_home

CONTENT = bytes(range(256)) * 1024
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        type(self).asked += 1
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unsized.bin":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/broken.bin" else CONTENT)

    def log_message(self, *words):
        pass


@pytest.fixture(name="server", scope="module")
def _server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_comes_into_the_folder_of_data_and_is_not_fetched_twice(server, tmp_path):
    assert get_data_home() == str(tmp_path / "nnabla_data")
    with download(f"{server}/folder/a%20b.bin?x=1") as file:
        assert file.read() == CONTENT
    assert os.listdir(get_data_home()) == ["a b.bin"]
    before = _Handler.asked
    assert download(f"{server}/folder/a%20b.bin", open_file=False) is None
    assert _Handler.asked == before
    download(f"{server}/folder/a%20b.bin", open_file=False, allow_overwrite=True)
    assert _Handler.asked == before + 1


def test_progress_is_told_until_all_is_there(server, tmp_path):
    for path, total in (("/a.bin", len(CONTENT)), ("/unsized.bin", None)):
        told = []
        download(server + path, tmp_path / "a.bin", False, True, progress=lambda *now, told=told: told.append(now))
        assert told[-1] == (len(CONTENT), total)
        assert [done for done, _ in told] == sorted({done for done, _ in told}) and len(told) > 1


def test_a_checksum_is_compared_and_a_stale_file_fetched_again(server, tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"stale")
    download(f"{server}/a.bin", path, False, sha256=SHA256.upper())
    assert path.read_bytes() == CONTENT
    before = _Handler.asked
    download(f"{server}/a.bin", path, False, sha256=SHA256)
    assert _Handler.asked == before
    with pytest.raises(ValueError, match="the file is damaged or another one"):
        download(f"{server}/a.bin", tmp_path / "b.bin", sha256="0" * 64)
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        download(f"{server}/a.bin", tmp_path / "b.bin", sha256="md5")
    assert os.listdir(tmp_path) == ["a.bin"]


def unreachable():
    with contextlib.closing(http.server.HTTPServer(("127.0.0.1", 0), _Handler).socket) as socket:
        return f"http://127.0.0.1:{socket.getsockname()[1]}/a.bin"


@pytest.mark.parametrize(
    "url, error, words",
    [
        ("{server}/gone", OSError, "the server answers 404"),
        ("{server}/broken.bin", ConnectionError, "the connection broke off after"),
        ("{unreachable}", ConnectionError, "cannot be reached .*\nWhat to do: check the network"),
        ("{server}/", ValueError, "pass output_file="),
        ("ftp://127.0.0.1/a.bin", ValueError, "known are http, https, file"),
        ("http://[127.0.0.1/a.bin", ValueError, "not an url .*\nWhat to do: check the url"),
        ("file:///no/such/a.bin", OSError, "the file could not be read .*\nWhat to do: check the url"),
    ],
)
def test_what_fails_says_so_and_leaves_nothing(url, error, words, server, tmp_path):
    with pytest.raises(error, match=words):
        download(url.format(server=server, unreachable=unreachable()))
    assert not os.path.isdir(get_data_home()) or os.listdir(get_data_home()) == []


def test_what_was_there_stays_when_a_download_fails(server, tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(ConnectionError):
        download(f"{server}/broken.bin", path, allow_overwrite=True)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


def test_a_file_url_is_copied(tmp_path):
    (tmp_path / "source.bin").write_bytes(CONTENT)
    download((tmp_path / "source.bin").as_uri(), tmp_path / "copy.bin", open_file=False)
    assert (tmp_path / "copy.bin").read_bytes() == CONTENT


def test_it_is_found_where_nnabla_has_it():
    assert data_source_loader.download is download and data_source_loader.get_data_home is get_data_home
