"""Fetching public data sets, whole or not at all."""

import contextlib
import os
import pathlib
import socket
import tempfile
import time
import warnings

import keras

from memlm_keras.files import atomic_path

_TRIES = 3
_FIRST_WAIT_SECONDS = 1.0
_SILENCE_SECONDS = 60.0


def download(urls, destination, checksum, extract=False):
    """Downloads a file and puts it in place once it is known to be right.

    The addresses are tried in order, and then again after a wait, three
    times in all.

    Args:
        urls: Address, or list of addresses of the same file.
        destination: Path of the file to make, or of the folder to make of
            the archive's contents if `extract`.
        checksum: Expected SHA-256 of the downloaded file, in hexadecimal, or
            its MD5, which is half as long, where no SHA-256 is published.
        extract: Whether the file is a zip or tar archive to unpack.

    Returns:
        `destination`, as a `pathlib.Path`.

    Raises:
        OSError: No address gave the file, or `destination` cannot be
            written. Nothing is left behind.
    """
    urls = [urls] if isinstance(urls, str) else list(urls)
    destination = pathlib.Path(destination)
    with (
        atomic_path(destination) as temporary,
        tempfile.TemporaryDirectory(dir=temporary.parent) as folder,
    ):
        fetched = _fetch_with_retries(urls, folder, checksum, extract)
        os.replace(fetched, temporary)
    return destination


def _fetch_with_retries(urls, folder, checksum, extract):
    reasons = {}
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
        for url in urls:
            try:
                return _fetch(url, folder, checksum, extract)
            # Keras raises bare `Exception` where an address cannot be read.
            except Exception as error:
                reasons[url] = f"{type(error).__name__}: {error}"
    listed = "\n".join(f"  {url}: {reasons[url]}" for url in urls)
    raise OSError(
        f"Downloading failed after {_TRIES} tries:\n{listed}\n"
        "If you have the files, give their folder as `data_dir` "
        "(`--data_dir=FOLDER` of `memlm`)."
    )


def _fetch(url, folder, checksum, extract):
    with _socket_timeout(_SILENCE_SECONDS), warnings.catch_warnings():
        # Keras only warns where an archive cannot be unpacked.
        warnings.filterwarnings("error", "Could not extract archive")
        return keras.utils.get_file(
            fname="contents",
            origin=url,
            file_hash=checksum,
            extract=extract,
            force_download=True,
            cache_dir=folder,
            cache_subdir="",
        )


@contextlib.contextmanager
def _socket_timeout(seconds):
    # `get_file` cannot be given one, and would wait for a dead host forever.
    previous = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(previous)
