"""A language model as users of Keras would write it without this package."""

import keras
from keras import layers

from benchmarks.peers.keras_training import Trained


class Bias(layers.Layer):
    """Adds the bias of a tied output layer."""

    def build(self, shape):
        self.bias = self.add_weight(shape=(shape[-1],))

    def call(self, inputs):
        return inputs + self.bias


class Batches(keras.utils.PyDataset):
    def __init__(self, inputs, targets):
        super().__init__()
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def model_of(case):
    """Makes a functional model that starts each batch from a zero state,
    because `stateful` layers cannot be trained on PyTorch."""
    import keras_nlp

    inputs = keras.Input((case.time,), batch_size=case.batch, dtype="int32")
    if case.tied:
        embedding = keras_nlp.layers.ReversibleEmbedding(
            case.vocabulary, case.embedding
        )
    else:
        embedding = layers.Embedding(case.vocabulary, case.embedding)
    outputs = embedding(inputs)
    for _ in range(case.layers):
        outputs = layers.LSTM(case.units, return_sequences=True)(outputs)
    if case.tied:
        logits = Bias()(embedding(outputs, reverse=True))
    else:
        logits = layers.Dense(case.vocabulary)(outputs)
    return keras.Model(inputs, logits)


def make(case, variant, precision):
    model = model_of(case)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Trained(case, model, loss, Batches)
