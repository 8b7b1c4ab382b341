"""Text: vocabularies, corpora and batches."""

import importlib

from memlm_keras.data.cloze import ClozeQuestion
from memlm_keras.data.cloze import cbt_questions
from memlm_keras.data.cloze import load_cbt
from memlm_keras.data.cloze import read_cloze_questions
from memlm_keras.data.corpora import load
from memlm_keras.data.corpus import Corpus
from memlm_keras.data.corpus import load_documents
from memlm_keras.data.corpus import load_text
from memlm_keras.data.pair_corpora import load_pairs
from memlm_keras.data.pair_corpora import read_sick
from memlm_keras.data.pair_corpora import read_snli
from memlm_keras.data.pairs import PairCorpus
from memlm_keras.data.pairs import PairSplit
from memlm_keras.data.pairs import SentencePair
from memlm_keras.data.pairs import encode_pairs
from memlm_keras.data.sentence_completion import completion_questions
from memlm_keras.data.sentence_completion import prepare_novels
from memlm_keras.data.subwords import SubwordVocabulary
from memlm_keras.data.text_store import Split
from memlm_keras.data.treebanks import load_conllu
from memlm_keras.data.vocabulary import Tokenizer
from memlm_keras.data.vocabulary import Vocabulary

# These modules import Keras, which takes seconds. So each module is imported
# only when one of its names is first used.
_WITH_KERAS = {
    "AutoencodingBatches": "batches",
    "Batches": "batches",
    "PairBatches": "pair_batches",
    "SentenceBatches": "batches",
    "sentence_starts": "batches",
}
_MODULES = ("embedded", "embedded_pairs", "recall")

__all__ = [
    "ClozeQuestion",
    "Corpus",
    "PairCorpus",
    "PairSplit",
    "SentencePair",
    "Split",
    "SubwordVocabulary",
    "Tokenizer",
    "Vocabulary",
    "cbt_questions",
    "completion_questions",
    "encode_pairs",
    "load",
    "load_cbt",
    "load_conllu",
    "load_documents",
    "load_pairs",
    "load_text",
    "prepare_novels",
    "read_cloze_questions",
    "read_sick",
    "read_snli",
    "recall",
    *_WITH_KERAS,
]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"memlm_keras.data.{name}")
    if name in _WITH_KERAS:
        module = importlib.import_module(
            f"memlm_keras.data.{_WITH_KERAS[name]}"
        )
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
