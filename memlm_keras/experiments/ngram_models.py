"""Experiments with the n-gram models of Tran et al. (2016, Table 2)."""

import time

from memlm_keras import ngrams
from memlm_keras.experiments import report
from memlm_keras.experiments.options import KNESER_NEY
from memlm_keras.experiments.tasks import Task

NAMES = ("kneser_ney_5", "kneser_ney_5_cache")
_ORDER = 5


class KneserNeyTask(Task):
    """A Kneser-Ney model of order 5, by itself or with a cache."""

    kind = KNESER_NEY
    is_trained = False

    def preset(self, name, overrides):
        """Nothing of it can be changed."""
        return {
            "name": name,
            "kind": self.kind,
            "order": _ORDER,
            "data": {"sentences": True},
        }

    def settings(self, experiment):
        """As of `Task`."""
        return {"order": _ORDER}

    def epochs(self, experiment, epochs, patience):
        """It is counted once."""
        return 1, 0

    def estimate(self, experiment):
        """Counts and measures; returns plain values for the results."""
        corpus = experiment.corpus
        begin = time.perf_counter()
        model = ngrams.KneserNey(len(corpus.vocabulary), order=_ORDER)
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
