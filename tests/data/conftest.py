"""A cache of a test's own, and files that it writes."""

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def write(tmp_path):
    """`write(content, name)`: path of a file with that text or those bytes."""

    def write(content, name="text.txt"):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(content)
        return path

    return write
