"""This package, as its users write the same."""

import keras
from keras import layers
from keras import ops

import memlm_keras as memlm
from benchmarks.peers.keras_training import LayerAlone
from benchmarks.peers.keras_training import Trained
from memlm_keras.cells import fused


class Projected(memlm.memory.Memory):
    """h = tanh(W p_t) of the last of several parts: a memory's cost left out.

    So an LSTM has the hidden and the output sizes of the model with a memory.

    Args:
        parts: integer, how many parts the memory cuts its inputs into.
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
        "lstm": Projected(),
        "lstm_2_parts": Projected(2),
        "lstm_3_parts": Projected(3),
        "attention": memory.Attention(case.window),
        "key_value": memory.KeyValue(case.window),
        "key_value_predict": memory.KeyValuePredict(case.window),
        "ngram_4": memory.NGram(4),
        "rm_tm_gated": memory.MemoryBlock(window=15, temporal=True),
        "attentive_single": memory.Attentive("single"),
        "attentive_combined": memory.Attentive("combined"),
    }


def _layers(case):
    cells = memlm.cells
    units, copies = case.units, case.copies
    return {
        "gru": lambda: layers.GRU(units, return_sequences=True),
        "associative_gru": lambda: memlm.cells.ProjectedRNN(
            cells.AssociativeGRUCell(units, num_copies=copies),
            return_sequences=True,
        ),
        "dual_associative_gru": lambda: memlm.cells.ProjectedRNN(
            cells.DualAssociativeGRUCell(units, num_copies=copies),
            return_sequences=True,
        ),
    }


class Batches(memlm.data.Batches):
    """This package's own batches, whose first inputs are the case's, too."""

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
    """`(steps, rows, time)` as `(rows, steps * time)`."""
    return tokens.transpose(1, 0, 2).reshape(tokens.shape[1], -1)


def make(case, variant, precision):
    keras.config.set_dtype_policy(precision)
    if case.kind == "layer":
        return LayerAlone(case, _layers(case)[variant]())
    keras.utils.set_random_seed(0)
    if variant == "layers_of_keras":
        fused.implementation = lambda *arguments: None
    memory = _memories(case)[variant]
    model = memlm.LanguageModel(
        vocabulary_size=case.vocabulary,
        embedding_dim=case.embedding,
        recurrent=[layers.LSTM(case.units) for _ in range(case.layers)],
        memory=memory,
        tie_embeddings=case.tied,
    )
    loss = memlm.training.TokenCrossEntropy()
    return Trained(case, model, loss, Batches, load=memory is None)
