"""Tests models that are saved with their vocabulary and read strings."""

import keras
import numpy as np
import pytest
from scipy.special import softmax

import memlm_keras as memlm
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary

# Other files test the computations, so one backend is enough here.
pytestmark = pytest.mark.backend("torch")

VOCABULARY = Vocabulary(
    ["the", "company", "said", ".", "N"],
    tokenizer=Tokenizer("unicode_script", lowercase=True, numbers="N"),
)
# A vocabulary of the same size with one other word.
OTHER = Vocabulary(
    ["the", "cat", "said", ".", "N"], tokenizer=VOCABULARY.tokenizer
)
PIECES = SubwordVocabulary(
    ["<blk>", "a", "\u2581the", "<unk>", "s", "\u2581comp", "</s>", "any"]
)
TEXT = "The company, SAID 7 ."


def make(vocabulary=VOCABULARY, **arguments):
    keras.utils.set_random_seed(3)
    return memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=5,
        recurrent=[keras.layers.LSTM(6)],
        **{"memory": memlm.memory.Attention(window=3), **arguments},
    )


def batches_of(vocabulary, rows=2):
    lines = ["the company said .", "the company", "said the company ."]
    tokens = np.concatenate([vocabulary.encode_sentence(t) for t in lines])
    split = memlm.data.Split(tokens)
    corpus = memlm.data.Corpus("own", vocabulary, split, split, split)
    return corpus.batches("train", rows, 4)


def test_a_file_is_enough_to_score_and_to_write(reloaded):
    model = make()
    assert model.vocabulary_size == len(VOCABULARY) == 7
    read = reloaded(model)
    assert read.vocabulary == VOCABULARY
    ids = [2, 3, 1, 4, 6, 5]
    assert VOCABULARY.encode(TEXT).tolist() == ids
    expected = model.score([[0, *ids, 0]])[0]
    np.testing.assert_allclose(read.score(TEXT), expected, rtol=1e-5)
    both = read.score([TEXT, "the"])
    np.testing.assert_allclose(both[0], expected, rtol=1e-5)
    assert both[1].shape == (2,)
    text = read.generate("the COMPANY", max_length=9, sampler="greedy")
    found = model.generate(
        np.array([2, 3]), 9, sampler="greedy", stop_token_ids=[0]
    )
    end = [*found.tolist(), 0].index(0)
    assert text == VOCABULARY.detokenize(found[:end])
    longest = read.generate(["the"], 9, "greedy", stop_token_ids=())
    assert len(longest[0].split()) == 9


def test_presets_take_it():
    model = memlm.LanguageModel.from_preset(
        "daniluk2017/key_value_predict", vocabulary=VOCABULARY, scale=0.02
    )
    assert model.vocabulary == VOCABULARY and model.vocabulary_size == 7
    with pytest.raises(ValueError, match="vocabulary_size=8.*7 tokens"):
        make(vocabulary_size=8)
    with pytest.raises(ValueError, match="`vocabulary` must be a .*'the'"):
        make(vocabulary=["the"])


def test_another_vocabulary_of_equal_size_is_refused():
    model = make()
    with pytest.raises(ValueError, match="`vocabulary` must be the model's"):
        model.generate("the", 5, vocabulary=OTHER)
    model.compile("adam")
    wrong = batches_of(OTHER)
    with pytest.raises(ValueError, match="batches must have the model's"):
        model.fit(wrong, verbose=0)
    model.fit(batches_of(VOCABULARY), verbose=0)
    # A model without a vocabulary accepts batches with any vocabulary.
    anonymous = make(vocabulary=None, vocabulary_size=7)
    anonymous.compile("adam")
    anonymous.fit(wrong, verbose=0)
    with pytest.raises(ValueError, match="`prompt` needs a model with a"):
        anonymous.generate("the", 5)
    with pytest.raises(ValueError, match="`token_ids` needs a model with a"):
        anonymous.score("the")


def test_ensembles_know_it():
    models = [make(vocabulary=None, vocabulary_size=7), make()]
    ensemble = memlm.Ensemble(models)
    assert ensemble.vocabulary == VOCABULARY
    assert ensemble.score(TEXT).shape == (7,)
    assert isinstance(ensemble.generate("the", 5, "greedy"), str)
    with pytest.raises(ValueError, match="`models` must share one vocabulary"):
        memlm.Ensemble([*models, make(vocabulary=OTHER)])


def test_pieces_train_score_and_generate(reloaded):
    model = make(vocabulary=PIECES)
    model.compile("adam")
    batches = batches_of(PIECES)
    model.fit(batches, epochs=2, verbose=0)
    assert batches[0][0]["token_ids"][0, 0] == PIECES.end_of_sentence_id == 6
    read = reloaded(model)
    assert isinstance(read.vocabulary, SubwordVocabulary)
    ids = PIECES.encode("the company").tolist()
    assert ids == [2, 5, 7]
    scores = read.score("the company")
    expected = model.score([[6, *ids, 6]])[0]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    by_word = -scores.sum() / PIECES.count_words([*ids, 6])
    assert by_word == pytest.approx(-expected.sum() / 3, rel=1e-5)
    text = read.generate("the company", 8, "greedy", stop_token_ids=())
    assert text.startswith("the company")


