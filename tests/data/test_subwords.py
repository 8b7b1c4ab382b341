"""Tests vocabularies of subword pieces: ids of the file, equal in Python and in
graphs."""

import io

import pytest
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies
from layers import revived

from memlm_keras import data
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary

TOKENS = """
    <blk> <sos/eos> <unk> ▁the ▁cat ▁c s a at ▁ é <0xC3> 你 ▁the▁cat
""".split()
TEXTS = ["the cats", "  the\u2003zéat\x1c the", "", "<blk> <unk> 你cat", "▁a ▁"]


@pytest.fixture(scope="module")
def model():
    """Trains a SentencePiece model with 60 pieces; returns its bytes."""
    trainer = pytest.importorskip(
        "sentencepiece", reason="it trains the model of these tests"
    )
    lines = ["the cat sat on the mat", "the dog ate the cats food", "naïve"]
    written = io.BytesIO()
    options = {"vocab_size": 45, "model_type": "bpe", "minloglevel": 2}
    options |= {"sentence_iterator": iter(lines * 20), "model_writer": written}
    trainer.SentencePieceTrainer.train(**options)
    return written.getvalue()


def listing(tokens):
    return "".join(f"{token} {id}\n" for id, token in enumerate(tokens))


def test_ids_are_those_of_the_file(write):
    lines = listing(TOKENS).splitlines()[::-1]
    vocabulary = SubwordVocabulary.from_tokens_file(write("\n".join(lines)))
    assert vocabulary.tokens == tuple(TOKENS)
    assert vocabulary.end_of_sentence_id == 1 and vocabulary.unknown_id == 2
    assert vocabulary["<blk>"] == 0 and vocabulary["dog"] == 2
    assert vocabulary.unit == "pieces"


@pytest.mark.parametrize(
    "text, tokens, joined",
    [
        ("the cats", ["▁the", "▁cat", "s"], "the cats"),
        ("thes cz", ["▁the", "s", "▁c", "<unk>"], "thes c <unk>"),
        ("dog", ["▁"] + 3 * ["<unk>"], "<unk> <unk> <unk>"),
        ("<blk>", ["▁"] + 5 * ["<unk>"], "<unk> <unk> <unk> <unk> <unk>"),
        ("", [], ""),
    ],
)
def test_words_are_matched_from_their_left(text, tokens, joined):
    vocabulary = SubwordVocabulary(TOKENS)
    ids = vocabulary.encode(text)
    assert ids.dtype == "int32" and vocabulary.decode(ids) == tokens
    assert vocabulary.encode(text.split()).tolist() == ids.tolist()
    assert vocabulary.encode_sentence(text).tolist() == [*ids, 1]
    assert vocabulary.detokenize(ids) == vocabulary.detokenize(tokens) == joined


def test_bytes_are_joined_to_characters():
    vocabulary = SubwordVocabulary([*TOKENS, "<0xA9>", "<0xZZ>"])
    assert vocabulary.detokenize(["▁c", "<0xC3>", "<0xA9>"]) == "cé"
    assert vocabulary.detokenize(["▁c", "<0xC3>", "s"]) == "c\ufffds"
    assert vocabulary.detokenize(["<0xZZ>"]) == "<0xZZ>"


def test_words_and_characters_are_counted():
    vocabulary = SubwordVocabulary(TOKENS)
    ids = vocabulary.encode_sentence("the cats the")
    assert len(ids) == 5 and vocabulary.count_words(ids) == 4
    assert Vocabulary(["the"]).count_words([2, 2, 0]) == 3
    characters = SubwordVocabulary(["<eos>", "<unk>", "你", "好"])
    assert characters.unit == "characters"
    assert characters.count_words(characters.encode_sentence("你好")) == 3
    assert characters.detokenize(characters.encode("你好 你")) == "你好你"
    # Characters, also of bytes, are counted with the end of a line.
    vocabulary = SubwordVocabulary([*TOKENS, "<0xA9>"])
    ids = vocabulary.encode_sentence("the cats")
    assert vocabulary.count_characters(ids) == len("the cats\n")
    accent = vocabulary["<0xC3>"], vocabulary["<0xA9>"]
    assert vocabulary.count_characters(accent) == 1
    plain = Vocabulary(["the", "cats"])
    assert plain.count_characters(plain.encode_sentence("the cats")) == 9
    words = SubwordVocabulary(["<unk>", "cats", "the", "</s>"])
    assert words.count_characters(words.encode_sentence("the cats")) == 9
    split = Tokenizer(split="characters")
    for letters in (Vocabulary(["你", "好"], tokenizer=split), characters):
        assert letters.count_characters(letters.encode_sentence("你好")) == 3


def test_whole_words_keep_their_ids():
    vocabulary = SubwordVocabulary(["<unk>", "cat", "the", "</s>"])
    assert vocabulary.unit == "words"
    assert vocabulary.encode_sentence("the catdog cat").tolist() == [2, 0, 1, 3]
    assert vocabulary.detokenize([2, 1, 3]) == "the cat </s>"
    # Encoding chooses the longest piece that matches.
    vocabulary = SubwordVocabulary(["<unk>", "</s>", "▁t", "he", "▁the", "s"])
    assert vocabulary.encode("the s").tolist() == [4, 5]


def words_in_graph(vocabulary):
    tf = pytest.importorskip("tensorflow")
    from memlm_keras.data.words_in_graph import Words

    words = Words(vocabulary)
    encode = tf.function(
        words.encode, input_signature=[tf.TensorSpec((None,), tf.string)]
    )
    return lambda texts: encode(tf.constant(texts, tf.string)).to_list()


