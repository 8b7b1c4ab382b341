"""Tests the continuation of prompts of ids and of words."""

import keras
import numpy as np
import pytest
from language_models import V
from language_models import make
from language_models import shared
from language_models import stepped

from memlm_keras import LanguageModel
from memlm_keras.data import Tokenizer
from memlm_keras.data import Vocabulary

pytestmark = pytest.mark.backend

LETTERS = Vocabulary([chr(97 + index) for index in range(V - 2)])


def greedy_of(model, row, length):
    """Continues one row by the most probable token, step by step."""
    row = list(row)
    logits, state = stepped(model, np.array([row], "int32"))
    while len(row) < length:
        row.append(int(np.argmax(logits[0, -1])))
        logits, state = stepped(model, np.array([row[-1:]], "int32"), state)
    return row


def test_greedy_takes_the_most_probable_token():
    model = shared()
    prompts = [[3, 4, 5], [6]]
    found = model.generate(prompts, max_length=7, sampler="greedy")
    for row, prompt in zip(found, prompts):
        assert row.tolist() == greedy_of(model, prompt, 7)
    single = model.generate(np.array([3, 4, 5]), 7, sampler="greedy")
    assert single.shape == (7,)
    assert single.tolist() == found[0].tolist()


@pytest.mark.parametrize("first", [True, False])
def test_stop_tokens_end_a_row(first):
    model = shared()
    prompts = [[3, 4, 5], [6]]
    rows = [greedy_of(model, prompt, 9) for prompt in prompts]
    stops = [rows[0][5]] if first else [rows[0][5], rows[1][3]]
    found = model.generate(
        prompts, max_length=9, sampler="greedy", stop_token_ids=[0, *stops, V]
    )
    texts = model.generate(
        [" ".join(LETTERS.decode(prompt)) for prompt in prompts],
        *(9, "greedy", LETTERS, [0, *stops]),
    )
    for row, prompt, expected, text in zip(found, prompts, rows, texts):
        new = expected[len(prompt) :]
        ends = [i for i, token in enumerate(new) if token in (0, *stops)]
        length = len(prompt) + ends[0] if ends else 9
        assert row[:length].tolist() == expected[:length]
        assert set(row[length:].tolist()) <= {expected[min(length, 8)]}
        assert text == " ".join(LETTERS.decode(row[:length]))


def test_suppressed_tokens_are_not_written():
    model = shared()
    free = model.generate([[3, 4, 5]], 9, "greedy")[0, 3:]
    gone = {int(free[0])}
    for sampler in ("greedy", "top_p", "beam"):
        found = model.generate(
            [[3, 4, 5], [6]], 9, sampler, suppress_token_ids=[*gone]
        )
        assert not gone & set(found[:, 3:].ravel().tolist())
    # Suppressed tokens may be in a prompt; other tokens keep their order.
    prompt = np.array([[3, *gone]], "int32")
    found = model.generate(prompt, 3, "greedy", suppress_token_ids=[*gone])
    logits = stepped(model, prompt)[0][0, -1]
    logits[[*gone]] = -np.inf
    assert found[0].tolist() == [3, *gone, int(np.argmax(logits))]
    for wrong in ([V], 1, range(V)):
        with pytest.raises(ValueError, match="`suppress_token_ids`"):
            model.generate([[3]], 3, suppress_token_ids=wrong)


@pytest.mark.parametrize("name", ["greedy", "random", "top_k", "top_p"])
def test_samplers_draw_as_those_of_keras_nlp(name):
    import keras_nlp

    model, found = shared(), []
    for sampler in (str, keras_nlp.samplers.get):
        keras.utils.set_random_seed(4)
        found.append(model.generate([[3, 4], [5, 6, 7]], 9, sampler(name)))
    np.testing.assert_array_equal(*found)
    rows = found[0]
    assert rows.shape == (2, 9) and rows.min() >= 0 and rows.max() < V
    assert rows[0, :2].tolist() == [3, 4] and rows[1, :3].tolist() == [5, 6, 7]


def test_fewer_words_than_a_sampler_chooses_among():
    model = LanguageModel.from_preset(
        "daniluk2017/lstm", vocabulary_size=3, scale=0.01
    )
    found = model.generate([[1, 2]], 6, sampler="top_k")
    assert found.shape == (1, 6) and found.max() < 3


@pytest.mark.backend("jax")
def test_a_sampler_is_compiled_once(monkeypatch):
    model = shared()
    model.generate([[3, 4]], 5, "top_k")
    monkeypatch.delattr("memlm_keras.models.generation._choose")
    found = model.generate(
        [[5, 4, 3]],
        9,
        "top_k",
        stop_token_ids=np.array([2]),
        suppress_token_ids=[1],
    )
    assert found.shape == (1, 9)


def test_an_empty_string_begins_a_sentence():
    vocabulary = Vocabulary(
        LETTERS.tokens[2:], tokenizer=Tokenizer(split="unicode_script")
    )
    model = shared()
    ids = model.generate([0], 6, "greedy", vocabulary)
    texts = model.generate(["", "a b", " "], 6, "greedy", vocabulary)
    assert texts[0] == texts[2] and texts[1].startswith("a b ")
    written = vocabulary.decode(ids)[1:]
    stop = written.index("<eos>") if "<eos>" in written else len(written)
    assert texts[0].split() == written[:stop] != []


@pytest.mark.backend("torch")
@pytest.mark.parametrize("sampler", ["greedy", "top_k", "beam"])
def test_at_least_one_word_follows_each_prompt(sampler):
    model = make(vocabulary=LETTERS)
    model.head.bias.assign(50.0 * (np.arange(V) == 0))
    prompts = ["a b", "c", "a b c"]
    texts = model.generate(prompts, 6, sampler)
    for prompt, text in zip(prompts, texts):
        assert text.startswith(f"{prompt} ")
        assert len(text.split()) == len(prompt.split()) + 1
    rows = model.generate([[3, 4], [5]], 6, sampler)
    assert rows[0, 2] and rows[1, 1]
    assert not rows[0, 3:].any() and not rows[1, 2:].any()


@pytest.mark.parametrize(
    "prompt, max_length, message",
    [
        ([[]], 5, "`prompt`.*at least one token"),
        ([], 5, "`prompt`.*at least one token"),
        ([[1, 2, 3]], 3, "`max_length`.*3 tokens.*max_length=3"),
        ([[1, 2]], None, "`max_length` must be an integer.*=None"),
        ([[1, V]], 5, f"`prompt`.*below the vocabulary size {V}.*{V}"),
    ],
)
def test_wrong_arguments(prompt, max_length, message):
    with pytest.raises(ValueError, match=message):
        shared().generate(prompt, max_length, "greedy")
    for name, hint in (("topk", "Did you mean 'top_k'"), ("xyz", "'xyz'$")):
        with pytest.raises(ValueError, match=f"`sampler`.*{hint}"):
            shared().generate([[1, 2]], 5, name)
