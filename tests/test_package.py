import doctest
import functools
import importlib
import inspect
import pkgutil
import re

import keras
import numpy as np
import pytest
import yaml
from corpus_files import write_examples
from language_models import make
from told import ROOT
from told import python

import memlm_keras

# Public names that users may rely on. Add each new public name here; removing a
# name breaks users' programs.
PUBLIC_NAMES = {
    "memlm_keras": """
        Ensemble EntailmentClassifier LanguageModel SequenceAutoencoder analysis
        cells data embeddings evaluation experiments heads linguistics memory
        mixtures ngrams presets serving smoothing training
    """,
    "memlm_keras.analysis": """
        Associations AttentionColumns DependencyAttention DistantPairs
        ParsedSentence SentencePredictions associations attention_by_word
        attention_columns dependency_attention distant_pairs mean_attention
        plot_associations plot_attention plot_attention_columns
        plot_dependency_attention plot_distant_pairs plot_mean_attention
        plot_sentence_attention plot_sentence_predictions read_conllu
        sentence_predictions write_associations write_attention_columns
        write_counts_by_distance write_dependency_attention write_distant_pairs
        write_sentence_page write_sentence_predictions
    """,
    "memlm_keras.cells": """
        AssociativeGRUCell AssociativeMemoryCell DualAssociativeGRUCell
        DualAssociativeMemoryCell FOFEHORNNCell GatedHORNNCell LSTMNetworkCell
        ProjectedRNN RecurrentDropoutGRUCell RecurrentDropoutLSTMCell
        ZoneoutLSTMCell
    """,
    "memlm_keras.data": """
        AutoencodingBatches Batches ClozeQuestion Corpus PairBatches PairCorpus
        PairSplit SentenceBatches SentencePair Split SubwordVocabulary Tokenizer
        Vocabulary cbt_questions completion_questions encode_pairs load load_cbt
        load_conllu load_documents load_pairs load_text prepare_novels
        read_cloze_questions read_sick read_snli recall sentence_starts
    """,
    "memlm_keras.embeddings": """
        Embedding GradientMask WordVectors look_up read_vectors
    """,
    "memlm_keras.evaluation": """
        CacheChoice ClozeAccuracy DynamicChoice DynamicEvaluator Perplexity
        Reconstruction Surprisal TextBits choose_cache choose_dynamic
        cloze_accuracy cloze_scores mean_squared_gradients
        monte_carlo_perplexity perplexity reconstruction sampled_perplexity
        sentence_losses surprisal text_bits
    """,
    "memlm_keras.experiments": """
        Experiment RunFolder TableRuns choose_preset
    """,
    "memlm_keras.heads": "OutputProjection TiedProjection token_losses",
    "memlm_keras.linguistics": """
        Certificate Check Formula MinimalPairs PairAccuracy RecencyPerplexity
        StimulusSurprisal Suite SuiteAccuracy SuiteResults certify count_words
        minimal_pairs perplexity_by_recency read_minimal_pairs read_stimuli
        read_suites stimulus_surprisal suite_results
    """,
    "memlm_keras.memory": """
        Attention Attentive BidirectionalMemoryBlock DeltaRule
        InductionAttention KeyValue KeyValuePredict Memory MemoryBlock
        MemoryNetwork NGram Projection SlidingWindow WordByWordAttention
    """,
    "memlm_keras.mixtures": "Mixture NeuralCache PointerSentinel",
    "memlm_keras.models": """
        Ensemble EntailmentClassifier LanguageModel SequenceAutoencoder
    """,
    "memlm_keras.ngrams": """
        BackoffModel KneserNey Mixture UnigramCache arpa_vocabulary load mix
        mixture_weights read_arpa with_cache write_arpa
    """,
    "memlm_keras.presets": """
        Measure Paper Published Row Table TableRow count_params get
        match_parameters model_config names papers register tables trained_names
    """,
    "memlm_keras.serving": "Client Session check_path export load",
    "memlm_keras.smoothing": """
        NoisedBatches SmoothedEmbedding SmoothedProjection StreamStatistics
        VariationalSmoothing
    """,
    "memlm_keras.training": """
        Checkpoint FreezeEmbeddings FusedAdam HalveOnDrop Nats Perplexity
        SentenceCrossEntropy StopOnNaN Throughput TokenCrossEntropy TokenLoss
        data_parallel halve_after
    """,
}
PUBLIC_NAMES = {name: text.split() for name, text in PUBLIC_NAMES.items()}

