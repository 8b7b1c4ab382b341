"""The models of the cases, as users of this package would write them."""

import functools
import os

import keras
import numpy as np
from keras import layers
from keras import ops

import memlm_keras as memlm
from benchmarks.peers.keras_training import Contender
from benchmarks.peers.keras_training import LayerAlone
from benchmarks.peers.keras_training import Trained
from benchmarks.peers.keras_training import draw
from memlm_keras.cells import fused


class Projected(memlm.memory.Memory):
    """Computes tanh(W p) of the last part p of an output, without a memory.

    The layer gives an LSTM the hidden and output sizes of models with a memory.
    """

    def __init__(self, parts=1, **kwargs):
        super().__init__(**kwargs)
        self.parts = parts

    def build(self, outputs_shape):
        units = outputs_shape[-1] // self.parts
        self.kernel = self.add_weight(shape=(units, units))

    def initial_state(self, batch_size):
        return {}

    def read(self, outputs, state, token_ids=None, mask=None):
        last = ops.split(outputs, self.parts, axis=-1)[-1]
        outputs = ops.tanh(ops.matmul(last, self.kernel))
        return outputs, {}, outputs[..., :0]


def _memories(case):
    memory = memlm.memory
    return {
        "plain": None,
        "layers_of_keras": None,
        "cuda_graphs": None,
        "ten_steps": None,
        "lstm": Projected(),
        "lstm_2_parts": Projected(2),
        "lstm_3_parts": Projected(3),
        "lstm_4_parts": Projected(4),
        "attention": memory.Attention(case.window),
        "key_value": memory.KeyValue(case.window),
        "key_value_predict": memory.KeyValuePredict(case.window),
        "ngram_4": memory.NGram(4),
        "rm_tm_gated": memory.MemoryBlock(window=15, temporal=True),
        "memory_network": memory.MemoryNetwork(window=15),
        "attentive_single": memory.Attentive("single"),
        "attentive_combined": memory.Attentive("combined"),
        "delta_rule": memory.DeltaRule(4, key_dim=case.units // 4),
    }


def _layers(case):
    cells = memlm.cells
    units, copies = case.units, case.copies
    projected = functools.partial(cells.ProjectedRNN, return_sequences=True)
    return {
        "gru": lambda: AsInModels(layers.GRU(units)),
        "gru_of_keras": lambda: layers.GRU(units, return_sequences=True),
        "lstm_layer": lambda: AsInModels(layers.LSTM(units)),
        "lstm_145": lambda: AsInModels(layers.LSTM(145)),
        "delta_rule": lambda: memlm.memory.DeltaRule(4, key_dim=units // 4),
        "lstm_network": lambda: projected(
            cells.LSTMNetworkCell(units, case.window), unroll=True
        ),
        "word_by_word": lambda: WordByWord(case),
        "fofe_hornn": lambda: projected(cells.FOFEHORNNCell(units)),
        "gated_hornn": lambda: projected(cells.GatedHORNNCell(units)),
        "associative_gru": lambda: projected(
            cells.AssociativeGRUCell(units, num_copies=copies)
        ),
        "dual_associative_gru": lambda: projected(
            cells.DualAssociativeGRUCell(units, num_copies=copies)
        ),
    }


class WordByWord(layers.Layer):
    """Projects inputs twice; the second result attends to the first."""

    def __init__(self, case):
        super().__init__()
        self.units = case.units
        self.lengths = case.lengths()[:, None]
        self.attention = memlm.memory.WordByWordAttention()

    def build(self, inputs_shape):
        shape = (inputs_shape[-1], 2 * self.units)
        self.kernel = self.add_weight(shape=shape)

    def call(self, inputs, training=False):
        projected = ops.matmul(inputs, self.kernel)
        premise, outputs = ops.split(projected, 2, axis=-1)
        places = np.arange(inputs.shape[1])
        is_word = ops.convert_to_tensor(places < self.lengths)
        is_last = ops.convert_to_tensor(places == self.lengths - 1)
        last = ops.sum(outputs * ops.cast(is_last, "float32")[..., None], 1)
        return self.attention(outputs, last, premise, is_word, is_word)[0]


class AsInModels(layers.Layer):
    """Runs a recurrent layer in the way a `LanguageModel` runs the layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        layer.return_sequences = layer.return_state = True

    def build(self, inputs_shape):
        self.layer.build(inputs_shape)

    def call(self, inputs, training=False):
        return fused.run_layer(self.layer, inputs, training=training)[0]


class Batches(memlm.data.Batches):
    """Batches of this package with the inputs and targets of the case."""

    def __init__(self, inputs, targets):
        _, rows, time = inputs.shape
        super().__init__(_in_rows(targets).reshape(-1), rows, time)
        self._inputs = _in_rows(inputs)

    def _batch(self, index):
        inputs, targets, weights = super()._batch(index)
        start = index * self.segment_length
        stop = start + self.segment_length
        inputs = {**inputs, "token_ids": self._inputs[:, start:stop]}
        return inputs, targets, weights


def _in_rows(tokens):
    """Reshapes `(steps, rows, time)` to `(rows, steps * time)`."""
    return tokens.transpose(1, 0, 2).reshape(tokens.shape[1], -1)


class Streamed(Contender):
    """A model that reads the rows of the case, one step after another."""

    def __init__(self, case, model):
        self.case = case
        self.model = model
        draw(case, model)

    def read(self, number):
        state = self.model.initial_state(self.case.batch)
        for inputs, targets in zip(*self.case.batches(number)):
            logits, state = self.model.step(inputs, state)
            yield logits, targets

    def losses(self, steps):
        found = [
            float(ops.mean(memlm.heads.token_losses(logits, targets)))
            for logits, targets in self.read(steps)
        ]
        return sum(found) / steps

    def steps(self, number):
        *_, (logits, _) = self.read(number)
        float(logits[0, 0, 0])


def _smoothing(case, row):
    """Makes a model of Kong et al., and a function that makes batches."""
    name = f"kong2019/{row}_512"
    model = memlm.LanguageModel.from_preset(name, case.vocabulary, scale=0.4)
    tokens = np.concatenate([part.reshape(-1) for part in case.batches(20)])
    statistics = memlm.smoothing.StreamStatistics.count(tokens, case.vocabulary)
    if model.smoothing is not None:
        model.smoothing.adapt(statistics)
    noise = memlm.presets.get(name)["noise"]
    if not noise:
        return model, Batches
    return model, lambda *arrays: memlm.smoothing.NoisedBatches(
        Batches(*arrays), statistics=statistics, seed=0, **noise
    )


def language_model(case, variant):
    """Makes the model of a case, with its weights."""
    model = memlm.LanguageModel(
        vocabulary_size=case.vocabulary,
        embedding_dim=case.embedding,
        recurrent=[layers.LSTM(case.units) for _ in range(case.layers)],
        memory=_memories(case)[variant],
        tie_embeddings=case.tied,
    )
    draw(case, model)
    return model


def make(case, variant, precision):
    keras.config.set_dtype_policy(precision)
    if case.kind == "layer":
        return LayerAlone(case, _layers(case)[variant]())
    keras.utils.set_random_seed(0)
    if variant == "cuda_graphs":
        os.environ["MEMLM_CUDA_GRAPHS"] = "1"
    if variant == "layers_of_keras":
        fused.implementation = lambda *arguments: None
    batches = Batches
    if case.kind == "smoothing":
        model, batches = _smoothing(case, variant)
    else:
        model = language_model(case, variant)
    if case.kind == "step":
        return Streamed(case, model)
    loss = memlm.training.TokenCrossEntropy()
    steps = 10 if variant == "ten_steps" else 1
    return Trained(case, model, loss, batches, steps_per_execution=steps)
