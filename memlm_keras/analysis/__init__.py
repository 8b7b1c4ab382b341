"""Analyses of models' attention and memories, as numbers and pictures."""

from memlm_keras.analysis.associations import Associations
from memlm_keras.analysis.associations import associations
from memlm_keras.analysis.associations import plot_associations
from memlm_keras.analysis.associations import write_associations
from memlm_keras.analysis.attention import mean_attention
from memlm_keras.analysis.attention import plot_attention
from memlm_keras.analysis.attention import plot_mean_attention
from memlm_keras.analysis.sentence import SentencePredictions
from memlm_keras.analysis.sentence import attention_by_word
from memlm_keras.analysis.sentence import plot_sentence_attention
from memlm_keras.analysis.sentence import plot_sentence_predictions
from memlm_keras.analysis.sentence import sentence_predictions
from memlm_keras.analysis.sentence import write_sentence_page
from memlm_keras.analysis.sentence import write_sentence_predictions
from memlm_keras.analysis.tran2016 import AttentionColumns
from memlm_keras.analysis.tran2016 import DependencyAttention
from memlm_keras.analysis.tran2016 import DistantPairs
from memlm_keras.analysis.tran2016 import attention_columns
from memlm_keras.analysis.tran2016 import dependency_attention
from memlm_keras.analysis.tran2016 import distant_pairs
from memlm_keras.analysis.tran2016 import plot_attention_columns
from memlm_keras.analysis.tran2016 import plot_dependency_attention
from memlm_keras.analysis.tran2016 import plot_distant_pairs
from memlm_keras.analysis.tran2016 import write_attention_columns
from memlm_keras.analysis.tran2016 import write_counts_by_distance
from memlm_keras.analysis.tran2016 import write_dependency_attention
from memlm_keras.analysis.tran2016 import write_distant_pairs
from memlm_keras.data.treebanks import ParsedSentence
from memlm_keras.data.treebanks import read_conllu

__all__ = [
    "Associations",
    "AttentionColumns",
    "DependencyAttention",
    "DistantPairs",
    "ParsedSentence",
    "SentencePredictions",
    "associations",
    "attention_by_word",
    "attention_columns",
    "dependency_attention",
    "distant_pairs",
    "mean_attention",
    "plot_associations",
    "plot_attention",
    "plot_attention_columns",
    "plot_dependency_attention",
    "plot_distant_pairs",
    "plot_mean_attention",
    "plot_sentence_attention",
    "plot_sentence_predictions",
    "read_conllu",
    "sentence_predictions",
    "write_associations",
    "write_attention_columns",
    "write_counts_by_distance",
    "write_dependency_attention",
    "write_distant_pairs",
    "write_sentence_page",
    "write_sentence_predictions",
]
