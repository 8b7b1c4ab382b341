"""Reading batches of a text for inference, with the state carried."""

import keras
import numpy as np
from keras import ops

from memlm_keras.models import checks
from memlm_keras.models.backbone import reset_rows
from memlm_keras.models.inference import compile_inference


def read(model, function, batches):
    """Yields what a function finds in batches.

    Args:
        model: a `StreamingModel`.
        function: callable of token ids, targets and a state that returns what
            it finds and the new state.
        batches: `memlm_keras.data.Batches`, or a dataset of their form.

    Yields:
        Pairs of what the function found and the batch's sample weight.
    """
    model.check_data(batches)
    start = state = model.initial_state(batches.batch_size)
    for inputs, targets, sample_weight in batches:
        state = reset_rows(state, start, ops.convert_to_tensor(inputs["reset"]))
        found, state = function(
            ops.convert_to_tensor(inputs["token_ids"]),
            ops.convert_to_tensor(targets),
            state,
        )
        yield found, sample_weight


def score(model, function, batches, verbose=0):
    """See `StreamingModel.score_batches`; the function is its `_score`."""
    scores, weights = [], []
    progress = keras.utils.Progbar(len(batches), verbose=verbose)
    for found, sample_weight in read(model, function, batches):
        scores.append(ops.convert_to_numpy(found))
        weights.append(sample_weight)
        progress.add(1)
    return _of_one_time(scores), _of_one_time(weights)


def sampled_scores(model, batches, samples, seed):
    """See `LanguageModel.sampled_score_batches`."""
    checks.require_smoothing(model)
    seed_state = model.smoothing.seed_generator.state
    kept = ops.convert_to_numpy(seed_state).copy()

    def score_sampled(token_ids, targets, state):
        return model.backbone.score(token_ids, targets, state, sampled=True)

    function = compile_inference(model, score_sampled)
    for sample in range(samples):
        place = iter(range(len(batches)))

        def seeded(*arguments, sample=sample, place=place):
            # What is drawn in compiled inference moves no seed on JAX.
            entropy = np.random.SeedSequence((seed, sample, next(place)))
            number = entropy.generate_state(2) >> 1
            seed_state.assign(number.astype(kept.dtype))
            return function(*arguments)

        try:
            found = score(model, seeded, batches)
        finally:
            seed_state.assign(kept)
        yield found


def _of_one_time(arrays):
    """Puts arrays `(batch, time)` together, zeros behind the shorter ones."""
    longest = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [
            np.pad(array, [(0, 0), (0, longest - array.shape[1])])
            for array in arrays
        ]
    )
