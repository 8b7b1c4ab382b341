"""Reading whole texts in batches: scores, attention, outputs."""

import keras
import numpy as np
from keras import ops

from memlm_keras.models import checks
from memlm_keras.models.backbone import reset_rows
from memlm_keras.models.inference import ScoredBatches
from memlm_keras.models.inference import Scorer
from memlm_keras.models.inference import compile_inference
from memlm_keras.models.streaming import StreamingModel


class BatchReadingModel(StreamingModel):
    """What a language model finds in batches of a text, with its state carried.

    The subclass has `carry_state` besides what `StreamingModel` asks for.
    """

    def score_batches(self, batches, verbose=0):
        """Natural-log probability of every target of batches.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset of their form.
            verbose: as in `keras.Model.predict`.

        Returns:
            `(scores, sample_weight)`, two float32 arrays `(number of batches *
            batch_size, time of the longest)`; scores where the weight is zero
            mean nothing.

        Raises:
            ValueError: if the batches hold token ids outside the vocabulary,
                or the memory reads ahead and they are not `SentenceBatches`.
        """
        self._check_data(batches)
        self.carry_state(None, batches.batch_size)
        if self._untracked.scorer is None:
            self._untracked.scorer = Scorer(self)
        scored = ScoredBatches(batches)
        if not getattr(batches, "varies_in_time", False):
            scores = self._untracked.scorer.predict(scored, verbose=verbose)
            return scores, np.concatenate(scored.sample_weight())
        # Keras puts what it predicts together, which must be of one time.
        scores = []
        progress = keras.utils.Progbar(len(scored), verbose=verbose)
        for (inputs,) in scored:
            scores.append(self._untracked.scorer.predict_on_batch(inputs))
            progress.add(1)
        return _of_one_time(scores), _of_one_time(scored.sample_weight())

    def sampled_score_batches(self, batches, samples, seed=0):
        """As `score_batches`, by samples of the smoothed matrices.

        While a text is read, they are drawn as in training, and nothing is
        dropped out.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset of their form.
            samples: integer, how often the whole text is read.
            seed: integer from which the draws follow.

        Yields:
            For each sample a pair `(scores, sample_weight)` as of
            `score_batches`.

        Raises:
            ValueError: for a model that is not smoothed, and for what
                `score_batches` refuses.
        """
        checks.smoothed(self)
        seed_state = self.smoothing.seed_generator.state
        kept = ops.convert_to_numpy(seed_state).copy()
        score = compile_inference(self, self.backbone.score_sampled)
        for sample in range(samples):
            scores, weights = [], []
            read = self._read_batches(score, batches)
            try:
                for index in range(len(batches)):
                    # What is drawn in compiled inference moves no seed on JAX.
                    entropy = np.random.SeedSequence((seed, sample, index))
                    number = entropy.generate_state(2) >> 1
                    seed_state.assign(number.astype(kept.dtype))
                    found, sample_weight = next(read)
                    scores.append(ops.convert_to_numpy(found))
                    weights.append(sample_weight)
            finally:
                seed_state.assign(kept)
            yield _of_one_time(scores), _of_one_time(weights)

    def attention_batches(self, batches):
        """Where the model attends in batches, with the state carried.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset of their form.

        Yields:
            Pairs `(weights, sample_weight)` of float32 arrays, one a batch:
            `(batch, time, memory)` and `(batch, time)`.

        Raises:
            ValueError: if the model has no memory that attends, the batches
                hold ids outside the vocabulary, or the memory reads ahead and
                they are not `SentenceBatches`.
        """
        self._require_attention()

        def attend(token_ids, targets, state):
            return self._untracked.attend(token_ids, state)

        for weights, sample_weight in self._read_batches(attend, batches):
            weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
            yield weights, sample_weight

    def outputs_batches(self, batches):
        """What the head projects, and what comes of it, in batches.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset of their form.

        Yields:
            Pairs `(outputs, scores)`, one a batch: a tensor `(batch, time,
            units)`, and float32 natural-log probabilities of the targets
            `(batch, time)`, of the head alone if the model has a mixture.

        Raises:
            ValueError: if the batches hold ids outside the vocabulary,
                or the memory reads ahead and they are not `SentenceBatches`.
        """
        read_out = compile_inference(self, self.backbone.read_out)
        for found, _ in self._read_batches(read_out, batches):
            yield found

    def _read_batches(self, function, batches):
        """Yields what a function finds, with the state carried, and weights."""
        self._check_data(batches)
        start = state = self.initial_state(batches.batch_size)
        for inputs, targets, sample_weight in batches:
            state = reset_rows(
                state, start, ops.convert_to_tensor(inputs["reset"])
            )
            found, state = function(
                ops.convert_to_tensor(inputs["token_ids"]),
                ops.convert_to_tensor(targets),
                state,
            )
            yield found, sample_weight

    def _check_data(self, *data):
        """Raises `ValueError` for data that the model cannot read."""
        for part in data:
            checks.data_fits_vocabulary(part, self.vocabulary_size)
            checks.whole_sentences(part, self.memory)


def _of_one_time(arrays):
    """Puts arrays `(batch, time)` together, zeros behind the shorter ones."""
    longest = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [
            np.pad(array, [(0, 0), (0, longest - array.shape[1])])
            for array in arrays
        ]
    )
