"""Compares losses computed in blocks with losses from all logits."""

import keras
import numpy as np
import pytest
from keras import ops
from layers import assert_close
from layers import dtype_of

from memlm_keras import LanguageModel
from memlm_keras.data import SentenceBatches
from memlm_keras.embeddings import Embedding
from memlm_keras.heads import OutputProjection
from memlm_keras.heads import TiedProjection
from memlm_keras.heads import projection
from memlm_keras.heads import token_losses
from references.daniluk2017 import log_softmax
from references.finite_differences import assert_directional_derivatives
from references.tracing import operations

pytestmark = pytest.mark.backend

V, UNITS, POSITIONS = 50, 6, 17


@pytest.fixture
def arrays(random):
    return [
        random.normal(size=(POSITIONS, UNITS)).astype("float32"),
        random.normal(size=(UNITS, V)).astype("float32"),
        random.normal(size=V).astype("float32"),
    ]


@pytest.fixture
def targets(random):
    # Some targets repeat, since there are only 7 words.
    return random.integers(7, size=POSITIONS).astype("int32")


@pytest.fixture
def weights(random):
    weights = random.uniform(0.5, 2, size=POSITIONS).astype("float32")
    weights[[0, 3, 4, 5, 11]] = 0
    return weights


def small_blocks(monkeypatch, size):
    """Sets a small block size, so that small batches have several blocks."""
    for name, value in (
        ("BLOCK", size),
        ("LEAST_ROWS", 1),
        ("LEAST_BLOCKS", 1),
        ("_USUAL_POSITIONS", 100),
    ):
        monkeypatch.setattr(projection, name, value)


def counted(weights, values):
    return np.where(weights == 0, 0, values)


def plain(inputs, kernel, bias, targets):
    return token_losses(ops.matmul(inputs, kernel) + bias, targets)


# Blocks do not divide the positions evenly, or are larger than all of them.
@pytest.mark.parametrize(
    "rows, words_first, training",
    [(4, False, True), (4, True, True), (40, False, True), (3, True, False)],
)
def test_losses_and_gradients(
    rows,
    words_first,
    training,
    arrays,
    targets,
    weights,
    gradients,
    monkeypatch,
):
    small_blocks(monkeypatch, rows * V)

    def in_blocks(inputs, kernel, bias):
        return projection.block_losses(
            inputs,
            ops.transpose(kernel) if words_first else kernel,
            bias,
            ops.convert_to_tensor(targets),
            ops.convert_to_tensor(weights),
            training=training,
            words_first=words_first,
        )

    tensors = [ops.convert_to_tensor(array) for array in arrays]
    expected = ops.convert_to_numpy(plain(*tensors, targets))
    assert_close(
        in_blocks(*tensors), counted(weights, expected), rtol=1e-5, atol=1e-6
    )
    # The loss weights positions by the given weights, and then by others.
    for by in (weights / weights.sum(), np.where(weights == 0, 0, 3.0)):
        by = ops.convert_to_tensor(by.astype("float32"))
        found = gradients(lambda t, by=by: ops.sum(by * in_blocks(*t)), arrays)
        expected = gradients(
            lambda t, by=by: ops.sum(by * plain(*t, targets)), arrays
        )
        assert_close(found, expected)


def test_gradients_are_taken_once(arrays, targets, weights, gradients):
    """Gradients are computed again only if the loss uses other weights."""
    original, taken = projection._run, []

    def counting(*arguments):
        taken.append(arguments[5])
        return original(*arguments)

    def loss(by):
        def of(tensors):
            found = projection.block_losses(
                *tensors,
                ops.convert_to_tensor(targets),
                ops.convert_to_tensor(weights),
                training=True,
            )
            return ops.sum(ops.convert_to_tensor(by) * found)

        return of

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "_run", counting)
        gradients(loss(weights * np.float32(0.3)), arrays)
        once = list(taken)
        gradients(loss(np.ones_like(weights)), arrays)
    if keras.backend.backend() == "jax":
        # JAX traces both branches of `cond`, and runs one.
        assert taken == [True] * 4
    else:
        assert once == [True]
        assert taken == [True] * 3
    same = [
        bool(projection._ratio(by * ops.array(factors), ops.array(weights))[1])
        for by, factors in ((0.3, weights), (1.0, np.ones_like(weights)))
    ]
    assert same == [True, False]


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize("head", [OutputProjection(), TiedProjection()])
def test_logits_are_never_held_at_once(head, pays, monkeypatch):
    size, positions = 500, 2 * 64
    small_blocks(monkeypatch, size * (8 if pays else 1000))
    head = type(head)()
    lm = LanguageModel(size, UNITS, [keras.layers.LSTM(UNITS)], head=head)
    tokens = np.arange(positions, dtype="int32").reshape(2, 64)

    def loss(tokens):
        found, _ = lm.backbone.forward(
            tokens,
            targets=tokens,
            training=True,
            sample_weight=ops.ones_like(tokens, dtype="float32"),
        )
        assert (found.logits is None) and found.loss.shape == (2, 64)
        if keras.backend.backend() == "torch":
            ops.sum(found.loss).backward()
        return found.loss

    def scores(tokens):
        return lm.backbone.score(tokens, tokens)[0]

    for function in (loss, scores):
        held = max(size for _, size in operations(function, tokens))
        assert (held < size * positions // 2) == pays


class Scaled(keras.layers.ReversibleEmbedding):
    def call(self, inputs, reverse=False):
        outputs = super().call(inputs, reverse=reverse)
        return 3 * outputs if reverse else outputs


class Doubled(OutputProjection):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs)


