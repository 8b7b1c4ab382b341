"""Model averaging: the mean of the predictions of several models."""

import math

import keras
from keras import ops

from memlm_keras.models import checks
from memlm_keras.models.backbone import Recalled
from memlm_keras.models.language_model import LanguageModel
from memlm_keras.models.sequence_model import TrainedModel


@keras.saving.register_keras_serializable(package="memlm_keras")
class Ensemble(TrainedModel):
    """The mean of the probabilities of language models, each trained alone.

        p(w) = 1/n sum_i p_i(w)

    as Zaremba et al. (2014, Table 1) average theirs. The models may differ in
    everything but the vocabulary. An ensemble streams, scores, generates, is
    evaluated, saved and exported as they are; it is not trained.

    Args:
        models: list of `memlm_keras.LanguageModel`s.
        name: string or `None`.

    Call arguments:
        inputs: as of `LanguageModel`.

    Returns:
        Natural-log probabilities `(batch, time, vocabulary_size)`.

    Raises:
        ValueError: if `models` holds something else, nothing, one model twice,
            a model that reads ahead, or models of different vocabulary sizes.

    Example:

    >>> ensemble = memlm_keras.Ensemble([lm, lm.with_mixture(None)])
    >>> ensemble.score(np.array([[0, 5, 7, 0]])).shape
    (1, 3)
    """

    memory = None
    mixture = None
    smoothing = None

    def __init__(self, models, name=None):
        checks.members(models, LanguageModel)
        mean = Mean(models)
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        logits = Members(mean, name="members")(token_ids)
        super().__init__(token_ids, logits, name=name)
        self.vocabulary_size = models[0].vocabulary_size
        self.make_ready(mean)

    @property
    def models(self):
        """List of the models."""
        return self.backbone.models

    def with_fixed_matrices(self):
        """Makes an ensemble of its models without smoothing, as of those."""
        models = [model.with_fixed_matrices() for model in self.models]
        return self if models == self.models else Ensemble(models)

    def fit(self, *args, **kwargs):
        """Raises `NotImplementedError`: its models are trained one by one."""
        raise NotImplementedError(
            "An `Ensemble` is not trained: train its models one by one."
        )

    def get_config(self):
        models = [
            keras.saving.serialize_keras_object(model) for model in self.models
        ]
        return {"name": self.name, "models": models}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        models = [
            keras.saving.deserialize_keras_object(
                model, custom_objects=custom_objects
            )
            for model in config["models"]
        ]
        return cls(models, config["name"])


class Members(keras.layers.Layer):
    """The models of an ensemble as the only layer of its graph.

    In a graph of all their layers there could be no two of one name.
    """

    def __init__(self, mean, **kwargs):
        super().__init__(**kwargs)
        self.models = mean.models
        self.mean = mean
        self.built = True

    def call(self, token_ids, training=None):
        return self.mean.forward(token_ids, training=training)[0]


class Mean:
    """Models side by side, and the mean of what they predict.

    It is to an ensemble what `Backbone` is to one model.

    Args:
        models: list of `LanguageModel`s.
    """

    def __init__(self, models):
        self.models = list(models)

    def initial_state(self, batch_size):
        """The states of all, each named `model_<index>_<name>`."""
        return self._joined(
            model.backbone.initial_state(batch_size) for model in self.models
        )

    def forward(self, token_ids, state=None, training=False):
        """As of `Backbone`; the logits are log-probabilities."""
        mean, states = None, []
        for backbone, own in self._each(state):
            logits, own = backbone.forward(token_ids, own, training)
            logits = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
            mean = logits if mean is None else ops.logaddexp(mean, logits)
            states.append(own)
        return mean - math.log(len(self.models)), self._joined(states)

    def predict(self, token_ids, state=None, training=False):
        """As of `Backbone`; nothing is recalled."""
        return *self.forward(token_ids, state, training), Recalled()

    def attend(self, token_ids, state=None):
        """As of `Backbone`; no attention is in common, and none returned."""
        states = [
            backbone.attend(token_ids, own)[1]
            for backbone, own in self._each(state)
        ]
        return None, self._joined(states)

    def _each(self, state):
        for index, model in enumerate(self.models):
            prefix = f"model_{index}_"
            own = state and {
                name.removeprefix(prefix): value
                for name, value in state.items()
                if name.startswith(prefix)
            }
            yield model.backbone, own

    def _joined(self, states):
        return {
            f"model_{index}_{name}": value
            for index, state in enumerate(states)
            for name, value in state.items()
        }
