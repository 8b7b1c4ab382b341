"""Tests language models with variational smoothing."""

import itertools

import keras
import numpy as np
import pytest
from language_models import array
from language_models import close
from language_models import stepped

from memlm_keras import Ensemble
from memlm_keras import LanguageModel
from memlm_keras import memory as memories
from memlm_keras.data import Batches
from memlm_keras.data import SentenceBatches
from memlm_keras.evaluation import sampled_perplexity
from memlm_keras.heads import TiedProjection
from memlm_keras.mixtures import NeuralCache
from memlm_keras.mixtures import PointerSentinel
from memlm_keras.smoothing import SmoothedEmbedding
from memlm_keras.smoothing import SmoothedProjection
from memlm_keras.smoothing import StreamStatistics
from memlm_keras.smoothing import VariationalSmoothing
from memlm_keras.smoothing.kong2019 import VARIATIONAL_SCHEMES
from memlm_keras.training import SentenceCrossEntropy
from references import smoothing as reference

pytestmark = pytest.mark.backend


V, UNITS = 13, 6

every_model = pytest.mark.parametrize(
    "scheme, tied", list(itertools.product(VARIATIONAL_SCHEMES, (True, False)))
)
every_sample = pytest.mark.parametrize(
    "tied, element_wise",
    [(True, False), (False, True), (True, True), (False, False)],
)


def text(length=120, seed=0):
    tokens = np.random.default_rng(seed).integers(V, size=length)
    tokens[-1] = 0
    return tokens.astype("int32")


def make(scheme="kneser_ney", tied=True, rate=0.6, adapt=True, **arguments):
    options = ("element_wise", "l2", "prediction")
    own = {name: arguments.pop(name) for name in options if name in arguments}
    uniform = keras.initializers.RandomUniform(-0.8, 0.8)
    embedding = SmoothedEmbedding(
        smoothing=VariationalSmoothing(
            scheme, rate, seed=1, other_words="sample", **own
        ),
        word_dropout=arguments.pop("word_dropout", 0.0),
        embeddings_initializer=uniform,
    )
    model = LanguageModel(
        V,
        UNITS,
        [keras.layers.LSTM(UNITS)],
        tie_embeddings=tied,
        initializer=uniform,
        **{"embedding": embedding, **arguments},
    )
    if adapt:
        model.smoothing.adapt(StreamStatistics.count(text(), V))
    return model


def tables(model):
    smoothing = model.smoothing
    rates, proposal = reference.replacement(
        smoothing.scheme, smoothing.rate, text(), V
    )
    return rates, proposal[:V]


def recorded_draws(model):
    """Returns a list to which each later draw of the smoothing is appended."""
    seen = []
    draw = model.smoothing.draw
    model.smoothing.draw = lambda *arguments: (
        seen.append(draw(*arguments)) or (seen[-1])
    )
    return seen


def outputs_and_logits(model, inputs, targets, drawn):
    """Returns the head's inputs for a sample, and the reference's logits."""
    outputs, _ = model.backbone.recur(model.backbone.embed(inputs, drawn=drawn))
    tied = model.tie_embeddings
    logits = reference.kneser_ney_logits(
        matrix=array(model.embedding.embeddings if tied else model.head.kernel),
        bias=array(model.head.bias),
        outputs=array(outputs),
        targets=targets,
        drawn=[array(part) for part in drawn[1:]],
        rates=tables(model)[0],
        proposal=tables(model)[1],
    )
    return outputs, logits


# Scoring reads 4 steps as one piece, so one shape is compiled.
def sequences(batch_size=2, time=5):
    return text(batch_size * time, seed=5).reshape(batch_size, time)


# === Prediction ===


