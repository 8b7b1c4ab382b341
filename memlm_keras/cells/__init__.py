"""Recurrent cells, and the layer that runs them over sequences."""

from memlm_keras.cells.associative_gru import AssociativeGRUCell
from memlm_keras.cells.associative_gru import DualAssociativeGRUCell
from memlm_keras.cells.associative_memory import AssociativeMemoryCell
from memlm_keras.cells.associative_memory import DualAssociativeMemoryCell
from memlm_keras.cells.hornn import FOFEHORNNCell
from memlm_keras.cells.hornn import GatedHORNNCell
from memlm_keras.cells.lstm_network import LSTMNetworkCell
from memlm_keras.cells.projected_rnn import ProjectedRNN
from memlm_keras.cells.recurrent_dropout import RecurrentDropoutGRUCell
from memlm_keras.cells.recurrent_dropout import RecurrentDropoutLSTMCell
from memlm_keras.cells.zoneout import ZoneoutLSTMCell

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
