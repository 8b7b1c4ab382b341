import keras
import pytest

from memlm_keras.files import atomic_path
from memlm_keras.files import load_model
from memlm_keras.files import read_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_file_is_moved_into_place(tmp_path):
    target = tmp_path / "new" / "model.weights.h5"
    with atomic_path(target) as temporary:
        assert temporary.parent == target.parent
        assert temporary.name.endswith("model.weights.h5")
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert names(target.parent) == ["model.weights.h5"]


def test_folder_replaces_folder(tmp_path):
    target = tmp_path / "export"
    for content in ("old", "new"):
        with atomic_path(target) as temporary:
            temporary.mkdir()
            (temporary / content).write_text(content)
    assert names(target) == ["new"]
    assert names(tmp_path) == ["export"]


@pytest.mark.parametrize("make_folder", [False, True])
def test_failure_leaves_what_was_there(tmp_path, make_folder):
    target = tmp_path / "result"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_path(target) as temporary:
        if make_folder:
            temporary.mkdir()
            (temporary / "part").write_text("half")
        else:
            temporary.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert names(tmp_path) == ["result"]


def test_writing_nothing_is_an_error(tmp_path):
    target = tmp_path / "result"
    with pytest.raises(FileNotFoundError, match="Nothing was written for"):
        with atomic_path(target):
            pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("below", ["file/result", "file/deeper/result"])
def test_parent_that_cannot_be_made_is_named(tmp_path, below):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=f"Cannot write .*{below}"):
        with atomic_path(tmp_path / below):
            pytest.fail("the block must not run")


def test_unwritable_parent_is_a_permission_error(tmp_path, monkeypatch):
    # Not by file modes, which do not bind the super-user.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="Cannot write .*result"):
        with atomic_path(tmp_path / "result"):
            pytest.fail("the block must not run")


@pytest.mark.parametrize(
    "content",
    [b"", b'{"a": 1', b"\xff\xfe{}", b"[" * 100_000, b"\x00\x01", b"{}}"],
    ids=["empty", "cut", "no_utf8", "deep", "binary", "more"],
)
def test_damaged_json_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"config.json is damaged.*Make i"
    ) as e:
        read_json(path, "configuration", remedy="Make it anew.")
    assert "\n" not in str(e.value)


def test_missing_files_are_named(tmp_path):
    for read in (read_json, load_model):
        with pytest.raises(FileNotFoundError, match="no vocabulary at .*v.x"):
            read(tmp_path / "v.x", "vocabulary")
    (tmp_path / "words.json").write_text('{"ä": [1]}', encoding="utf-8")
    assert read_json(tmp_path / "words.json", "words") == {"ä": [1]}


@pytest.fixture
def model_path(tmp_path):
    path = tmp_path / "model.keras"
    inputs = keras.Input((3,))
    keras.Model(inputs, keras.layers.Dense(40)(inputs)).save(path)
    return path


def test_damaged_models_are_named(model_path, random):
    assert load_model(model_path).count_params() == 160
    content = model_path.read_bytes()
    for _ in range(60):
        damaged = bytearray(content)
        position = int(random.integers(len(damaged)))
        if random.random() < 0.5:
            del damaged[position:]
        else:
            # Flags of the archive may change and mean the same.
            damaged[position : position + 8] = random.bytes(8)
        model_path.write_bytes(bytes(damaged))
        try:
            model = load_model(model_path)
        except ValueError as error:
            assert "model.keras" in str(error) and "\n" not in str(error)
        else:
            assert model.count_params() == 160
    model_path.write_bytes(content[:-30])
    with pytest.raises(ValueError, match="is damaged.*Put an intact copy"):
        load_model(model_path)


def test_a_foreign_model_is_not_damaged(tmp_path):
    @keras.saving.register_keras_serializable("elsewhere")
    class Foreign(keras.layers.Dense):
        pass

    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((3,)), Foreign(2)]).save(path)
    keras.saving.get_custom_objects().pop("elsewhere>Foreign")
    with pytest.raises(ValueError, match="cannot be loaded: .*Foreign") as e:
        load_model(path)
    assert "\n" not in str(e.value)
