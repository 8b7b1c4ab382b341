"""Sends rows of different lengths to a SavedModel, in one request or in one
request per row. A step of the benchmark answers all rows."""

import numpy as np

from benchmarks.peers import exported


class OneByOne(exported.SavedModel):
    """Sends one request per row."""

    together = False

    def answers(self, number):
        """Yields log-probabilities of the most probable next words of rows."""
        one = np.ones(1, "int32")
        initial = self.call("initial_state", rows=one)
        random = np.random.default_rng(2)
        inputs, _ = self.case.batches(number)
        for ids in inputs:
            rows, time = ids.shape
            length = random.integers(2, time + 1, rows).astype("int32")
            groups = [np.arange(rows)]
            if not self.together:
                groups = np.arange(rows)[:, None]
            for group in groups:
                yield self.call(
                    "step",
                    token_ids=ids[group, : length[group].max()],
                    length=length[group],
                    **{
                        name: np.repeat(value, len(group), axis=0)
                        for name, value in initial.items()
                    },
                )["top_k_log_probabilities"]

    def losses(self, steps):
        return float(-np.concatenate(list(self.answers(steps))).mean())

    def steps(self, number):
        for _ in self.answers(number):
            pass


class Together(OneByOne):
    """Sends all rows in one request, like a server that batches requests."""

    together = True


def make(case, variant, precision):
    engine = Together if variant == "together" else OneByOne
    return exported.make(case, "key_value_predict", precision, engine)