def classifier(**arguments):
    keras.utils.set_random_seed(4)
    return memlm.EntailmentClassifier(
        embedding_dim=5,
        recurrent=keras.layers.LSTM(6),
        classifier_units=(4,),
        **arguments,
    )


def test_classifiers_read_strings(reloaded):
    corpus = memlm.data.load_pairs("embedded", lowercase=True)
    model = reloaded(
        classifier(vocabulary=corpus.vocabulary, labels=corpus.labels)
    )
    assert model.vocabulary == corpus.vocabulary
    assert model.labels == corpus.labels
    texts = [["Ada lives in York", "bert keeps a cat ."], ["ada", "a b"]]
    found = model.classify(*texts)
    premises, hypotheses = (
        [corpus.vocabulary.encode(text) for text in side] for side in texts
    )
    batches = memlm.data.PairBatches(premises, hypotheses, [0, 0], 2)
    logits = model.predict(batches, verbose=0)[np.argsort(batches.order)]
    expected = softmax(logits, axis=-1)
    for row, result in zip(expected, found):
        assert tuple(result) == corpus.labels
        np.testing.assert_allclose(list(result.values()), row, rtol=1e-4)
    single = model.classify("Ada lives in York", "ada")
    assert single.keys() == found[0].keys()
    for label, value in single.items():
        assert value == pytest.approx(found[0][label], rel=1e-4)
    # More pairs than one batch keep their order.
    many = ["ada " * (1 + n % 7) for n in range(70)]
    found = model.classify(many, many[::-1])
    assert len(found) == 70
    alone = model.classify(many[4], many[-5])
    assert found[4] == pytest.approx(alone, rel=1e-4)


def test_wrong_arguments_of_classifiers():
    model = classifier(vocabulary=VOCABULARY, num_classes=2)
    assert set(model.classify("the", "company")) == {0, 1}
    for premise, hypothesis, message in (
        ("the", ["the"], "two strings, or two lists of strings"),
        (["the"], ["the", "the"], "two strings, or two lists of strings"),
        ([3], [4], "two strings, or two lists of strings"),
        ("the", " ", "Each `hypothesis` must have a word. Received: "),
    ):
        with pytest.raises(ValueError, match=message):
            model.classify(premise, hypothesis)
    with pytest.raises(ValueError, match="`premise` needs a model with a"):
        classifier(vocabulary_size=9).classify("the", "the")
    with pytest.raises(ValueError, match="a `vocabulary_size`. Received"):
        classifier()
    for labels in ("ab", ["a", "a"], ["a"], 2):
        with pytest.raises(ValueError, match="`labels` must be different"):
            classifier(vocabulary_size=9, labels=labels, num_classes=2)


def test_autoencoders_read_and_write_strings(reloaded):
    keras.utils.set_random_seed(5)
    model = memlm.SequenceAutoencoder(
        vocabulary=PIECES,
        embedding_dim=5,
        encoder=keras.layers.GRU(6),
        decoder=keras.layers.GRU(6),
        conditioning="memory",
    )
    read = reloaded(model)
    assert read.vocabulary == PIECES and read.end_of_sentence_id == 6
    ids = [PIECES.encode_sentence(t) for t in ("the company", "the")]
    expected = [PIECES.detokenize(row) for row in model.generate(ids)]
    assert read.generate(["the company", "the"]) == expected
    assert isinstance(read.generate("the"), str)


def asked_of(model, *vocabulary):
    """Returns results of evaluation and analysis, with or without a vocabulary
    argument."""
    sentences = [["the", "company", "said"], ["said", "the", "company"]]
    tokens = np.concatenate([VOCABULARY.encode_sentence(s) for s in sentences])
    question = memlm.data.ClozeQuestion(
        context=(("the", "company"),),
        query=("the", "XXXXX", "said"),
        answer="company",
        candidates=("company", "said"),
    )
    parsed = memlm.analysis.ParsedSentence(
        words=("the", "company", "said"),
        heads=np.array([1, 2, -1]),
        relations=("det", "nsubj", "root"),
    )
    yield lambda: memlm.evaluation.cloze_accuracy(
        model, [question], *vocabulary, verbose=0
    )
    yield lambda: memlm.analysis.sentence_predictions(
        model, "the company said", *vocabulary
    )
    yield lambda: memlm.analysis.attention_columns(
        model, tokens, *vocabulary, samples=2, verbose=0
    )
    yield lambda: memlm.analysis.distant_pairs(
        model, tokens, tokens, *vocabulary, minimum_distance=2, verbose=0
    )
    yield lambda: memlm.analysis.dependency_attention(
        model, [parsed], *vocabulary, verbose=0
    )


def test_evaluation_and_analysis_take_the_models_vocabulary():
    model = make()
    for own, given in zip(asked_of(model), asked_of(model, VOCABULARY)):
        assert repr(own()) == repr(given())
    for refused in asked_of(model, OTHER):
        with pytest.raises(ValueError, match="must be the model's own"):
            refused()
    for refused in asked_of(make(None, vocabulary_size=7)):
        with pytest.raises(ValueError, match="`vocabulary` must be given"):
            refused()
