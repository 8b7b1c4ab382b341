"""Compares exported models of `transformers` with this package's models."""

import itertools

import keras
import numpy as np
import pytest
from language_models import VOCABULARY
from language_models import V
from language_models import every_model
from language_models import make
from told import python

import memlm_keras as memlm
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary

transformers = pytest.importorskip(
    "transformers", reason="the extra `huggingface` is not installed"
)
torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from memlm_keras.integrations.huggingface import modeling as huggingface  # noqa: E402

# Importing `transformers` takes ten seconds.
pytestmark = [pytest.mark.slow, pytest.mark.backend("torch")]

TEXTS = ["w3 w1 w4 w1 nowhere", "w5", "w9 w2 w6 w5 w3 w5 w8 w9"]


def sums(lm, texts, vocabulary=None):
    """Sums the log-probabilities of each text's words, without its end."""
    measured = lm.surprisal(texts, vocabulary, unit="nats", reset=True)
    ends = np.flatnonzero(np.diff(measured.sentence, append=0))
    words = np.delete(measured.surprisal, ends)
    sentence = np.delete(measured.sentence, ends)
    return -np.bincount(sentence, words)[1:]


def sums_of(model, batch, **arguments):
    """Computes the result of `sums` from a `transformers` model's logits."""
    logits = model(**batch, **arguments).logits.detach()
    log_probabilities = logits.double().log_softmax(dim=-1)
    found = []
    masks = batch["attention_mask"].bool()
    for row, ids, kept in zip(log_probabilities, batch["input_ids"], masks):
        scores = row[kept][:-1].gather(1, ids[kept][1:, None])
        found.append(scores.sum().item())
    return np.array(found)


def encode(tokenizer, texts=TEXTS, side="right"):
    return tokenizer(
        texts, padding=True, padding_side=side, return_tensors="pt"
    )


@pytest.fixture(scope="module")
def wrapped():
    lm = make(vocabulary=VOCABULARY)
    return lm, *huggingface.wrap(lm)


# === Logits with any padding ===


def require_ours(lm, model, batch, vocabulary=VOCABULARY):
    ours = sums(lm, TEXTS, vocabulary)
    np.testing.assert_allclose(sums_of(model, batch), ours, atol=2e-5)


@every_model
def test_sums_are_ours_and_the_cache_carries_the_state(recurrent, memory):
    lm = make(recurrent, memory, vocabulary=VOCABULARY)
    model, tokenizer = huggingface.wrap(lm)
    require_ours(lm, model, encode(tokenizer))
    batch = encode(tokenizer, side="left")
    require_ours(lm, model, batch)
    whole = model(**batch)
    cache, parts = huggingface.MemlmCache(), []
    edges = [0, 1, 4, batch.input_ids.shape[1]]
    for begin, end in itertools.pairwise(edges):
        output = model(
            batch.input_ids[:, begin:end],
            attention_mask=batch.attention_mask[:, :end],
            past_key_values=cache,
        )
        assert output.past_key_values is cache
        assert cache.get_seq_length() == end
        parts.append(output.logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole.logits)
    for name, value in whole.cache.state.items():
        torch.testing.assert_close(cache.state[name], value)


def quantized():
    lm = make(vocabulary=VOCABULARY)
    lm.quantize("int8", verbose=False)
    return lm


def smoothed():
    smoothing = memlm.smoothing.VariationalSmoothing("kneser_ney", 0.3)
    embedding = memlm.smoothing.SmoothedEmbedding(smoothing=smoothing)
    lm = make(vocabulary=VOCABULARY, embedding=embedding)
    tokens = np.arange(500) * 7 % V
    lm.smoothing.adapt(memlm.smoothing.StreamStatistics.count(tokens, V))
    return lm


