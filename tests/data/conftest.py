"""Fixtures for a test's own cache and files."""

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def write(tmp_path):
    """`write(content, name)`: writes text or bytes; returns the file's path."""

    def write(content, name="text.txt"):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(content)
        return path

    return write