@pytest.mark.backend(one_in=2)
@every_model
@pytest.mark.parametrize("prediction", ["mean", "mode"])
def test_predicts_by_the_matrices_of_the_reference(scheme, tied, prediction):
    model = make(scheme, tied, prediction=prediction)
    plain = LanguageModel(V, UNITS, [keras.layers.LSTM(UNITS)])
    (recurrent,), (own,) = plain.recurrent, model.recurrent
    recurrent.set_weights(own.get_weights())
    matrix = array(model.embedding.embeddings)
    if tied:
        kernel = matrix
    elif scheme == "kneser_ney":
        kernel = array(model.head.kernel)
    else:
        kernel = array(model.head.kernel).T
    if prediction == "mean":
        means = reference.mean_matrix(matrix, *tables(model))
        if scheme == "kneser_ney":
            kernel = reference.mean_matrix(kernel, *tables(model))
        matrix = means
    plain.embedding.embeddings.assign(matrix)
    plain.head.kernel.assign(kernel.T)
    plain.head.bias.assign(model.head.bias)
    tokens = sequences()
    close(model(tokens), plain(tokens))
    fixed = model.with_fixed_matrices()
    close(fixed(tokens), plain(tokens))
    assert fixed.smoothing is None
    assert fixed.tie_embeddings == (tied and scheme == "kneser_ney")
    close(stepped(model, tokens)[0], plain(tokens))
    logs = keras.ops.log_softmax(plain(tokens[:, :-1]))
    logs = np.take_along_axis(array(logs), tokens[:, 1:, None], axis=-1)
    close(model.score(tokens), logs[..., 0])


@pytest.mark.backend("torch")
@every_model
def test_a_copy_predicts_otherwise(scheme, tied):
    model, tokens = make(scheme, tied), sequences()
    mode = model.with_prediction("mode")
    assert mode.smoothing.prediction == "mode"
    assert np.abs(array(mode(tokens)) - array(model(tokens))).max() > 1e-3
    close(mode.with_prediction("mean")(tokens), model(tokens))


def test_smoothed_models_of_an_ensemble():
    plain = LanguageModel(V, UNITS, [keras.layers.LSTM(UNITS)])
    assert plain.with_fixed_matrices() is plain
    ensemble = Ensemble([plain])
    assert ensemble.with_fixed_matrices() is ensemble
    ensemble = Ensemble([make("kneser_ney"), make("linear_interpolation")])
    fixed = ensemble.with_fixed_matrices()
    assert all(model.smoothing is None for model in fixed.models)
    close(fixed(sequences()), ensemble(sequences()))


# === Training ===


@pytest.mark.backend(one_in=2)
@every_sample
@pytest.mark.parametrize("carried", [False, True])
def test_the_loss_is_that_of_the_reference(tied, element_wise, carried):
    model = make(tied=tied, element_wise=element_wise, l2=1e-2)
    model.compile("sgd", jit_compile=False, run_eagerly=True)
    tokens = sequences()
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    seen = recorded_draws(model)
    given = {"token_ids": inputs, "targets": targets}
    if carried:
        given["reset"] = np.ones(2, "bool")
    y_pred = model(given, training=True)
    found = model.compute_loss(
        given, keras.ops.convert_to_tensor(targets), y_pred
    )
    # A custom loop computes the same loss.
    own = keras.ops.mean(y_pred["loss"]) + sum(model.losses)
    close(found, own)
    (drawn,) = seen
    outputs, logits = outputs_and_logits(model, inputs, targets, drawn)
    matrix = array(model.embedding.embeddings)
    vectors = reference.read_rows(matrix, array(drawn.input_rows))
    expected_outputs, *_ = model.recurrent[0](vectors.astype("float32"))
    close(outputs, expected_outputs)
    kernel = matrix if tied else array(model.head.kernel)
    expected = reference.cross_entropy(logits, targets)
    for table in (matrix, kernel):
        expected += 1e-2 * reference.divergence(table, *tables(model))
    assert float(array(found)) == pytest.approx(expected, rel=1e-5)
    # Evaluation uses the mean matrix and adds no divergence.
    y_pred = model({"token_ids": inputs, "targets": targets})
    found = model.compute_loss(inputs, targets, y_pred, training=False)
    expected = reference.cross_entropy(array(model(inputs)), targets)
    assert float(array(found)) == pytest.approx(expected, rel=1e-5)


