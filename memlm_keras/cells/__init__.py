"""Recurrent cells, and the layer that runs them over sequences."""

from memlm_keras.cells.cheng2016 import LSTMNetworkCell
from memlm_keras.cells.projected_rnn import ProjectedRNN
from memlm_keras.cells.recurrent_noise import RecurrentDropoutGRUCell
from memlm_keras.cells.recurrent_noise import RecurrentDropoutLSTMCell
from memlm_keras.cells.recurrent_noise import ZoneoutLSTMCell
from memlm_keras.cells.soltani2016 import FOFEHORNNCell
from memlm_keras.cells.soltani2016 import GatedHORNNCell
from memlm_keras.cells.weissenborn2016 import AssociativeGRUCell
from memlm_keras.cells.weissenborn2016 import AssociativeMemoryCell
from memlm_keras.cells.weissenborn2016 import DualAssociativeGRUCell
from memlm_keras.cells.weissenborn2016 import DualAssociativeMemoryCell

__all__ = [
    "AssociativeGRUCell",
    "AssociativeMemoryCell",
    "DualAssociativeGRUCell",
    "DualAssociativeMemoryCell",
    "FOFEHORNNCell",
    "GatedHORNNCell",
    "LSTMNetworkCell",
    "ProjectedRNN",
    "RecurrentDropoutGRUCell",
    "RecurrentDropoutLSTMCell",
    "ZoneoutLSTMCell",
]
