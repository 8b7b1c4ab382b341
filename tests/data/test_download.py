import hashlib
import http.server
import io
import multiprocessing
import os
import pathlib
import signal
import threading
import zipfile

import pytest

from memlm_keras.data import corpora
from memlm_keras.data.corpora import download

CONTENT = b"some text\n" * 100
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    waits = []
    monkeypatch.setattr(corpora.time, "sleep", waits.append)
    return waits


@pytest.fixture
def serve():
    """Serves a list of answers, `None` being a failure; the last one stays."""
    answers, requests = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            content = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(503 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def serve(*contents):
        answers[:] = contents
        return f"http://127.0.0.1:{server.server_port}", requests

    yield serve
    server.shutdown()
    thread.join()
    server.server_close()


def test_right_file_is_put_in_place(serve, tmp_path):
    url, requests = serve(CONTENT)
    target = download(f"{url}/a", tmp_path / "new" / "a.txt", SHA256)
    assert target.read_bytes() == CONTENT
    assert requests == ["/a"]
    assert list(target.parent.iterdir()) == [target]


def test_failing_twice_is_retried(serve, waits, tmp_path):
    url, requests = serve(None, None, CONTENT)
    md5 = hashlib.md5(CONTENT).hexdigest()
    target = download(f"{url}/a", tmp_path / "a.txt", md5)
    assert target.read_bytes() == CONTENT
    assert requests == ["/a"] * 3
    assert waits == [1.0, 2.0]


def test_mirrors_are_tried_in_order(serve, waits, tmp_path):
    url, requests = serve(b"damaged", CONTENT)
    urls = [f"{url}/first", f"{url}/second"]
    target = download(urls, tmp_path / "a.txt", SHA256)
    assert target.read_bytes() == CONTENT
    assert requests == ["/first", "/second"]
    assert waits == []


@pytest.mark.parametrize(
    "answer, reason", [(None, "503"), (b"damaged", "hash does not match")]
)
def test_failure_leaves_nothing(serve, tmp_path, answer, reason):
    url, requests = serve(answer)
    urls = [f"{url}/first", f"{url}/second"]
    with pytest.raises(OSError) as caught:
        download(urls, tmp_path / "a.txt", SHA256)
    for part in [*urls, reason, "after 3 tries", "`data_dir`"]:
        assert part in str(caught.value)
    assert len(requests) == 6
    assert list(tmp_path.iterdir()) == []


def test_dead_host_is_named(tmp_path):
    with pytest.raises(OSError, match="http://127.0.0.1:9/a: .*refused"):
        download("http://127.0.0.1:9/a", tmp_path / "a.txt", SHA256)


def test_archive_is_unpacked(serve, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/a.txt", CONTENT)
    archive = buffer.getvalue()
    url, _ = serve(archive)
    target = download(
        f"{url}/a.zip",
        tmp_path / "a",
        hashlib.sha256(archive).hexdigest(),
        extract=True,
    )
    assert (target / "folder" / "a.txt").read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_no_archive_is_an_error(serve, tmp_path):
    url, _ = serve(CONTENT)
    with pytest.raises(OSError, match="Could not extract archive"):
        download(f"{url}/a", tmp_path / "a", SHA256, extract=True)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_download_left_is_removed(serve, tmp_path):
    target = tmp_path / "a.txt"

    def be_killed():
        def fetch(urls, folder, *options):
            (pathlib.Path(folder) / "contents").write_bytes(CONTENT[:200])
            os.kill(os.getpid(), signal.SIGKILL)

        corpora._fetch_with_retries = fetch
        download("http://127.0.0.1:9/a", target, SHA256)

    process = multiprocessing.get_context("fork").Process(target=be_killed)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert not target.exists() and len(list(tmp_path.iterdir())) == 1
    url, _ = serve(CONTENT)
    download(f"{url}/a", target, SHA256)
    assert list(tmp_path.iterdir()) == [target]