# Large packages that few programs need, imported only at first use.
LOADED_LATE = """
    IPython datasets keras_hub keras_nlp matplotlib nltk pandas scipy tensorflow
    tensorflow_text transformers
""".split()


def packages():
    return pkgutil.walk_packages(memlm_keras.__path__, "memlm_keras.")


MODULES = ["memlm_keras", *(package.name for package in packages())]


@functools.cache
def modules_after(statement):
    """Returns the packages that a new interpreter has imported after
    `statement`."""
    told = python("-c", f"import sys; {statement}; print(*sys.modules)")
    return {name.partition(".")[0] for name in told.out.split()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement", ["import memlm_keras, keras", "import keras, memlm_keras"]
)
def test_import_registers_all_classes(statement):
    registered = "keras.saving.get_registered_object('memlm_keras>{}').__name__"
    names = "LanguageModel", "KeyValuePredict", "Perplexity"
    checks = "; ".join(registered.format(name) for name in names)
    loaded = modules_after(f"{statement}; {checks}")
    # Keras itself imports some of these packages if they are installed.
    assert not (loaded & set(LOADED_LATE)) - modules_after("import keras")


def test_a_program_lists_presets_without_keras():
    statement = (
        "import sys; sys.argv[0] = 'memlm'; "
        "import memlm_keras; memlm_keras.presets.names()"
    )
    assert "keras" not in modules_after(statement)


def test_a_script_beside_the_package_is_no_program(monkeypatch):
    for name in ("memlm", "memlm_keras/__main__.py", "memlm_keras/mine.py"):
        monkeypatch.setattr("sys.argv", [f"/clones/{name}"])
        assert memlm_keras._is_program() is (name != "memlm_keras/mine.py")


def test_public_names():
    found = {}
    for name in PUBLIC_NAMES:
        module = importlib.import_module(name)
        found[name] = sorted(module.__all__)
        assert all(hasattr(module, public) for public in module.__all__)
        submodule = name.removeprefix("memlm_keras").removeprefix(".")
        assert not submodule or getattr(memlm_keras, submodule) is module
    assert found == PUBLIC_NAMES
    assert memlm_keras.LanguageModel is memlm_keras.models.LanguageModel
    assert memlm_keras.__version__


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    citation = yaml.safe_load(text)
    assert citation["version"] == memlm_keras.__version__
    assert len(citation["references"]) == 5
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+) \((\S+)\)$", changes, re.M)
    released = str(citation["date-released"])
    assert newest.groups() == (citation["version"], released)


# Methods that Keras or a base class describes, so they need no docstring.
DESCRIBED_ELSEWHERE = """
    build call compute_output_shape compute_output_spec from_config get_config
    load_own_variables save_own_variables
""".split()


def test_everything_public_has_a_docstring():
    missing = [n for n in MODULES if not importlib.import_module(n).__doc__]
    for name in PUBLIC_NAMES:
        module = importlib.import_module(name)
        for public in module.__all__:
            value = getattr(module, public)
            if not value.__doc__:
                missing.append(public)
            for method in vars(value) if inspect.isclass(value) else ():
                if method.startswith("_") or method in DESCRIBED_ELSEWHERE:
                    continue
                found = getattr(value, method)
                if inspect.isroutine(found) and not inspect.getdoc(found):
                    missing.append(f"{public}.{method}")
    assert not missing


# Modules whose examples need a running server or PyTorch.
NOT_EXECUTED = {"client", "huggingface"}
# Modules whose examples split sentences.
NEED_SYNTOK = {"novels", "segmentation", "sentence_completion"}
# Modules whose examples write SavedModels, which start TensorFlow each time on
# other backends.
WRITTEN_BY_TENSORFLOW = {"export", "exported"}
DOCUMENTED = [
    pytest.param(name, marks=pytest.mark.backend("tensorflow"))
    if name.rpartition(".")[2] in WRITTEN_BY_TENSORFLOW
    else name
    for name in MODULES
    if NOT_EXECUTED.isdisjoint(name.split("."))
]