OTHERS = {
    "quantized": quantized,
    "smoothed": smoothed,
    "pointer": lambda: make(
        vocabulary=VOCABULARY, mixture=memlm.mixtures.PointerSentinel(window=4)
    ),
    "cache": lambda: make(
        vocabulary=VOCABULARY,
        mixture=memlm.mixtures.NeuralCache(6, theta=0.3, weight=0.2),
    ),
    "ensemble": lambda: memlm.Ensemble(
        [make(vocabulary=VOCABULARY), make("cell")]
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_sums_of_other_models_are_ours(kind, tmp_path):
    lm = OTHERS[kind]()
    model, tokenizer = huggingface.wrap(lm, VOCABULARY)
    batch = encode(tokenizer, side="left")
    require_ours(lm, model, batch)
    if kind in ("pointer", "cache", "ensemble"):
        model.save_pretrained(tmp_path)
        loaded = huggingface.MemlmForCausalLM.from_pretrained(tmp_path)
        require_ours(lm, loaded, batch)


def test_padding_may_be_anywhere_and_of_any_id(wrapped):
    _, model, tokenizer = wrapped
    ids = torch.tensor([[0, 7, 22, 9, 4], [5, 0, 5, 3, 5]])
    mask = torch.tensor([[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]])
    logits = model(ids, attention_mask=mask).logits
    for row, kept in zip(range(2), mask.bool()):
        alone = model(ids[row, kept][None]).logits[0]
        torch.testing.assert_close(logits[row, kept], alone)
        assert not logits[row, ~kept].any()
    # The padding id itself marks padding, so a mask is optional.
    batch = encode(tokenizer)
    assert tokenizer.pad_token_id == V
    logits = model(batch.input_ids).logits
    torch.testing.assert_close(logits, model(**batch).logits)


@pytest.mark.parametrize("outside", [-1, V + 1, 10**9])
def test_other_ids_are_refused(wrapped, outside):
    _, model, _ = wrapped
    ids = torch.tensor([[0, 3, V], [0, outside, 4]])
    for mask in (None, torch.tensor([[1, 1, 0], [1, 1, 1]])):
        message = f"to {V - 1}.*Received: {outside}"
        with pytest.raises(ValueError, match=message):
            model(ids, attention_mask=mask)
    mask = torch.tensor([[1, 1, 0], [1, 0, 1]])
    assert model(ids, attention_mask=mask).logits[1, 2].any()


def test_the_loss_is_the_mean_of_ours(wrapped):
    lm, model, tokenizer = wrapped
    batch = encode(tokenizer, side="left")
    loss = model(**batch, labels=batch.input_ids).loss.item()
    words = batch.attention_mask.sum().item() - len(TEXTS)
    assert -loss * words == pytest.approx(sums(lm, TEXTS).sum(), abs=1e-4)


# === The state ===


@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_the_same_with_and_without_a_cache(wrapped, beams):
    lm, model, tokenizer = wrapped
    batch = encode(tokenizer, side="left")
    arguments = {"max_new_tokens": 6, "do_sample": False, "num_beams": beams}
    written = model.generate(**batch, **arguments)
    again = model.generate(**batch, **arguments, use_cache=False)
    assert written.tolist() == again.tolist()
    if beams == 1:
        prompt = VOCABULARY.encode("<eos> " + TEXTS[0])
        ours = lm.generate(prompt, len(prompt) + 6, "greedy", stop_token_ids=())
        theirs = written[0][batch.attention_mask[0].argmax() :]
        assert theirs.tolist() == ours.tolist()


def test_a_prompt_is_continued_from_its_cache(wrapped):
    _, model, tokenizer = wrapped
    ids = encode(tokenizer, TEXTS[:1]).input_ids
    first = model.generate(
        ids, max_new_tokens=3, do_sample=False, return_dict_in_generate=True
    )
    longer = model.generate(
        first.sequences, cache=first.cache, max_new_tokens=3, do_sample=False
    )
    whole = model.generate(ids, max_new_tokens=6, do_sample=False)
    assert longer.tolist() == whole.tolist()


# === Weights ===


def test_training_it_trains_ours():
    lm = make(dropout=0.2, vocabulary=VOCABULARY)
    count = len(lm.weights)
    lm.carry_state(batch_size=2)
    model, tokenizer = huggingface.wrap(lm)
    # The state that is carried in training is not saved.
    assert len(lm.weights) > len(model.state_dict()) == count
    batch = encode(tokenizer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = sums(lm, TEXTS).sum()
    for _ in range(5):
        optimizer.zero_grad()
        model.train()(**batch, labels=batch.input_ids).loss.backward()
        optimizer.step()
    assert sums(lm, TEXTS).sum() > before + 1
    require_ours(lm, model.eval(), batch)


# === Folders ===


def test_a_folder_loads_by_the_auto_classes(wrapped, tmp_path):
    lm, model, tokenizer = wrapped
    path = memlm.serving.export(lm, tmp_path / "lm", format="hf")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(path)
    tokens = transformers.AutoTokenizer.from_pretrained(path)
    assert tokens(TEXTS).input_ids == tokenizer(TEXTS).input_ids
    np.testing.assert_array_equal(
        sums_of(loaded, encode(tokens)), sums_of(model, encode(tokenizer))
    )
    # The loaded model can be scored by this package, too.
    ours = sums(loaded.lm, TEXTS, tokens.vocabulary)
    np.testing.assert_array_equal(ours, sums(lm, TEXTS))
    with pytest.raises(FileExistsError, match="`path` already exists"):
        memlm.serving.export(lm, path, format="hf")
    memlm.serving.export(lm, path, format="hf", overwrite=True)
    weights = path / "model.safetensors"
    with safe_open(weights, "pt") as file:
        kept = {name: file.get_tensor(name) for name in [*file.keys()][1:]}
    save_file(kept, weights, {"format": "pt"})
    with pytest.raises(ValueError, match="all weights.*weights.000/embeddings"):
        transformers.AutoModelForCausalLM.from_pretrained(path)


def test_a_folder_loads_where_nothing_is_imported(wrapped, tmp_path):
    lm, model, tokenizer = wrapped
    path = memlm.serving.export(lm, tmp_path / "lm", format="hf")
    script = f"""
from transformers import AutoModelForCausalLM, AutoTokenizer
trusting = {{"trust_remote_code": True}}
model = AutoModelForCausalLM.from_pretrained({str(path)!r}, **trusting)
tokenizer = AutoTokenizer.from_pretrained({str(path)!r}, **trusting)
batch = tokenizer({TEXTS!r}, padding=True, return_tensors="pt")
print(model(**batch, labels=batch.input_ids).loss.item())
"""
    modules = str(tmp_path / "modules")
    told = python("-c", script, HF_MODULES_CACHE=modules, KERAS_BACKEND=None)
    batch = encode(tokenizer)
    loss = model(**batch, labels=batch.input_ids).loss.item()
    assert float(told.out.split()[-1]) == pytest.approx(loss, abs=1e-6)


@pytest.mark.backend("tensorflow")
def test_other_backends_write_and_do_not_load(tmp_path):
    lm = make(vocabulary=VOCABULARY)
    path = memlm.serving.export(lm, tmp_path / "lm", format="hf")
    with safe_open(path / "model.safetensors", "np") as file:
        for name, ours in zip(sorted(file.keys()), lm.weights, strict=True):
            np.testing.assert_array_equal(file.get_tensor(name), ours)
    with pytest.raises(ValueError, match="KERAS_BACKEND=torch"):
        transformers.AutoModelForCausalLM.from_pretrained(path)


# === The tokenizer ===


def test_ids_are_ours(wrapped):
    _, _, tokenizer = wrapped
    ids = VOCABULARY.encode(TEXTS[0]).tolist()
    assert tokenizer(TEXTS[0], add_special_tokens=False).input_ids == ids
    assert tokenizer(TEXTS[0]).input_ids == [0, *ids]
    # Some programs add the first token to the text themselves.
    assert tokenizer("<eos>" + TEXTS[0]).input_ids == [0, *ids]
    assert tokenizer.decode([0, *ids]) == VOCABULARY.detokenize([0, *ids])
    # Decoding ids from the middle of a text begins with a space.
    assert tokenizer.decode(ids) == " " + VOCABULARY.detokenize(ids)
    text = tokenizer.decode([0, *ids], skip_special_tokens=True)
    assert text.startswith("w3")
    assert len(tokenizer) == V + 1


def test_pieces_and_rules_of_case_are_ours(tmp_path):
    rules = memlm.data.Tokenizer("unicode_script", lowercase=True, numbers="N")
    for vocabulary, text in (
        (
            SubwordVocabulary(["<unk>", "</s>", "\u2581c", "at", "\u2581"]),
            "cat at Cat",
        ),
        (Vocabulary(["the", "N", "."], tokenizer=rules), "The 12.5 whales."),
    ):
        tokenizer = huggingface.MemlmTokenizer(vocabulary=vocabulary)
        ids = vocabulary.encode(text).tolist()
        assert tokenizer(text, add_special_tokens=False).input_ids == ids
        joined = vocabulary.detokenize(ids)
        assert tokenizer.decode(ids) == f" {joined}"
        parts = "".join(tokenizer.decode([id]) for id in ids[:2])
        assert parts == tokenizer.decode(ids[:2])
        tokenizer.save_pretrained(tmp_path)
        loaded = huggingface.MemlmTokenizer.from_pretrained(tmp_path)
        assert loaded.vocabulary == vocabulary
        assert loaded(text).input_ids == tokenizer(text).input_ids
        assert len(loaded) == len(tokenizer)


# === Errors ===


def test_what_cannot_be_wrapped():
    kneser_ney = memlm.ngrams.KneserNey(V, order=2)
    with pytest.raises(ValueError, match="`lm` must be.*KneserNey"):
        huggingface.wrap(kneser_ney, VOCABULARY)
    with pytest.raises(ValueError, match="`vocabulary` must be given"):
        huggingface.wrap(make())
    both = memlm.memory.BidirectionalMemoryBlock(window=3)
    lm = memlm.LanguageModel(V, 5, [keras.layers.LSTM(6)], both)
    with pytest.raises(ValueError, match="`wrap` needs a causal model"):
        huggingface.wrap(lm, VOCABULARY)
