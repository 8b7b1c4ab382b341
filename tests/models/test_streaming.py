"""Tests reading with an explicit state: whole texts, pieces, single steps."""

import keras
import pytest
from language_models import V
from language_models import close
from language_models import every_model
from language_models import expected_of_batches
from language_models import make
from language_models import shared
from language_models import stepped
from language_models import tokens_of

from memlm_keras.data import Batches

pytestmark = pytest.mark.backend


@every_model
def test_the_whole_equals_its_steps(recurrent, memory):
    model = shared(recurrent, memory)
    tokens = tokens_of(2, 5)
    logits = model(tokens)
    assert tuple(logits.shape) == (2, 5, V)
    found, _ = stepped(model, tokens)
    close(found, logits)


@pytest.mark.backend("torch")
def test_recurrent_layers_above_the_memory():
    model = make(
        "lstm",
        "key_value_predict",
        recurrent_above=[keras.layers.GRU(3), keras.layers.LSTMCell(4)],
        dropout=0.5,
    )
    tokens = tokens_of(2, 5)
    logits = model(tokens)
    assert logits.shape == (2, 5, V)
    found, state = stepped(model, tokens)
    close(found, logits)
    hidden = model.embedding(tokens)
    hidden, *lower = model.recurrent[0](hidden)
    hidden, attention = model.memory(hidden, return_attention_scores=True)
    upper = []
    for layer in model.recurrent_above:
        hidden, *layer_state = layer(hidden)
        upper += layer_state
    close(model.head(hidden), logits)
    names = [name for name in state if name.startswith("recurrent_")]
    for name, value in zip(names, [*lower, *upper], strict=True):
        close(state[name], value)
    close(model.attention(tokens), attention)


def test_batches_are_scored_with_the_state_carried():
    model = make()
    tokens = tokens_of(1, 29)[0]
    batches = Batches(tokens, 3, 4, document_starts=[0, 5, 17, 18])
    scores, weights = model.score_batches(batches)
    attention = list(model.attention_batches(batches))
    expected = expected_of_batches(model, batches, attends=True)
    assert weights.sum() == len(tokens)
    close(scores * weights, expected["scores"] * weights)
    for (found, _), weights in zip(attention, expected["attention"]):
        close(found, weights)