@pytest.mark.parametrize(
    "head",
    [
        lambda: TiedProjection(Scaled(V, UNITS)),
        lambda: Doubled(V),
        lambda: OutputProjection(V, activation="tanh"),
        lambda: OutputProjection(V, dtype="bfloat16"),
    ],
)
def test_heads_that_do_more_are_called(head, arrays, targets, monkeypatch):
    small_blocks(monkeypatch, 5 * V)
    head, inputs = head(), arrays[0]
    expected = token_losses(head(inputs), targets)
    found = head.token_losses(ops.array(inputs), ops.array(targets))
    assert_close(found, expected, rtol=1e-5, atol=0)


def test_weights_of_any_dtype():
    lm = made("own")
    lm.compile("sgd")
    tokens = TOKENS[:80].reshape(4, 20)
    weights = np.ones((4, 20), "int32")
    weights[0] = 0
    history = lm.fit(
        tokens[:, :-1], tokens[:, 1:], sample_weight=weights[:, 1:], verbose=0
    )
    assert np.isfinite(history.history["loss"][0])


# === Models ===

TOKENS = np.random.default_rng(0).integers(1, V, size=120).astype("int32")
TOKENS[[3, 9, 20, 33, 40, 44, 61, 77, 90, 104, 119]] = 0
HEADS = {
    "own": lambda: OutputProjection(),
    "tied": lambda: TiedProjection(),
    "without_bias": lambda: TiedProjection(use_bias=False),
}


def made(head, dtype=None):
    keras.utils.set_random_seed(3)
    return LanguageModel(
        V,
        8,
        [keras.layers.LSTM(8)],
        head=HEADS[head](),
        dtype=dtype,
        initializer=keras.initializers.RandomUniform(-0.3, 0.3, seed=1),
    )


def batches():
    return SentenceBatches(TOKENS, 4, longest=8, equal_lengths=False)


def outcome(model, loss="auto", **arguments):
    """Trains a model; returns a list of the weights and of scores of a text,
    and the history."""
    optimizer = keras.optimizers.SGD(0.5, global_clipnorm=5.0)
    model.compile(optimizer, loss=loss, **arguments)
    history = model.fit(batches(), validation_data=batches(), verbose=0).history
    found = [variable.numpy() for variable in model.trainable_variables]
    return [*found, model.score(TOKENS[None, :17])], history


@pytest.mark.backend(one_in=3)
@pytest.mark.parametrize(
    "head, jit_compile",
    # TensorFlow trains with XLA ("auto") and without.
    [("own", "auto"), ("tied", False), ("without_bias", False)],
)
def test_training_and_scoring_by_either_way(head, jit_compile, monkeypatch):
    model = made(head)
    assert hasattr(model.head, "bias") == (head != "without_bias")
    plain, history = outcome(model, jit_compile=jit_compile)
    ran = []
    original = projection.block_losses
    small_blocks(monkeypatch, 5 * V)
    monkeypatch.setattr(
        projection,
        "block_losses",
        lambda *a, **k: ran.append(k["training"]) or original(*a, **k),
    )
    found, of_blocks = outcome(made(head), jit_compile=jit_compile)
    assert {bool(training) for training in ran} == {True, False}
    assert_close((found, of_blocks), (plain, history))


def test_mixed_bfloat16_learns_as_float32(monkeypatch):
    small_blocks(monkeypatch, 5 * V)
    _, history = outcome(made("tied"))
    _, of_bfloat16 = outcome(made("tied", dtype="mixed_bfloat16"))
    np.testing.assert_allclose(
        of_bfloat16["val_perplexity"], history["val_perplexity"], rtol=0.01
    )


def test_tied_product_is_of_the_dtype_that_is_computed_in():
    embedding = Embedding(V, 8, dtype="mixed_bfloat16")
    head = TiedProjection(embedding, dtype="mixed_bfloat16")
    outputs = np.random.default_rng(0).normal(size=(2, 3, 8))
    logits = head(outputs)
    assert dtype_of(logits) == "bfloat16"
    rounded = ops.cast(ops.cast(embedding.embeddings, "bfloat16"), "float32")
    expected = ops.matmul(
        ops.cast(ops.cast(outputs, "bfloat16"), "float32"),
        ops.transpose(rounded),
    )
    assert_close(ops.cast(logits, "float32"), expected, rtol=0.01, atol=1e-3)


