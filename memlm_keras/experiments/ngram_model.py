"""Experiments with n-gram models, as in Table 2 (Tran et al., 2016)."""

import time

import memlm_keras as memlm
from memlm_keras.experiments import measurements
from memlm_keras.experiments.experiment import Experiment
from memlm_keras.experiments.options import KNESER_NEY


class NgramExperiment(Experiment):
    """Experiment with a Kneser-Ney model, with or without a cache."""

    kind = KNESER_NEY
    is_trained = False

    def _make_preset(self):
        return {
            "name": self.preset_name,
            "kind": self.kind,
            "order": self._found.order,
            "data": {"sentences": True},
        }

    def _settings(self):
        return {"order": self.preset["order"]}

    def epochs(self, epochs=None, patience=None):
        return 1, 0

    def count(self, verbose=1):
        """Counts n-grams; returns the model without and with its cache."""
        corpus, ngrams = self.corpus, memlm.ngrams
        counted = ngrams.KneserNey(
            len(corpus.vocabulary), order=self.preset["order"]
        )
        counted.fit(corpus.train, verbose)
        if not self.preset_name.endswith("cache"):
            return counted, counted
        cached = ngrams.with_cache(counted, corpus.validation, verbose=verbose)
        return counted, cached

    def measure(self, model, verbose=0):
        results, corpus = {}, self.corpus
        for split in ("validation", "test"):
            found = model.perplexity(getattr(corpus, split))
            results[split] = measurements.plain_with_bits(found, corpus, split)
        return results

    def estimate(self):
        """Counts n-grams and measures the model; returns a dict of results."""
        begin = time.perf_counter()
        counted, model = self.count()
        seconds = time.perf_counter() - begin
        return {
            "parameters": sum(counted.num_ngrams),
            "units": "",
            "epochs": 1,
            "best_epoch": 1,
            "seconds_per_epoch": seconds,
            "tokens_per_second": len(self.corpus.train) / seconds,
            "ended": True,
            **self.measure(model),
        }
