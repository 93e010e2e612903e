"""A download arrives complete and correct, resumes where it was cut, or ends with a sentence."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections import namedtuple
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from trainables import fetch
from trainables.fetch import download, home

CONTENT = bytes(range(256)) * 4000
SUM = "md5:" + hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serve one file, with the faults that a test sets."""

    ranges = True  # whether it resumes
    cut = 0  # bytes after which it hangs up, as long as it has `cuts` left
    cuts = 0
    status = 0  # in place of an answer
    shift = 0  # it resumes at another place than asked
    length = True  # whether it says how much comes

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    def handle_error(self, *words: object) -> None:
        """Ignore clients that hang up: that is part of the test."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/a%20file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if server.status:
            self.send_error(server.status)
            return
        start = (
            int(wanted.removeprefix("bytes=").rstrip("-")) + server.shift
            if wanted and server.ranges
            else 0
        )
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if wanted and server.ranges else 200)
        if wanted and server.ranges:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if server.length:
            self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = len(CONTENT)
        if server.cuts:
            server.cuts -= 1
            end = start + server.cut
        self.wfile.write(CONTENT[start:end])

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(fetch, "PAUSE", 0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def test_a_file_arrives_whole_and_tells_how_far_it_is(server: Server, tmp_path: Path) -> None:
    calls: list[tuple[int, int | None]] = []
    target = tmp_path / "Größe und Maß" / "file.bin"
    assert (
        download(
            server.url,
            target,
            checksum=SUM,
            progress=lambda done, total: calls.append((done, total)),
        )
        == target
    )
    assert target.read_bytes() == CONTENT
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_what_is_there_and_right_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    download(server.url, tmp_path / "x", checksum=SUM)
    assert server.asked == []


def test_what_someone_put_there_and_is_wrong_is_refused_but_not_removed(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"something else")
    with pytest.raises(
        ValueError, match=r"x has the md5 .*, but should have .*: remove .*x and try again"
    ):
        download(server.url, tmp_path / "x", checksum=SUM)
    assert (tmp_path / "x").read_bytes() == b"something else"


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on_or_begins_again_if_the_server_cannot(
    ranges: bool, server: Server, tmp_path: Path
) -> None:
    server.ranges = ranges
    (tmp_path / "x.part").write_bytes(CONTENT[:1000])
    download(server.url, tmp_path / "x", checksum=SUM)
    assert server.asked == ["bytes=1000-"]
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_a_server_that_resumes_elsewhere_is_not_believed(server: Server, tmp_path: Path) -> None:
    server.shift = 7
    (tmp_path / "x.part").write_bytes(CONTENT[:1000])
    with pytest.raises(ValueError, match="it was damaged or replaced on the way; try again"):
        download(server.url, tmp_path / "x", checksum=SUM)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_already_whole_is_taken(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.part").write_bytes(CONTENT)
    download(server.url, tmp_path / "x", checksum=SUM)
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_a_connection_that_is_cut_a_few_times_is_taken_up_again(
    server: Server, tmp_path: Path
) -> None:
    server.cut, server.cuts = 300_000, 3
    download(server.url, tmp_path / "x", checksum=SUM)
    assert server.asked == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_a_connection_that_is_always_cut_ends_and_keeps_what_came(
    server: Server, tmp_path: Path
) -> None:
    server.cut, server.cuts = 10, 99
    with pytest.raises(
        ConnectionError,
        match=r"could not be fetched \(.*\); try again later, or put the file at .*/x yourself",
    ):
        download(server.url, tmp_path / "x", checksum=SUM)
    assert (tmp_path / "x.part").read_bytes() == CONTENT[: 10 * fetch.TRIES]
    server.cuts = 0
    download(server.url, tmp_path / "x", checksum=SUM)


def test_without_a_length_a_cut_is_noticed_by_the_checksum(server: Server, tmp_path: Path) -> None:
    server.length = False
    server.cut, server.cuts = 5000, 1
    with pytest.raises(ValueError, match="it was damaged or replaced on the way"):
        download(server.url, tmp_path / "x", checksum=SUM)
    download(server.url, tmp_path / "x", checksum=SUM)


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"x\.part has the sha256 \w{16}\.\.\., but should have 00000000\.\.\.: it was "
            r"damaged or replaced"
        ),
    ):
        download(server.url, tmp_path / "x", checksum="sha256:00000000")
    assert list(tmp_path.iterdir()) == []


def test_a_prefix_of_the_digest_is_enough(server: Server, tmp_path: Path) -> None:
    download(
        server.url, tmp_path / "x", checksum="sha256:" + hashlib.sha256(CONTENT).hexdigest()[:8]
    )


@pytest.mark.parametrize("status", [404, 403, 503])
def test_the_error_says_what_the_server_refused(
    status: int, server: Server, tmp_path: Path
) -> None:
    server.status = status
    with pytest.raises(ConnectionError, match=f"the server says {status} "):
        download(server.url, tmp_path / "x", checksum=SUM)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "ftp://127.0.0.1:9/x", "http://no-such-host.invalid/x"]
)
def test_without_a_network_the_sentence_says_what_to_fetch_and_where_to_put_it(
    url: str, tmp_path: Path
) -> None:
    with pytest.raises(ConnectionError) as error:
        download(url, tmp_path / "x", checksum=SUM)
    assert url in str(error.value)
    assert f"put the file at {tmp_path / 'x'} yourself" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_does_not_fit_is_refused_before_it_begins(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: usage(0, 0, 1000))
    with pytest.raises(OSError, match=r"needs 0\.0 GB, but .* has 0\.0 GB free; free some space"):
        download(server.url, tmp_path / "x", checksum=SUM)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(28, "is full; free some space"), (13, "is not writable"), (30, "is not writable")],
)
def test_what_the_disk_refuses_is_a_sentence(
    code: int, sentence: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object, **more: object) -> None:
        raise OSError(code, "no", "x")

    monkeypatch.setattr(fetch.Path, "open", refuse)
    with pytest.raises(OSError, match=sentence):
        download(server.url, tmp_path / "x", checksum=SUM)


def test_a_target_below_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="is not writable"):
        download("http://127.0.0.1:9/x", tmp_path / "file" / "below" / "x", checksum=SUM)


def test_home_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FAIRTRIAL_DATA", "~/a b")
    assert home() == tmp_path / "a b"
    monkeypatch.setenv("FAIRTRIAL_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert home() == Path("/cache/fairtrial")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home() == tmp_path / ".cache" / "fairtrial"


def ftp_server(content: bytes, commands: list[str]) -> int:
    """Serve just enough FTP for one download, and return its port."""
    control = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        line, _ = control.accept()
        data: socket.socket | None = None
        with line, line.makefile("r") as reader:

            def say(text: str) -> None:
                line.sendall(f"{text}\r\n".encode())

            say("220 hello")
            for command in map(str.strip, reader):
                commands.append(command)
                word = command.split(" ")[0]
                if word in ("EPSV", "PASV"):
                    data = socket.create_server(("127.0.0.1", 0))
                    port = data.getsockname()[1]
                    say(
                        f"229 ok (|||{port}|)"
                        if word == "EPSV"
                        else f"227 ok (127,0,0,1,{port // 256},{port % 256})"
                    )
                elif word == "RETR" and data is not None:
                    say(f"150 Opening ({len(content)} bytes)")
                    with data, data.accept()[0] as out:
                        out.sendall(content)
                    say("226 done")
                else:
                    say(
                        {"USER": "331 password", "PASS": "230 in", "QUIT": "221 bye"}.get(
                            word, "200 ok"
                        )
                    )
        control.close()

    threading.Thread(target=serve, daemon=True).start()
    return int(control.getsockname()[1])


def test_ftp_begins_again_and_arrives_whole(tmp_path: Path) -> None:
    commands: list[str] = []
    (tmp_path / "x.part").write_bytes(b"the beginning of something")
    download(
        f"ftp://127.0.0.1:{ftp_server(CONTENT, commands)}/folder/x.zip",
        tmp_path / "x",
        checksum=SUM,
    )
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert "RETR x.zip" in commands
