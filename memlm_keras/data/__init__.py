"""Text: vocabularies, corpora and batches.

A module is imported when one of its names is first used, since some need Keras
and others are rarely needed.
"""

import importlib

_NAMES = {
    "batches": (
        "AutoencodingBatches",
        "Batches",
        "SentenceBatches",
        "sentence_starts",
    ),
    "cloze": (
        "ClozeQuestion",
        "cbt_questions",
        "load_cbt",
        "read_cloze_questions",
    ),
    "corpora": ("load",),
    "corpus": ("Corpus", "load_documents", "load_text"),
    "pair_corpora": ("load_pairs", "read_sick", "read_snli"),
    "pairs": (
        "PairBatches",
        "PairCorpus",
        "PairSplit",
        "SentencePair",
        "encode_pairs",
    ),
    "sentence_completion": ("completion_questions", "prepare_novels"),
    "subwords": ("SubwordVocabulary",),
    "text_store": ("Split",),
    "tokenizer": ("Tokenizer",),
    "treebanks": ("load_conllu",),
    "vocabulary": ("Vocabulary",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_MODULES, "recall"])


def __getattr__(name):
    if name in ("embedded", "embedded_pairs", "recall"):
        return importlib.import_module(f"memlm_keras.data.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"memlm_keras.data.{_MODULES[name]}")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__():
    return __all__
