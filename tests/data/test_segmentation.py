import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlm_keras.data.tokenizer import split_sentences

pytest.importorskip("syntok")

WORDS = """
    The cat <unk> @-@ @.@ @,@ 2 1990 U.S. St. . ? ! ... ; , " ' 's ( ) = –
""".split()


@given(st.lists(st.sampled_from(WORDS) | st.text(min_size=1), max_size=60))
def test_nothing_is_lost_or_changed(tokens):
    sentences = list(split_sentences(tokens))
    assert [token for sentence in sentences for token in sentence] == tokens
    assert all(sentences)


@pytest.mark.parametrize(
    "text",
    [
        "The cat sat . | It ran 2 @.@ 5 km .",
        "= = Plot = =",
        "Infantry from No. 77 Squadron RAAF left St. Mary . | They returned .",
        "By U.S. Route 1 it is 5 km . | <unk> is far .",
        # A closing mark belongs to the sentence, an opening one to the next.
        'He said , " I know . " | " The rest " followed .',
        'It was " the <unk> " . | The end came !',
        # Neither of these ends a sentence.
        "It rained ; The cat slept .",
        "Yahoo ! is a name ( see <unk> . ) of a firm .",
        "Is it so ? | Yes , <unk> <unk> is ...",
    ],
)
def test_sentences_of_wikitext(text):
    expected = [sentence.split() for sentence in text.split("|")]
    assert list(split_sentences(text.replace("|", "").split())) == expected
