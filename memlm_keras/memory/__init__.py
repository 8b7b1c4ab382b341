"""Memory layers, which read earlier outputs or words.

Each paper has one file; `induction.py` and `delta_rule.py` reproduce no paper.
"""

from memlm_keras.masking import SlidingWindow
from memlm_keras.memory.base import Memory
from memlm_keras.memory.daniluk2017 import Attention
from memlm_keras.memory.daniluk2017 import KeyValue
from memlm_keras.memory.daniluk2017 import KeyValuePredict
from memlm_keras.memory.daniluk2017 import NGram
from memlm_keras.memory.daniluk2017 import Projection
from memlm_keras.memory.delta_rule import DeltaRule
from memlm_keras.memory.induction import InductionAttention
from memlm_keras.memory.rocktaschel2016 import WordByWordAttention
from memlm_keras.memory.salton2017 import Attentive
from memlm_keras.memory.sukhbaatar2015 import MemoryNetwork
from memlm_keras.memory.tran2016 import BidirectionalMemoryBlock
from memlm_keras.memory.tran2016 import MemoryBlock

__all__ = [
    "Attention",
    "Attentive",
    "BidirectionalMemoryBlock",
    "DeltaRule",
    "InductionAttention",
    "KeyValue",
    "KeyValuePredict",
    "Memory",
    "MemoryBlock",
    "MemoryNetwork",
    "NGram",
    "Projection",
    "SlidingWindow",
    "WordByWordAttention",
]
