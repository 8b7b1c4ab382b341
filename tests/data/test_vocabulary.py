import keras
import numpy as np
import pytest

from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary

LINES = ["the cat saw the dog", "the dog ran", "a cat ran"]


def test_specials_come_first_wherever_they_stand():
    vocabulary = Vocabulary(["the", "<unk>", "cat", "<eos>"])
    assert vocabulary.tokens == ("<eos>", "<unk>", "the", "cat")
    assert vocabulary.end_of_sentence_id == vocabulary["<eos>"] == 0
    assert vocabulary.unknown_id == vocabulary["<unk>"] == 1
    assert vocabulary["cat"] == 3 and vocabulary["dog"] == 1
    assert "cat" in vocabulary and "dog" not in vocabulary
    assert len(vocabulary) == 4


def test_build_ranks_by_frequency_then_alphabet():
    vocabulary = Vocabulary.build(LINES)
    words = "<eos> <unk> the cat dog ran a saw"
    assert " ".join(vocabulary.tokens) == words
    assert Vocabulary.build([line.split() for line in LINES]) == vocabulary


def test_build_limits():
    assert len(Vocabulary.build(LINES, size=4)) == 4
    frequent = Vocabulary.build(LINES, minimum_count=2)
    assert frequent.tokens[2:] == ("the", "cat", "dog", "ran")
    for size in (1, "10"):
        with pytest.raises(ValueError, match=f"`size`.*least 2.*size={size!r}"):
            Vocabulary.build(LINES, size=size)
    with pytest.raises(ValueError, match="`minimum_count` must be an integer"):
        Vocabulary.build(LINES, minimum_count=0)
    # Special tokens in the text do not count as words.
    vocabulary = Vocabulary.build(["<unk> <unk> a", "b"], size=4)
    assert vocabulary.tokens == ("<eos>", "<unk>", "a", "b")


def test_encode_and_decode():
    vocabulary = Vocabulary(["the", "cat"])
    ids = vocabulary.encode("  the\tblack cat ")
    assert ids.dtype == np.int32 and ids.tolist() == [2, 1, 3]
    assert vocabulary.encode(["cat", "the"]).tolist() == [3, 2]
    assert vocabulary.encode("").shape == (0,)
    assert vocabulary.decode(ids) == ["the", "<unk>", "cat"]
    tensor = keras.ops.convert_to_tensor([0, 3])
    assert vocabulary.decode(tensor) == ["<eos>", "cat"]


@pytest.mark.parametrize("id", [-1, 4])
def test_decode_names_what_is_outside(id):
    with pytest.raises(ValueError, match=rf"from 0 to 3.*4 entries.*id {id}"):
        Vocabulary(["the", "cat"]).decode([0, id])


NUMBERS = ["7", "-7", "+1,000.50", "1990-2000", "12:30", "3/4"]
NO_NUMBERS = ["7th", "-", "1.", ".5", "1..2", "a1", "٣"]


def test_numbers_are_replaced():
    tokenizer = Tokenizer(numbers="N")
    vocabulary = Vocabulary.build(["7 cats", "8 cats"], tokenizer=tokenizer)
    assert vocabulary.tokens == ("<eos>", "<unk>", "N", "cats")
    assert vocabulary.encode(NUMBERS).tolist() == [2] * len(NUMBERS)
    assert vocabulary.encode(NO_NUMBERS).tolist() == [1] * len(NO_NUMBERS)
    assert Vocabulary(["7"]).encode("7").tolist() == [2]


@pytest.fixture
def vocabulary():
    rules = Tokenizer("unicode_script", numbers="N")
    specials = {"unknown": "UNK", "end_of_sentence": "</s>"}
    return Vocabulary(["naïve", "N", "{"], tokenizer=rules, **specials)


def test_saving_equality_and_representation(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "deep" / "vocabulary.json")
    read = Vocabulary.from_file(tmp_path / "deep" / "vocabulary.json")
    assert read == vocabulary
    assert read.get_config() == vocabulary.get_config()
    assert len(list((tmp_path / "deep").iterdir())) == 1
    assert vocabulary != Vocabulary(["naïve", "N", "{"])
    assert vocabulary != "vocabulary"
    assert repr(vocabulary) == (
        "Vocabulary(5 tokens, unknown='UNK', end_of_sentence='</s>', "
        "tokenizer=Tokenizer(split='unicode_script', lowercase=False, "
        "numbers='N'))"
    )


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("the\ncat\n", ("the", "cat")),
        ("the\r\ncat\r\n", ("the", "cat")),
        ("the\ncat", ("the", "cat")),
        # Also JSON.
        ("7\n", ("7",)),
    ],
)
def test_plain_list_of_tokens(write, text, tokens):
    assert Vocabulary.from_file(write(text)).tokens[2:] == tokens


@pytest.mark.parametrize(
    "content, message",
    [
        (b"\n \n", "vocabulary.txt is empty"),
        (b"caf\xe9\n", "vocabulary.txt is not UTF-8.*0xe9 at byte offset 3"),
        (b"a\nb\na\n", "vocabulary.txt.*distinct.*'a' again at position 2"),
        (b'{"words": ["a"]}', "vocabulary.txt cannot be used"),
        (b'{\n"tokens": [\n"the",\n', "vocabulary.txt is damaged"),
    ],
)
def test_bad_files_are_named(write, content, message):
    path = write(content, "vocabulary.txt")
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_file(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="vocabulary.txt"):
        Vocabulary.from_file(path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"tokens": ["a", "a"]}, "`tokens` must be distinct"),
        ({"tokens": ["a", 3]}, "non-empty string. Received 3 at position 1"),
        ({"tokens": "a b"}, "`tokens` must be a list.*'a b'"),
        ({"tokens": [], "unknown": "<eos>"}, "`unknown` and .* must differ"),
        ({"tokens": [], "unknown": ""}, "non-empty string"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(**arguments)
