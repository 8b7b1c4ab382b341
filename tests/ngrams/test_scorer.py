"""Tests n-gram models in evaluations of language models: perplexity and
cloze."""

import itertools

import numpy as np
import pytest

from memlm_keras.data import Batches
from memlm_keras.data import ClozeQuestion
from memlm_keras.data import SentenceBatches
from memlm_keras.data import Split
from memlm_keras.data import Vocabulary
from memlm_keras.data import sentence_starts
from memlm_keras.evaluation import choose_cache
from memlm_keras.evaluation import cloze_accuracy
from memlm_keras.evaluation import cloze_scores
from memlm_keras.evaluation import monte_carlo_perplexity
from memlm_keras.evaluation import perplexity
from memlm_keras.evaluation import sampled_perplexity
from memlm_keras.ngrams import KneserNey
from memlm_keras.ngrams import Mixture
from memlm_keras.ngrams import UnigramCache

pytestmark = pytest.mark.filterwarnings("ignore:Counts of counts")


@pytest.fixture(scope="module")
def text():
    tokens = np.random.default_rng(3).zipf(1.3, 3000) % 20
    tokens[-1] = 0
    return tokens.astype("int32")


@pytest.fixture(scope="module")
def models(text):
    lines = KneserNey(20, order=3).fit(text[:2000], verbose=0)
    stream = KneserNey(20, order=3, sentence_boundaries=False)
    stream.fit(text[:2000], verbose=0)
    mixture = Mixture([stream, UnigramCache(20, 5)], [0.7, 0.3])
    return {"lines": lines, "stream": stream, "mixture": mixture}


every_model = pytest.mark.parametrize("name", ["lines", "stream", "mixture"])


@pytest.mark.parametrize("rows, time", [(1, 1), (1, 200), (3, 4)])
@every_model
def test_each_row_begins_after_the_token_before_it(
    models, text, name, rows, time
):
    model, read = models[name], text[2000:2101]
    result = perplexity(model, Batches(read, rows, time), verbose=0)
    loss = -model.score(read[: 101 // rows]).sum()
    for begin, end in itertools.pairwise(np.arange(1, rows + 1) * 101 // rows):
        loss -= model.score(read[begin - 1 : end])[1:].sum()
    assert result.loss == pytest.approx(loss, rel=1e-12)
    assert result.predicted_tokens == result.total_tokens == 101
    assert result.protocol.endswith(f"each row; {model.description}")


@every_model
def test_documents_begin_afresh(models, text, name):
    model, read, starts = models[name], text[2000:2200], [0, 11, 95, 120]
    batches = Batches(read, 3, 6, document_starts=starts)
    result = perplexity(model, batches, verbose=0)
    parts = np.split(read, starts[1:])
    loss = -sum(model.score(part).sum() for part in parts)
    assert result.loss == pytest.approx(loss, rel=1e-12)


def test_a_cache_of_documents_is_emptied_where_they_begin(text):
    read, starts = text[2000:2200], [0, 11, 95, 120]
    cache = UnigramCache(20, 50, documents=True)
    model = Mixture([KneserNey(20, order=1).fit(text, 0), cache], [1, 0])
    model.weights[:] = 0.5
    batches = Batches(read, 2, 6, document_starts=starts)
    result = perplexity(model, batches, verbose=0)
    whole = model.score(Split(read, np.array(starts)))
    assert result.loss == pytest.approx(-whole.sum(), rel=1e-12)
    with pytest.raises(ValueError, match="`text` must be a `Split` with doc"):
        perplexity(model, Batches(read, 2, 6), verbose=0)


def test_sentences_of_any_layout(models, text):
    model, read = models["mixture"], text[2000:]
    options = {"context_of": "sentence"}
    options["document_starts"] = sentence_starts(read)
    streams = Batches(read, batch_size=4, segment_length=3, **options)
    expected = perplexity(model, streams, verbose=0, also=("salton2017",))
    found = perplexity(
        model, SentenceBatches(read, 4), verbose=0, also=("salton2017",)
    )
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert found.others["salton2017"].loss == pytest.approx(
        expected.others["salton2017"].loss, rel=1e-12
    )
    # A model with independent lines gives the same loss for the batches and the
    # text.
    lines = models["lines"]
    assert perplexity(lines, streams, verbose=0).loss == pytest.approx(
        lines.perplexity(read, verbose=0).loss, rel=1e-12
    )


WORDS = [f"w{number}" for number in range(18)]
VOCABULARY = Vocabulary(WORDS)


@every_model
def test_cloze_is_the_score_of_the_whole_text(models, name):
    random = np.random.default_rng(0)

    def sentence():
        return tuple(random.choice(WORDS, random.integers(1, 6)))

    questions = [
        ClozeQuestion(
            tuple(sentence() for _ in range(index)),
            (*sentence(), "XXXXX", *sentence()),
            candidates[index % 4],
            candidates,
        )
        for index in range(6)
        for candidates in [(*map(str, random.choice(WORDS, 3)), "unknown")]
    ]
    model = models[name]
    found = cloze_scores(model, questions, VOCABULARY, verbose=0)
    chosen = []
    for question, scores in zip(questions, found):
        context = sum(((*each, "<eos>") for each in question.context), ())
        for candidate, score in zip(question.candidates, scores):
            text = [*context, *question.filled(candidate), "<eos>"]
            whole = model.score(VOCABULARY.encode(text))
            assert score == pytest.approx(whole[len(context) :].sum())
        chosen.append(question.candidates[int(np.argmax(scores))])
    result = cloze_accuracy(model, questions, VOCABULARY, verbose=0)
    assert result.chosen == tuple(chosen)
    assert "initial state" in str(result)


def test_one_line_for_a_model_that_cannot(models, text):
    model, batches = models["lines"], Batches(text, 2, 5)
    question = ClozeQuestion((), ("XXXXX",), "a", ("a",))
    unknown = Batches(np.array([1, 20]), 1, 2)
    other = Batches(text, 2, 5, end_of_sentence_id=7)
    for call, arguments, message in (
        (perplexity, ({}, batches), "`score_batches`.*dict"),
        (cloze_scores, (object(), [], VOCABULARY), "`score`.*object"),
        (monte_carlo_perplexity, (model, batches), "`with_fixed_dropout`.*Kn"),
        (sampled_perplexity, (model, batches), "`sampled_score_batches`.*Kne"),
        (choose_cache, (model, batches), "`outputs_batches`.*KneserNey"),
        (
            *(cloze_scores, (model, [question], Vocabulary(["a"]))),
            "`vocabulary`.*vocabulary_size=20.*3 tok",
        ),
        (perplexity, (model, other), "id 0.*end_of_sentence_id=7"),
        (perplexity, (model, unknown), "below the vocabulary size 20.*: 20"),
        (perplexity, (KneserNey(20), batches), "trained before"),
    ):
        with pytest.raises(ValueError, match=message):
            call(*arguments)
