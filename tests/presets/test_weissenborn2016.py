import keras
import numpy as np

from memlm_keras import EntailmentClassifier
from memlm_keras import LanguageModel
from memlm_keras import SequenceAutoencoder
from memlm_keras import presets
from memlm_keras.cells import AssociativeGRUCell


def test_another_key_and_range():
    name = "weissenborn2016/dual_am_gru_shared"
    model = EntailmentClassifier.from_preset(
        name, 50, scale=0.1, key="unit", embedding_range=0.1
    )
    assert model.recurrent.cell.key == "unit"
    drawn = np.abs(keras.ops.convert_to_numpy(model.embedding.embeddings))
    assert 0.09 < drawn.max() <= 0.1
    assert "'key': 'unit'" not in str(presets.get(name))


def test_models_of_ones_own_begin_as_their_cells_need():
    def largest(model):
        return np.abs(keras.ops.convert_to_numpy(model.embedding.embeddings))

    for cell, limit in ((AssociativeGRUCell, 0.5), (keras.layers.GRU, 0.05)):
        for model in (
            EntailmentClassifier(50, 8, cell(4)),
            LanguageModel(50, 8, [cell(4)]),
            SequenceAutoencoder(50, 8, cell(4), cell(4), "memory"),
        ):
            assert 0.9 * limit < largest(model).max() <= limit
    cell = AssociativeGRUCell(4)
    ones = EntailmentClassifier(50, 8, cell, embeddings_initializer="ones")
    assert (largest(ones) == 1).all()
    copy = EntailmentClassifier.from_config(ones.get_config())
    assert (largest(copy) == 1).all()