def test_training_draws_anew_for_each_batch():
    model = make(rate=1.0)
    model.compile(keras.optimizers.SGD(0.0))
    inputs = {"token_ids": sequences(), "reset": np.ones(2, "bool")}
    losses = [model.train_on_batch(inputs, sequences())[0] for _ in range(4)]
    assert len(set(map(float, losses))) == 4


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "arguments",
    [
        {"memory": memories.KeyValuePredict(window=2), "tied": False},
        {"memory": memories.Attention(window=2), "element_wise": True},
        {"memory": memories.BidirectionalMemoryBlock(window=2)},
        {"mixture": PointerSentinel(window=3)},
        {"mixture": NeuralCache(3), "element_wise": True},
    ],
    ids=["predict", "attention", "bidirectional", "pointer", "cache"],
)
def test_trains_with_any_memory(arguments):
    model = make(l2=1e-3, **arguments)
    model.compile(keras.optimizers.Adam(0.01))
    batches = SentenceBatches(text(), 4, length_multiple=32)
    before = array(model.embedding.embeddings).copy()
    history = model.fit(batches, validation_data=batches, verbose=0).history
    assert np.isfinite([history["loss"], history["val_nats"]]).all()
    assert np.abs(array(model.embedding.embeddings) - before).max() > 1e-4
    tokens = np.array([[0, 4, 5, 2, 0]])
    fixed = model.with_fixed_matrices()
    close(fixed(tokens), model(tokens), 1e-4)


@pytest.mark.backend("torch")
def test_a_pointer_mixes_redrawn_targets():
    model = make(mixture=PointerSentinel(window=3))
    tokens = sequences()
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    seen = recorded_draws(model)
    prediction, _ = model.backbone.forward(
        inputs, targets=keras.ops.convert_to_tensor(targets), sampled=True
    )
    (drawn,) = seen
    outputs, logits = outputs_and_logits(model, inputs, targets, drawn)
    expected, *_ = model.mixture(
        outputs,
        keras.ops.convert_to_tensor(inputs),
        logits=keras.ops.convert_to_tensor(logits.astype("float32")),
    )
    close(prediction.logits, expected)
    np.testing.assert_allclose(
        np.exp(array(prediction.logits)).sum(-1), 1, rtol=1e-4
    )


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "loss, steps", [("auto", 1), (SentenceCrossEntropy(), 7)]
)
def test_the_divergence_is_added_once(loss, steps):
    model = make("linear_interpolation", l2=0.1)
    model.compile(keras.optimizers.SGD(0.0), loss)
    tokens = sequences(4, 7)
    found = model.fit(tokens, tokens, verbose=0).history
    (loss,), (nats,) = found["loss"], found["nats"]
    matrix = array(model.embedding.embeddings)
    expected = 0.1 * reference.divergence(matrix, *tables(model))
    assert loss - steps * nats == pytest.approx(expected, rel=1e-4)
    for _ in range(2):
        model.step(tokens, model.initial_state(4), training=True)
    close(sum(model.losses), expected)


def test_a_sample_is_of_one_call():
    model = make(l2=0.1)
    model.compile()
    tokens = sequences(4)
    expected = model.evaluate(tokens, tokens, verbose=0)
    model(tokens, training=True)
    found = model.test_on_batch(tokens, tokens)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)


# === Samples ===


def test_fixed_dropout_has_the_mean_matrices():
    model = make()
    close(model.with_fixed_dropout(1)(sequences()), model(sequences()))


def test_dropped_words_and_smoothed_ones():
    model = make(word_dropout=0.5)
    words = np.ones((40, 3), "int32")
    drawn = model.smoothing.draw(words, UNITS)
    vectors = array(model.embedding(words, training=True, drawn=drawn))
    dropped = np.all(vectors == 0, axis=-1)
    assert 0 < dropped[:, 0].mean() < 1
    np.testing.assert_array_equal(dropped[:, 1], dropped[:, 0])


