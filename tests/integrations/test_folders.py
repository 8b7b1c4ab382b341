"""Tests that the package works without one of the folders in `integrations`."""

import importlib.metadata
import pathlib
import shutil
import sys
import types

import pytest
from told import python

import memlm_keras
from memlm_keras import formats

ROOT = pathlib.Path(memlm_keras.__file__).parent
# Ignore missing packages, which modules of other formats may need.
SCRIPT = """
import importlib
import pkgutil

import memlm_keras
from memlm_keras import formats

memlm_keras.load_all()
for module in pkgutil.walk_packages(memlm_keras.__path__, "memlm_keras."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert not error.name.startswith("memlm_keras"), error
print(*formats.formats())
try:
    memlm_keras.serving.check_path("new", format="{format}")
except ValueError as error:
    print(error)
memlm_keras.experiments.command_line.main(["export", "--help"])
"""


@pytest.mark.parametrize(
    "folder, format", [("web", "web"), ("huggingface", "hf")]
)
def test_a_folder_can_be_deleted(folder, format, tmp_path):
    left_out = shutil.ignore_patterns("trained", "__pycache__", folder)
    shutil.copytree(ROOT, tmp_path / ROOT.name, ignore=left_out)
    script = SCRIPT.format(format=format)
    told = python("-c", script, folder=tmp_path, PYTHONPATH=str(tmp_path))
    names, error, *told = told.out.splitlines()
    others = [name for name in formats.formats() if name != format]
    assert names.split() == others
    assert all(name in error for name in others)
    assert f"format={format!r}" in error
    told = "\n".join(told)
    assert "litert" in told and f"|{format}" not in told


def test_another_package_adds_a_format(monkeypatch, tmp_path):
    names = {"place": "{name}.mine", "suffix": ".mine"}
    mine = formats.Format("mine.write", server="mine", **names)
    module = types.ModuleType("mine")
    module.FORMATS = {"mine": mine}
    monkeypatch.setitem(sys.modules, "mine", module)
    found = [
        importlib.metadata.EntryPoint(name, value, formats.ENTRY_POINTS)
        for name, value in (("mine", "mine:FORMATS"), ("broken", "mine:none"))
    ]
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "entry_points", lambda group: found)
        formats.formats.cache_clear()
        with pytest.warns(UserWarning, match="its formats are missing"):
            assert formats.formats()["mine"] is mine
        path = tmp_path / "a.mine"
        path = memlm_keras.serving.check_path(path, False, "mine")
    assert path == tmp_path / "a.mine"
    formats.formats.cache_clear()
