"""Compares the page's JavaScript tokenizer with each vocabulary's tokenizer."""

import functools
import importlib.resources
import io
import json
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies

import memlm_keras as memlm
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary
from memlm_keras.integrations.web import writer as web

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(
    not NODE, reason="needs nodejs to run JavaScript"
)
STRINGS = 800
WORDS = """
    the cats sat on a mat Été naïve 12.5 -7/8 <unk> </s> <s> <sym> <0x41>
    don\u2019t \u201cNo,\u201d re\u00admark
    你好 ▁the \ufb01re \uff21\uff22 I\u0307 \U0001f600
""".split()
SCRIPT = """
const {Vocabulary} = require(process.argv[1]);
const {facts, texts} = JSON.parse(require("fs").readFileSync(0, "utf8"));
const vocabulary = new Vocabulary(facts);
const encoded = texts.map(text => vocabulary.encode(text));
const written = encoded.map(ids => vocabulary.detokenize(ids.filter(
  id => id !== vocabulary.unknownId && id !== vocabulary.endId)));
console.log(JSON.stringify({encoded, written}));
"""


def pieces(model_type, **options):
    """Trains a SentencePiece vocabulary of type `model_type` on a few lines."""
    trainer = pytest.importorskip(
        "sentencepiece", reason="it trains the models of these tests"
    )
    written = io.BytesIO()
    trainer.SentencePieceTrainer.train(
        sentence_iterator=iter(
            ["the cat sat on the mat", "na\u00efve cats"] * 20
        ),
        model_writer=written,
        model_type=model_type,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 50, **options},
    )
    model = written.getvalue()
    processor = memlm.data.subwords._processor(model)
    tokens = map(processor.id_to_piece, range(len(processor)))
    return SubwordVocabulary(tokens, sentencepiece=model)


def english():
    return memlm.LanguageModel.from_preset("memlm/english").vocabulary


VOCABULARIES = {
    "white_space": lambda: Vocabulary(WORDS, tokenizer=Tokenizer(numbers="N")),
    "scripts": lambda: Vocabulary(
        ["the", "cats", "N", "."],
        tokenizer=Tokenizer("unicode_script", lowercase=True, numbers="N"),
    ),
    "characters": lambda: Vocabulary(
        [*"thecas.", "\u4f60"],
        tokenizer=Tokenizer("characters", lowercase=True),
    ),
    "longest_match": lambda: SubwordVocabulary(
        "<unk> </s> \u2581the \u2581cat \u2581c s a at \u2581 \u4f60".split()
    ),
    "listed_letters": lambda: SubwordVocabulary(["<unk>", "</s>", *"thecas"]),
    "listed_words": lambda: SubwordVocabulary(["<unk>", "</s>", "the", "cats"]),
    "unigram": lambda: pieces("unigram"),
    "unigram_of_the_user": lambda: pieces(
        "unigram",
        vocab_size=310,
        byte_fallback=True,
        user_defined_symbols=["<sym>", "ats"],
    ),
    "bpe": lambda: pieces("bpe"),
    "bpe_of_the_user": lambda: pieces(
        "bpe",
        user_defined_symbols=["<sym>", "ats"],
        normalization_rule_name="nfkc_cf",
    ),
    "spaces_kept": lambda: pieces(
        "bpe",
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
    ),
    "at_the_end": lambda: pieces("unigram", treat_whitespace_as_suffix=True),
    "no_space_before": lambda: pieces("bpe", add_dummy_prefix=False),
    "word": lambda: pieces("word"),
    "char": lambda: pieces("char"),
    "english": english,
}


@functools.cache
def texts():
    """Returns the strings to tokenize, the same for each vocabulary."""
    found = []
    part = strategies.one_of(
        strategies.text(max_size=6),
        strategies.sampled_from(WORDS),
        strategies.sampled_from([*" \t\u00a0\u3000", "  ", "\n"]),
    )

    @settings(
        max_examples=STRINGS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.lists(part, max_size=12).map("".join))
    def collect(text):
        found.append(text)

    collect()
    return found


def on_page(vocabulary, texts):
    """Returns the ids of texts in JavaScript, and the texts decoded from known
    ids."""
    facts = web.vocabulary_facts(vocabulary)
    folder = importlib.resources.files("memlm_keras.integrations.web")
    script = folder / "page" / "tokenizer.js"
    asked = json.dumps({"facts": facts, "texts": texts})
    command = [NODE, "-e", SCRIPT, str(script)]
    answer = subprocess.check_output(command, input=asked, text=True)
    return json.loads(answer).values()


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_it_encodes_as_the_vocabulary_does(kind):
    vocabulary = VOCABULARIES[kind]()
    assert len(texts()) >= STRINGS
    answer = on_page(vocabulary, texts())
    specials = (vocabulary.unknown_id, vocabulary.end_of_sentence_id)
    wrong = []
    for text, ids, written in zip(texts(), *answer, strict=True):
        expected = vocabulary.encode(text).tolist()
        if ids != expected:
            wrong.append((text, vocabulary.decode(ids), expected))
            continue
        joined = vocabulary.detokenize([i for i in ids if i not in specials])
        if "".join(written.split()) != "".join(joined.split()):
            wrong.append((text, written, joined))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_white_space_is_the_same_everywhere(kind):
    from memlm_keras.data.words_in_graph import Words

    vocabulary = VOCABULARIES[kind]()
    spaces = [chr(code) for code in range(0x3001) if not chr(code).split()]
    texts = [f"the{space}cats{space}" for space in spaces]
    expected = [vocabulary.encode("the cats ").tolist()] * len(spaces)
    assert [vocabulary.encode(text).tolist() for text in texts] == expected
    assert Words(vocabulary).encode(texts).to_list() == expected
    ids, _ = on_page(vocabulary, texts)
    assert ids == expected


def test_typographic_characters_are_those_of_the_training_text():
    vocabulary = english()
    typographic = "\u201cNo,\u201d I don\u2019t re\u00admark co\u2011op"
    plain = '"No," I don\'t remark co-op'
    expected = vocabulary.encode(plain).tolist()
    assert vocabulary.encode(typographic).tolist() == expected