@pytest.mark.backend("torch")
@pytest.mark.parametrize("scheme", ["linear_interpolation", "kneser_ney"])
def test_samples_average_probabilities(scheme):
    model = make(scheme, rate=0.9)
    batches = Batches(text(), 4, 7)
    seed_state = array(model.smoothing.seed_generator.state).copy()

    def result(samples, seed=0):
        return sampled_perplexity(model, batches, samples, seed, verbose=0)

    read = list(model.sampled_score_batches(batches, 3, seed=4))
    scores = np.array([scores for scores, _ in read], "float64")
    weights = read[0][1]
    found = result(3, seed=4)
    assert "the mean probability of 3 samples, seed 4" in found.protocol
    expected = -np.sum(np.log(np.exp(scores).mean(0)) * weights)
    assert found.loss == pytest.approx(expected, rel=1e-6)
    expected = -np.sum(scores.mean(0) * weights)
    beside = found.others["mean_log_probability"]
    assert beside.loss == pytest.approx(expected, rel=1e-6)
    assert beside.loss > found.loss
    assert result(3, seed=4).loss == found.loss
    assert result(3, seed=5).loss != found.loss
    first, second = scores[:2]
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(
        array(model.smoothing.seed_generator.state), seed_state
    )


@pytest.mark.backend(one_in=2)
@every_sample
def test_samples_draw_the_vectors_of_targets(tied, element_wise):
    # Samples use no dropout.
    model = make(tied=tied, element_wise=element_wise, dropout=0.5)
    tokens = sequences()
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    seen = recorded_draws(model)
    found, _ = model.backbone.score(
        inputs, keras.ops.convert_to_tensor(targets), sampled=True
    )
    (drawn,) = seen
    assert array(drawn.replaced).any()
    _, logits = outputs_and_logits(model, inputs, targets, drawn)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    close(found, expected)


# === Saving ===


@pytest.mark.backend(one_in=5)
@every_model
def test_saved_models_load_without_the_corpus(scheme, tied, reloaded):
    model = make(scheme, tied, dropout=0.1)
    loaded = reloaded(model)
    close(loaded(sequences()), model(sequences()), 1e-6)
    close(loaded.smoothing.weights, model.smoothing.weights, 0)
    assert loaded.smoothing.adapted
    copy = model.with_mixture(NeuralCache(4))
    close(copy.with_mixture(None)(sequences()), model(sequences()), 1e-6)


def test_a_head_may_share_the_matrix_of_the_embedding(reloaded):
    scheme = VariationalSmoothing("kneser_ney", 0.2)
    embedding = SmoothedEmbedding(smoothing=scheme)
    head = SmoothedProjection(embedding=embedding, use_bias=False)
    layer = keras.layers.LSTM(UNITS)
    model = LanguageModel(V, UNITS, [layer], embedding=embedding, head=head)
    model.smoothing.adapt(StreamStatistics.count(text(), V))
    assert model.tie_embeddings
    close(reloaded(model)(sequences()), model(sequences()), 1e-6)


# === Errors ===


def test_statistics_come_before_training():
    model = make(adapt=False)
    model.compile()
    assert not model.smoothing.adapted
    with pytest.raises(ValueError, match="call `model.smoothing.adapt"):
        model.fit(Batches(text(), 4, 6))


@pytest.mark.backend("torch")
def test_what_is_refused():
    plain = LanguageModel(V, UNITS, [keras.layers.LSTM(UNITS)])
    batches = Batches(text(), 4, 6)
    other = VariationalSmoothing("kneser_ney", 0.1, vocabulary_size=9)
    other = SmoothedEmbedding(smoothing=other)
    window = memories.KeyValuePredict(window=2)
    for call, message in (
        (lambda: make(embedding=other, adapt=False), "must have.*13.*size=9"),
        (lambda: make(head=TiedProjection()), "the embedding's smoothing has"),
        (
            lambda: make(memory=window),
            "outputs of size embedding_dim=6.*size 2",
        ),
        (lambda: SmoothedEmbedding(5, 3, None), "`smoothing` must.*=None"),
        (lambda: SmoothedEmbedding(5, 3, 0.1), "`smoothing` must.*=0.1"),
        (lambda: plain.with_prediction("mode"), "needs a smoothed model"),
        (lambda: make().with_prediction("median"), "`prediction` must be"),
        (lambda: sampled_perplexity(plain, batches), "smoothed model.*a L"),
        (lambda: sampled_perplexity(make(), batches, 0), "`samples` must be"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