@pytest.mark.filterwarnings("ignore:Counts of counts")
@pytest.mark.usefixtures("papers_kept")
@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    module = importlib.import_module(name)
    if name.rpartition(".")[2] in NEED_SYNTOK:
        pytest.importorskip("syntok")
    names = dict(vars(module), keras=keras, memlm_keras=memlm_keras, np=np)
    # Run in a temporary folder, since examples read and write files.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLM_KERAS_HOME", str(tmp_path / "cache"))
    if ".data." in name or name.endswith(".text_bits"):
        write_examples(tmp_path)
    (tmp_path / "runs").mkdir()
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS)
    report = []
    for example in doctest.DocTestFinder().find(module, extraglobs=names):
        source = "".join(part.source for part in example.examples)
        for known, build in KNOWN.items():
            if re.search(rf"\b{known}\b", source):
                example.globs[known] = build()
        runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


class Checker(doctest.OutputChecker):
    """Accepts any output of an example that shows none, such as a progress
    bar."""

    def check_output(self, want, got, optionflags):
        return not want or super().check_output(want, got, optionflags)


def small_corpus():
    words = ["the", "man", "who", "was", "born", "in", "york", "said", "so"]
    vocabulary = memlm_keras.data.Vocabulary(words)
    tokens = np.random.default_rng(0).zipf(1.5, 200).astype("int32") % 11
    tokens[9::10] = 0
    splits = [memlm_keras.data.Split(tokens)] * 3
    return memlm_keras.data.Corpus("small", vocabulary, *splits)


def small_model(**arguments):
    words = small_corpus().vocabulary
    return make(vocabulary_size=len(words), vocabulary=words, **arguments)


def small_compiled_model():
    model = small_model()
    model.compile("adam")
    return model


def small_vectors():
    vectors, found = np.zeros((11, 4)), np.arange(11) > 2
    return memlm_keras.embeddings.WordVectors(vectors, found)


def small_smoothed_model():
    kind = memlm_keras.smoothing.VariationalSmoothing
    smoothing = kind("linear_interpolation", rate=0.5)
    model = small_model(
        embedding=memlm_keras.smoothing.SmoothedEmbedding(smoothing=smoothing)
    )
    statistics = memlm_keras.smoothing.StreamStatistics.count(
        small_corpus().train.tokens, 11
    )
    model.smoothing.adapt(statistics)
    return model


def small_dependencies():
    sentence = memlm_keras.analysis.ParsedSentence(
        ("the", "young", "man", "said"),
        np.array([2, 2, 3, -1]),
        ("det", "amod", "nsubj", "root"),
    )
    return memlm_keras.analysis.dependency_attention(
        small_model(), [sentence], small_corpus().vocabulary, verbose=0
    )


# Names that examples use without defining them.
KNOWN = {
    "columns": lambda: memlm_keras.analysis.attention_columns(
        small_model(), small_corpus().test, small_corpus().vocabulary, 5
    ),
    "dependencies": small_dependencies,
    "pairs": lambda: memlm_keras.analysis.distant_pairs(
        small_model(),
        small_corpus().test,
        small_corpus().train,
        small_corpus().vocabulary,
        minimum_distance=2,
    ),
    "predictions": lambda: memlm_keras.analysis.sentence_predictions(
        small_model(), "the man was born in york", small_corpus().vocabulary
    ),
    "question": lambda: memlm_keras.data.ClozeQuestion(
        context=(("the", "man", "was", "born", "in", "york"),),
        query=("the", "XXXXX", "said"),
        answer="man",
        candidates=("man", "york"),
    ),
    "batches": lambda: small_corpus().batches("test", 1, 20),
    "corpus": small_corpus,
    "kneser_ney": lambda: memlm_keras.ngrams.KneserNey(11, discounts=0.5).fit(
        small_corpus().train, verbose=0
    ),
    "lm": small_compiled_model,
    "smoothed": small_smoothed_model,
    "vectors": small_vectors,
    "vocabulary": lambda: small_corpus().vocabulary,
}
