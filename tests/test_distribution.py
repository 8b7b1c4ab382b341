"""Checks the files of the sdist, and of the wheel built from the sdist."""

import shutil
import tarfile
import zipfile

import pytest
from told import ROOT
from told import python

import memlm_keras

BESIDE = """
    CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE MANIFEST.in README.md
    pyproject.toml setup.py
"""
BESIDE = {*BESIDE.split()}
PACKAGE = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "memlm_keras").rglob("*")
    if path.is_file()
    and "__pycache__" not in path.parts
    # The wheel lacks the largest trained model and the papers' models.
    and "english_large" not in path.parts
    and ("trained" not in path.parts or path.parts[-3] == "memlm")
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Builds sdist and wheel from a copy, since building writes beside
    sources."""
    # As pyproject.toml requires it.
    pytest.importorskip("setuptools", "77")
    copy = tmp_path_factory.mktemp("copy")
    for name in PACKAGE | BESIDE:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    folder = tmp_path_factory.mktemp("built")
    build(copy, "sdist", folder)
    (sdist,) = folder.iterdir()
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as file:
        file.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    build(source, "wheel", folder)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def build(source, kind, folder):
    """Builds as pip does, with the installed setuptools."""
    script = (
        "import sys; from setuptools import build_meta; "
        f"build_meta.build_{kind}(sys.argv[1])"
    )
    python("-c", script, folder, folder=source, PYTHONPATH=None)


def test_the_sdist_is_complete(built):
    with tarfile.open(built[0]) as sdist:
        names = {m.name for m in sdist.getmembers() if m.isfile()}
    names = {name.partition("/")[2] for name in names}
    made = {n for n in names if ".egg-info/" in n} | {"PKG-INFO", "setup.cfg"}
    assert names - made == PACKAGE | BESIDE


def test_the_wheel_is_complete(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        (metadata,) = {n for n in names if n.endswith("/METADATA")}
        folder = metadata.partition("/")[0]
        text = wheel.read(metadata).decode()
        commands = wheel.read(f"{folder}/entry_points.txt").decode()
    assert {n for n in names if not n.startswith(f"{folder}/")} == PACKAGE
    assert f"{folder}/licenses/LICENSE" in names
    assert f"\nVersion: {memlm_keras.__version__}\n" in text
    assert "\nLicense-Expression: Apache-2.0\n" in text
    assert "memlm = memlm_keras.experiments.command_line:main" in commands
