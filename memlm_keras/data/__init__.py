"""Text: vocabularies, corpora and batches."""

import importlib

from memlm_keras.data import recall
from memlm_keras.data.batches import Batches
from memlm_keras.data.cloze import ClozeQuestion
from memlm_keras.data.cloze import cbt_questions
from memlm_keras.data.cloze import completion_questions
from memlm_keras.data.cloze import load_cbt
from memlm_keras.data.cloze import read_cloze_questions
from memlm_keras.data.corpora import load
from memlm_keras.data.corpus import Corpus
from memlm_keras.data.corpus import load_documents
from memlm_keras.data.corpus import load_text
from memlm_keras.data.novels import prepare_novels
from memlm_keras.data.pair_corpora import load_pairs
from memlm_keras.data.pair_corpora import read_sick
from memlm_keras.data.pair_corpora import read_snli
from memlm_keras.data.pairs import PairBatches
from memlm_keras.data.pairs import PairCorpus
from memlm_keras.data.pairs import PairSplit
from memlm_keras.data.pairs import SentencePair
from memlm_keras.data.pairs import encode_pairs
from memlm_keras.data.sentences import AutoencodingBatches
from memlm_keras.data.sentences import SentenceBatches
from memlm_keras.data.sentences import sentence_starts
from memlm_keras.data.subwords import SubwordVocabulary
from memlm_keras.data.text_store import Split
from memlm_keras.data.tokenizer import Tokenizer
from memlm_keras.data.treebanks import load_conllu
from memlm_keras.data.vocabulary import Vocabulary

__all__ = [
    "AutoencodingBatches",
    "Batches",
    "ClozeQuestion",
    "Corpus",
    "PairBatches",
    "PairCorpus",
    "PairSplit",
    "SentenceBatches",
    "SentencePair",
    "Split",
    "SubwordVocabulary",
    "Tokenizer",
    "Vocabulary",
    "cbt_questions",
    "completion_questions",
    "encode_pairs",
    "load",
    "load_documents",
    "load_cbt",
    "load_conllu",
    "load_pairs",
    "load_text",
    "prepare_novels",
    "read_cloze_questions",
    "read_sick",
    "read_snli",
    "recall",
    "sentence_starts",
]


def __getattr__(name):
    # Loaded where first used: few programs need them.
    if name in ("embedded", "embedded_pairs"):
        return importlib.import_module(f"memlm_keras.data.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
