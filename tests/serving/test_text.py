"""Tests that a served model and the model itself read texts in the same way."""

import keras
import numpy as np
import pytest

import memlm_keras as memlm
from memlm_keras.data import SubwordVocabulary
from memlm_keras.data import Vocabulary
from memlm_keras.serving import exported

pytestmark = pytest.mark.backend("tensorflow")

TEXTS = ["the cats sat", "", "the\u2003cat \u00c9t\u00c9"]


def test_score_reads_pieces_as_the_model_does(only_signatures, tmp_path):
    import tensorflow as tf

    vocabulary = SubwordVocabulary(
        ["<blk>", "\u2581the", "<unk>", "\u2581cat", "s", "</s>", "at"]
    )
    keras.utils.set_random_seed(1)
    model = memlm.LanguageModel(
        vocabulary=vocabulary, embedding_dim=4, recurrent=[keras.layers.GRU(5)]
    )
    with only_signatures("serving_default", "score"):
        memlm.serving.export(model, tmp_path / "1", top_k=2)
    loaded = tf.saved_model.load(tmp_path / "1")
    served = loaded.signatures["score"](text=tf.constant(TEXTS))
    for row, text in enumerate(TEXTS):
        expected = model.score(text)
        length = int(served["length"][row])
        assert length == len(expected)
        np.testing.assert_allclose(
            served["log_probabilities"][row, :length], expected, rtol=1e-5
        )
        tokens = [t.decode() for t in served["tokens"][row].numpy()[:length]]
        read = vocabulary.tokenizer.tokenize(text)
        assert tokens == [*read, vocabulary.end_of_sentence]
    kept = Vocabulary.from_file(
        tmp_path / "1" / "assets.extra" / "vocabulary.json"
    )
    assert kept == vocabulary and type(kept) is type(vocabulary)


def test_the_operators_of_pieces_are_registered_first(tmp_path, monkeypatch):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff of SentencepieceOp")
    imported = []
    monkeypatch.setattr(
        exported, "import_package", lambda *names: imported.append(names[0])
    )
    with pytest.raises(ValueError, match="is damaged"):
        exported.ServedModel(tmp_path)
    assert imported == ["tensorflow", "tensorflow_text"]
