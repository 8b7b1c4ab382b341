"""Ensembles average the predictions of several models."""

import math

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import deserialize
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_token_ids
from memlm_keras.arguments import serialize
from memlm_keras.models.backbone import pack_named
from memlm_keras.models.backbone import unpack_named
from memlm_keras.models.language_model import LanguageModel
from memlm_keras.models.language_model import is_tensor
from memlm_keras.models.sequence_model import describe
from memlm_keras.models.streaming import StreamingModel


@keras.saving.register_keras_serializable(package="memlm_keras")
class Ensemble(StreamingModel):
    """Averages the probabilities of separately trained language models.

        p(w) = 1/n sum_i p_i(w)

    Zaremba et al. (2014, Table 1) also average models. The models may differ in
    everything except the vocabulary. Streaming, scoring, generation,
    evaluation, saving and export are the same as for a single model.

    Args:
        models: list of `memlm_keras.LanguageModel`s.
        name: string or `None`.

    Call arguments:
        inputs: int32 tensor `(batch, time)`, read from an empty context.

    Returns:
        Natural-log probabilities `(batch, time, vocabulary_size)`.

    Raises:
        ValueError: if `models` is empty, or contains another object, the same
            model twice, a model that is not causal, or different vocabularies.

    Example:

    >>> ensemble = memlm_keras.Ensemble([lm, lm.with_mixture(None)])
    >>> ensemble.score(np.array([[0, 5, 7, 0]])).shape
    (1, 3)
    """

    def __init__(self, models, name=None):
        require_members(models)
        members = Members(models, name="members")
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        super().__init__(
            backbone=members,
            token_ids=token_ids,
            logits=members(token_ids),
            vocabulary_size=models[0].vocabulary_size,
            vocabulary=next(
                (model.vocabulary for model in models if model.vocabulary), None
            ),
            name=name,
        )

    def __call__(self, inputs, *args, **kwargs):
        if not (isinstance(inputs, dict) or is_tensor(inputs)):
            size = self.vocabulary_size
            inputs = require_token_ids("inputs", inputs, size)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None, mask=None):
        if isinstance(inputs, dict):
            raise ValueError(
                "`inputs` must be token ids. For batches, which carry a state, "
                "call `evaluate` or `score_batches`. Received: a dict with "
                f"{', '.join(inputs)}"
            )
        return super().call(inputs, training=training, mask=mask)

    @property
    def models(self):
        """List of the models."""
        return self.backbone.models

    def count_params(self):
        """Returns the number of parameters of all models."""
        return sum(model.count_params() for model in self.models)

    def with_fixed_matrices(self):
        """Returns an ensemble of each model's `with_fixed_matrices()`."""
        models = [model.with_fixed_matrices() for model in self.models]
        return self if models == self.models else Ensemble(models)

    def evaluate(self, x=None, verbose="auto", return_dict=False):
        """Evaluates the ensemble on batches; `compile` is not needed.

        Args:
            x: `memlm_keras.data.Batches`, or a dataset with the same items.
            verbose: as in `keras.Model.evaluate`.
            return_dict: bool.

        Returns:
            The list `[loss, perplexity, nats]`, or a dict with these keys.

        Raises:
            ValueError: if the batches contain ids outside the vocabulary.
        """
        verbose = 1 if verbose == "auto" else verbose
        scores, weights = self.score_batches(x, verbose=verbose)
        total = weights.sum(dtype="float64")
        nats = -float((scores * weights).sum(dtype="float64") / total)
        logs = {"loss": nats, "perplexity": float(np.exp(nats)), "nats": nats}
        return logs if return_dict else list(logs.values())

    def get_config(self):
        return {"name": self.name, "models": serialize(self.models)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**deserialize(config, custom_objects))


class Members(keras.layers.Layer):
    """The backbone of an ensemble. It is a single layer, because layers of
    different models may have equal names, which a Keras graph rejects."""

    memory = None
    mixture = None

    def __init__(self, models, **kwargs):
        super().__init__(**kwargs)
        self.models = list(models)
        self.built = True

    def call(self, token_ids, training=None):
        return self.step(token_ids, training=training)[0]

    def initial_state(self, batch_size):
        return self._joined(
            model.backbone.initial_state(batch_size) for model in self.models
        )

    def step(self, token_ids, state=None, training=False):
        """Runs all models; returns log-probabilities as the logits."""

        def predict(backbone, own):
            logits, own = backbone.step(token_ids, own, training)
            return ops.log_softmax(ops.cast(logits, "float32"), axis=-1), own

        return self._mean(predict, state)

    def score(self, token_ids, targets, state=None):
        def score(backbone, own):
            return backbone.score(token_ids, targets, own)

        return self._mean(score, state)

    def _mean(self, predict, state):
        """Returns the logarithm of the mean probability, and the new state."""
        mean, states = None, []
        for backbone, own in self._each(state):
            found, own = predict(backbone, own)
            mean = found if mean is None else ops.logaddexp(mean, found)
            states.append(own)
        return mean - math.log(len(self.models)), self._joined(states)

    def attend(self, token_ids, state=None):
        """Reads tokens; returns `None` as attention weights, and the state."""
        states = [
            backbone.attend(token_ids, own)[1]
            for backbone, own in self._each(state)
        ]
        return None, self._joined(states)

    def _each(self, state):
        for index, model in enumerate(self.models):
            yield model.backbone, unpack_named(state, f"model_{index}")

    def _joined(self, states):
        joined = {}
        for index, state in enumerate(states):
            joined |= pack_named(f"model_{index}", state)
        return joined


def models_of(model):
    """Returns the models of an `Ensemble`, or a list of one model."""
    return getattr(model, "models", [model])


def require_members(models):
    """Raises `ValueError` unless an ensemble can average the models."""
    if not isinstance(models, (list, tuple)) or not models:
        raise ValueError(
            "`models` must be a list of at least one language model. Received: "
            f"models={models!r}"
        )
    for model in models:
        if not isinstance(model, LanguageModel):
            raise ValueError(
                "`models` must hold instances of `memlm_keras.LanguageModel`. "
                f"Received: a {type(model).__name__}"
            )
        require_streaming("`Ensemble`", model)
    if len({id(model) for model in models}) < len(models):
        raise ValueError(
            "`models` must be different models. Received: the same model twice"
        )
    sizes = [model.vocabulary_size for model in models]
    if len(set(sizes)) > 1:
        raise ValueError(
            "`models` must share one vocabulary. Received: models with "
            f"vocabulary_size of {sizes}"
        )
    known = [model.vocabulary for model in models if model.vocabulary]
    if any(vocabulary != known[0] for vocabulary in known):
        raise ValueError(
            "`models` must share one vocabulary. Received: models with "
            + " and ".join(map(describe, known))
        )