@pytest.mark.parametrize("unit", ["pieces", "characters", "words"])
def test_a_graph_gives_the_ids_of_python(unit):
    vocabulary = SubwordVocabulary(TOKENS, unit=unit)
    in_graph = words_in_graph(vocabulary)
    alphabet = strategies.sampled_from("thecats é你▁<z>\t\u2003")

    @settings(max_examples=100, deadline=None)
    @given(
        strategies.lists(strategies.text(alphabet), max_size=3),
        strategies.lists(strategies.text(), max_size=3),
    )
    @example(TEXTS, [])
    def check(texts, more):
        texts = [*texts, *more]
        expected = [vocabulary.encode(text).tolist() for text in texts]
        assert in_graph(texts) == expected

    check()


def test_a_sentencepiece_model_travels_in_the_vocabulary(model, write):
    path = write(model, "small.model")
    vocabulary = SubwordVocabulary.from_sentencepiece(path)
    assert vocabulary.tokens[:3] == ("<unk>", "<s>", "</s>")
    assert (vocabulary.unknown_id, vocabulary.end_of_sentence_id) == (0, 2)
    text = "the cats sat on ☃ mat"
    pieces = vocabulary.decode(vocabulary.encode(text))
    assert pieces[0] == "▁the" and "<unk>" in pieces
    assert vocabulary.detokenize(pieces) == "the cats sat on <unk> mat"
    assert vocabulary.count_words(vocabulary.encode_sentence(text)) == 7
    path.unlink()
    again = revived(vocabulary)
    assert again == vocabulary and "by SentencePiece" in repr(again)
    assert again.encode(text).tolist() == vocabulary.encode(text).tolist()
    again.save(path.with_suffix(".json"))
    read = Vocabulary.from_file(path.with_suffix(".json"))
    assert isinstance(read, SubwordVocabulary) and read == vocabulary
    texts = [*TEXTS, text, "DOG 12"]
    found = words_in_graph(vocabulary)(texts)
    assert found == [vocabulary.encode(text).tolist() for text in texts]


def test_replaced_characters(model, write):
    path = write(model, "small.model")
    load = SubwordVocabulary.from_sentencepiece
    plain = load(path)
    replacements = {"\u2019": "at", "]": "", "-": "\\1", "\\": "the"}
    with pytest.raises(ValueError, match=r"'-' is replaced by '\\\\1'"):
        load(path, replacements=replacements)
    replacements["-"] = "c"
    vocabulary = load(path, replacements=replacements)
    assert vocabulary != plain
    texts = ["\\ -\u2019s] s\u2019", "]", "the"]
    expected = [plain.encode(t).tolist() for t in ("the cats sat", "", "the")]
    assert [vocabulary.encode(text).tolist() for text in texts] == expected
    assert words_in_graph(vocabulary)(texts) == expected
    vocabulary.save(path.with_suffix(".json"))
    assert Vocabulary.from_file(path.with_suffix(".json")) == vocabulary
    # This model has no apostrophe, so none replaces a typographic one.
    vocabulary = load(path, replacements="typographic")
    assert vocabulary.replacements["\u00ad"] == ""
    assert "\u2019" not in vocabulary.replacements


def test_a_sentencepiece_model_splits_for_other_ids(model, write):
    own = SubwordVocabulary.from_sentencepiece(write(model, "small.model"))
    tokens = ["<blk>", *own.tokens[::-1]]
    vocabulary = SubwordVocabulary.from_tokens_file(
        write(listing(tokens)), write(model, "small.model")
    )
    ids = vocabulary.encode("the cats sat")
    assert vocabulary.decode(ids) == own.decode(own.encode("the cats sat"))
    assert vocabulary.tokens == tuple(tokens) and vocabulary != own
    assert vocabulary.end_of_sentence_id == tokens.index("</s>")


def test_a_corpus_of_pieces(write):
    path = write("the cats\nthe cat\n" * 3, "text.txt")
    corpus = data.load_text(path, vocabulary=SubwordVocabulary(TOKENS))
    assert corpus.validation.tokens.tolist() == [3, 4, 6, 1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a 0\nb\n", "line 2: expected a token, a space and an id.*'b'"),
        ("a 0\nb 0\n", "line 2: .* no earlier line has"),
        ("a 0\nb 2\n", r"ids of .* must be 0 to 1, .*Missing: \[1\]"),
        ("", "Missing: "),
        ("a 0\nb 1\n", "`unknown` must be one of the tokens.*<UNK>"),
        ("<unk> 0\nb 1\n", "`end_of_sentence` must be one .*</s>"),
        (b"\xff 0\n", "not UTF-8"),
    ],
)
def test_files_that_cannot_be_used(write, text, message):
    with pytest.raises(ValueError, match=message):
        SubwordVocabulary.from_tokens_file(write(text))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"unknown": "?"}, "`unknown` must be one of .*'\\?'"),
        ({"end_of_sentence": "<unk>"}, "must differ. Received '<unk>'"),
        ({"unit": "bpe"}, "`unit` must be one of .*'bpe'"),
        ({"sentencepiece": "é"}, "`sentencepiece` must be the bytes.*'é'"),
        ({"replacements": {"ab": ""}}, "single char.*'ab' is replaced by ''"),
        ({"replacements": {"a": ""}}, "`replacements` needs a SentencePiece"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SubwordVocabulary(TOKENS, **arguments)


def test_what_is_no_sentencepiece_model(write):
    with pytest.raises(ValueError, match="text.txt: .*must be a complete Sent"):
        SubwordVocabulary.from_sentencepiece(write("no model at all"))
    with pytest.raises(FileNotFoundError):
        SubwordVocabulary.from_sentencepiece("nowhere.model")
    with pytest.raises(ValueError, match="`from_sentencepiece`"):
        SubwordVocabulary.build(["a b"])