def test_weights_among_the_inputs_of_a_call(monkeypatch):
    lm = made("tied")
    tokens, targets = TOKENS[None, :20], TOKENS[None, 1:21]
    inputs = {"token_ids": tokens, "targets": targets}
    everything = lm(inputs)
    small_blocks(monkeypatch, 5 * V)
    weights = (targets != 0).astype("float32")
    found = lm({**inputs, "sample_weight": weights})
    assert set(found) == {"loss", "log_probability"}
    for name, values in found.items():
        assert_close(
            weights * ops.convert_to_numpy(values),
            weights * ops.convert_to_numpy(everything[name]),
        )
    with pytest.raises(ValueError, match='with "targets", "sample_weight"'):
        lm({"token_ids": tokens, "sample_weight": weights})


def test_losses_of_bfloat16_logits_are_computed_in_float32(random):
    logits = ops.cast(random.normal(0, 4, (3, 5, 7)), "bfloat16")
    targets = random.integers(7, size=(3, 5))
    losses = token_losses(logits, ops.convert_to_tensor(targets))
    assert dtype_of(losses) == "float32"
    exact = ops.convert_to_numpy(ops.cast(logits, "float32"))
    logs = log_softmax(exact.astype("float64"))
    expected = -np.take_along_axis(logs, targets[..., None], -1)[..., 0]
    assert_close(losses, expected, rtol=1e-5, atol=0)


# === Losses of a sample of the words ===


def sampled_of(arrays, targets, number, seed):
    """Computes losses in NumPy with the words that `seed` samples."""
    inputs, matrix, bias = (np.array(array, "float64") for array in arrays)
    first = number // 2
    drawn = keras.random.randint(
        (number - first,), first, V, seed=keras.random.SeedGenerator(seed)
    )
    drawn = ops.convert_to_numpy(drawn)
    exponentials = np.exp(inputs @ matrix + bias)
    losses = []
    for row, target in zip(exponentials, targets):
        others = sum(row[word] for word in range(first) if word != target)
        tail = sum(row[word] for word in drawn if word != target)
        share = (V - first) / (number - first)
        total = row[target] + others + share * tail
        losses.append(np.log(total / row[target]))
    return np.array(losses)


@pytest.mark.parametrize("words_first", [True, False])
def test_losses_of_a_sample(words_first, arrays, targets):
    head = OutputProjection(V, num_sampled=9)
    if words_first:
        head = TiedProjection(Embedding(V, UNITS), num_sampled=9)
    head(arrays[0])
    matrix = head.embedding.embeddings if words_first else head.kernel
    matrix.assign(arrays[1].T if words_first else arrays[1])
    head.bias.assign(arrays[2])
    head.seed_generator.state.assign(keras.random.SeedGenerator(5).state)
    targets[:2] = V - 1, 11
    inputs, ids = ops.array(arrays[0]), ops.array(targets)
    found = head.token_losses(inputs, ids, training=True)
    assert_close(found, sampled_of(arrays, targets, 9, 5))
    # Without gradients, losses use all words.
    found = head.token_losses(inputs, ids)
    assert_close(found, plain(*map(ops.array, arrays), targets))


def test_gradients_of_a_sample(arrays, targets, weights, gradients):
    targets[:2] = V - 1, 11

    def weighted(tensors):
        inputs, matrix, bias = tensors
        losses = projection.sampled_losses(
            inputs, ops.transpose(matrix), bias, ops.array(targets), 9, 5
        )
        return ops.sum(ops.array(weights) * losses)

    def reference_loss(values):
        return np.sum(weights * sampled_of(values, targets, 9, 5))

    assert_directional_derivatives(gradients, weighted, reference_loss, arrays)


@pytest.mark.backend(one_in=2)
@pytest.mark.parametrize("head", [OutputProjection, TiedProjection])
def test_models_learn_from_a_sample(head, xla, monkeypatch):
    monkeypatch.setitem(HEADS, "sampled", lambda: head(num_sampled=10))
    lm = made("sampled")
    lm.compile(keras.optimizers.Adam(0.05))
    history = lm.fit(
        batches(), validation_data=batches(), epochs=12, verbose=0
    ).history
    assert history["val_nats"][-1] < history["val_nats"][0] - 0.3
    # Training reports estimated losses, which are close to the exact ones.
    assert abs(history["nats"][-1] - history["val_nats"][-1]) < 0.5
    again = LanguageModel.from_config(lm.get_config())
    assert again.head.num_sampled == 10


@pytest.mark.backend("torch")
def test_a_sample_of_all_words_is_not_drawn(monkeypatch):
    head = TiedProjection(num_sampled=V)
    monkeypatch.setitem(HEADS, "sampled", lambda: head)
    found, history = outcome(made("sampled"))
    plain, expected = outcome(made("tied"))
    assert_close((found, history), (plain, expected))
    with pytest.raises(ValueError, match="num_sampled"):
        TiedProjection(num_sampled=0)
