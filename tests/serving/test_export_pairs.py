"""Tests a served classifier of pairs, from texts to labels."""

import json

import keras
import numpy as np
import pytest
from scipy.special import softmax

import memlm_keras as memlm
from memlm_keras.serving import export

LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture(scope="module")
def classifier(vocabulary):
    keras.utils.set_random_seed(6)
    model = memlm.EntailmentClassifier(
        vocabulary=vocabulary,
        labels=LABELS,
        embedding_dim=6,
        recurrent=memlm.cells.DualAssociativeGRUCell(8, num_copies=3),
        conditioning="source",
        top=keras.layers.GRU(8),
        classifier_units=(8,),
        dropout=0.5,
    )
    for weight in model.trainable_variables:
        weight.assign(weight * 4.0)
    return model


@pytest.mark.backend("tensorflow")
def test_texts_in_labels_and_probabilities_out(
    classifier, vocabulary, tmp_path
):
    import tensorflow as tf

    path = tmp_path / "pairs" / "1"
    export(classifier, path)
    saved = json.loads((path / "assets.extra" / "labels.json").read_text())
    assert tuple(saved) == LABELS
    texts = {
        "premise": ["word_1  word_7 nobody word_3", "word_2", "1,234 café"],
        "hypothesis": ["word_7", "word_9 word_2\u2003word_2 word_4 .", "7"],
    }
    served = tf.saved_model.load(path).signatures["serving_default"]
    found = served(**{name: tf.constant(text) for name, text in texts.items()})
    batches = memlm.data.PairBatches(
        *([vocabulary.encode(text) for text in texts[name]] for name in texts),
        [0, 0, 0],
        3,
    )
    logits = keras.ops.convert_to_numpy(classifier(batches[0][0]))
    expected = np.empty_like(logits)
    expected[batches.order] = softmax(logits, axis=-1)
    np.testing.assert_allclose(
        found["probabilities"], expected, rtol=1e-4, atol=1e-5
    )
    best = [LABELS[index].encode() for index in expected.argmax(axis=-1)]
    assert found["label"].numpy().tolist() == best
    for premise, message in (
        ([" "], "`premise` must hold at least one word"),
        (["a", "b"], "`hypothesis` must have one row for each row of `premi"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            served(premise=tf.constant(premise), hypothesis=tf.constant(["a"]))


@pytest.mark.parametrize(
    "labels", [None, "yes", ["a", "b"], ["a", "b", "b"], ["a", "b", "c", "d"]]
)
def test_wrong_labels(labels, classifier, model, vocabulary, tmp_path):
    config = {**classifier.get_config(), "labels": None, "vocabulary": None}
    unnamed = memlm.EntailmentClassifier.from_config(config)
    with pytest.raises(ValueError, match="`labels` must be 3 different str"):
        export(unnamed, tmp_path / "1", vocabulary, labels=labels)
    with pytest.raises(ValueError, match="unless the model has one itself"):
        export(unnamed, tmp_path / "1", labels=LABELS)
    with pytest.raises(ValueError, match="`labels` must be the model's own"):
        export(classifier, tmp_path / "1", labels=LABELS[::-1])
    with pytest.raises(ValueError, match="`labels` are only for an `Entail"):
        export(model, tmp_path / "1", vocabulary, labels=LABELS)
    assert not list(tmp_path.iterdir())
