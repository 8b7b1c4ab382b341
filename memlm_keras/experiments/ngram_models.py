"""Experiments with the n-gram models of Tran et al. (2016, Table 2)."""

import re
import time

from memlm_keras import ngrams
from memlm_keras.experiments import report
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.tasks import Task

# Those of the paper; any order may be asked for.
NAMES = ("kneser_ney_5", "kneser_ney_5_cache")
_PATTERN = re.compile(r"kneser_ney_([1-9])(_cache)?")


def is_name(name):
    """Whether an n-gram model is called so."""
    return _PATTERN.fullmatch(name) is not None


def name_of(order, cache):
    """Name of an n-gram model, by itself or with a cache."""
    return f"kneser_ney_{order}{'_cache' * cache}"


class KneserNeyTask(Task):
    """A Kneser-Ney model, by itself or with a cache."""

    kind = KNESER_NEY
    is_trained = False

    def preset(self, name, overrides):
        """Nothing of it can be changed."""
        return {
            "name": name,
            "kind": self.kind,
            "order": int(_PATTERN.fullmatch(name)[1]),
            "data": {"sentences": True},
        }

    def settings(self, experiment):
        """See `Task`."""
        return {"order": experiment.preset["order"]}

    def epochs(self, experiment, epochs, patience):
        """It is counted once."""
        return 1, 0

    def estimate(self, experiment):
        """Counts and measures; returns plain values for the results."""
        corpus = experiment.corpus
        begin = time.perf_counter()
        order = experiment.preset["order"]
        model = ngrams.KneserNey(len(corpus.vocabulary), order=order)
        model.fit(corpus.train)
        seconds = time.perf_counter() - begin
        parameters = sum(model.num_ngrams)
        if experiment.preset_name.endswith("cache"):
            model = ngrams.with_cache(model, corpus.validation)
        return {
            "parameters": parameters,
            "units": "",
            "epochs": 1,
            "best_epoch": 1,
            "seconds_per_epoch": seconds,
            "tokens_per_second": len(corpus.train) / seconds,
            "ended": True,
            **{
                split: report.plain_perplexity(
                    model.perplexity(getattr(corpus, split))
                )
                for split in ("validation", "test")
            },
        }
