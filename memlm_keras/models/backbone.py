"""The four words of every model: embed, recur, remember, predict."""

from typing import Any
from typing import NamedTuple

from keras import ops
from keras import tree

from memlm_keras.models.inference import target_log_probabilities


class Recalled(NamedTuple):
    """What the loss asks for once it knows the targets.

    Attributes:
        by_mixture: what the mixture recalled; `None` without one.
        redraw: function from targets `(batch, time)` to logits in which the
            rows of the targets are drawn; `None` where they are not.
    """

    by_mixture: Any = None
    redraw: Any = None


class Backbone:
    """The layers of a language model and the one way they are joined.

    The functional graph, carried training, streaming and export all run
    through `forward`; nothing else joins the layers.

    Args:
        embedding: layer from token ids to vectors.
        recurrent: list of Keras recurrent layers that return their sequences
            and states, bottom first.
        memory: a `memlm_keras.memory.Memory`, or `None`.
        recurrent_above: list of recurrent layers that read the memory's
            outputs, bottom first.
        head: layer from the last outputs to logits.
        dropouts: one layer for the embeddings and one for each recurrent
            layer's outputs.
        mixture: a `memlm_keras.mixtures.Mixture` that makes log-probabilities
            of the logits, or `None`.
        smoothing: the `VariationalSmoothing` of embedding and head, or `None`.
    """

    def __init__(
        self,
        embedding,
        recurrent,
        memory,
        recurrent_above,
        head,
        dropouts,
        mixture=None,
        smoothing=None,
    ):
        self.embedding = embedding
        self.below = list(enumerate(recurrent))
        self.memory = memory
        self.above = list(enumerate(recurrent_above, len(recurrent)))
        self.head = head
        self.dropouts = dropouts
        self.mixture = mixture
        self.smoothing = smoothing

    def initial_state(self, batch_size):
        """All that the model remembers before the first token.

        Returns:
            Flat dict of tensors, batch first: `recurrent_<layer>_state_<i>`
            for each state of each recurrent layer, bottom first, and
            `memory_<name>` and `mixture_<name>` for each state of these.
        """
        state = {}
        for index, layer in (*self.below, *self.above):
            self._pack(state, index, layer.get_initial_state(batch_size))
        for name in ("memory", "mixture"):
            layer = getattr(self, name)
            if layer is not None:
                _pack_named(state, name, layer.initial_state(batch_size))
        return state

    def forward(self, token_ids, state=None, training=False):
        """Runs the whole model.

        Args:
            token_ids: int32 tensor `(batch, time)`.
            state: dict as of `initial_state`, or `None` for just that.
            training: bool, or `None` where Keras is to decide.

        Returns:
            `(logits, state)`, logits `(batch, time, vocabulary)`.
        """
        logits, state, _ = self.predict(token_ids, state, training)
        return logits, state

    def predict(self, token_ids, state=None, training=False, sampled=None):
        """Runs the whole model.

        Args:
            token_ids, state, training: as of `forward`.
            sampled: whether the matrices of a smoothing are drawn; `None` is
                while training only.

        Returns:
            `(logits, state, recalled)`, the last a `Recalled`.
        """
        drawn = None
        if self.smoothing is not None and (training or sampled):
            drawn = self.smoothing.draw(token_ids, self._smoothed_units())
        outputs, new_state, _ = self.remember(token_ids, state, training, drawn)

        def mixed(logits):
            if self.mixture is None:
                return logits, None
            logits, _, recalled = self._mix(
                outputs, token_ids, logits, state, new_state, training
            )
            return logits, recalled

        if drawn is None or drawn.output_rows is None:
            logits, by_mixture = mixed(self.head(outputs))
            return logits, new_state, Recalled(by_mixture)
        logits = self.head(outputs, sampled=True)

        def redraw(targets):
            return mixed(
                self.head.with_targets(logits, outputs, targets, drawn)
            )[0]

        mixture, by_mixture = mixed(logits)
        return mixture, new_state, Recalled(by_mixture, redraw)

    def _smoothed_units(self):
        sizes = [self.embedding.output_dim]
        if self.smoothing.smooths_output:
            sizes.append(self.head.matrix.shape[-1])
        return max(sizes)

    def _mix(self, outputs, token_ids, logits, state, new_state, training):
        logits, mixture_state, attention, recalled = self.mixture(
            outputs,
            token_ids=token_ids,
            logits=logits,
            state=_unpack_named(state, "mixture"),
            training=training,
        )
        _pack_named(new_state, "mixture", mixture_state)
        return logits, attention, recalled

    def remember(self, token_ids, state=None, training=False, drawn=None):
        """Runs the model up to the head.

        Args:
            token_ids, state, training: as of `forward`.
            drawn: the rows that the smoothing drew, or `None`.

        Returns:
            `(outputs, state, attention)`; attention is `None` without memory.
        """
        new_state = {}
        given = {} if drawn is None else {"drawn": drawn}
        outputs = self.embedding(token_ids, training=training, **given)
        outputs = self.dropouts[0](outputs, training=training)
        outputs = self._recur(self.below, outputs, state, new_state, training)
        attention = None
        if self.memory is not None:
            memory_state = _unpack_named(state, "memory")
            if memory_state is not None:
                memory_state = self.memory.embed_state(
                    memory_state, self.embedding
                )
            outputs, memory_state, attention = self.memory(
                outputs,
                token_ids=token_ids,
                state=memory_state,
                training=training,
                return_state=True,
                return_attention_scores=True,
            )
            _pack_named(new_state, "memory", memory_state)
        outputs = self._recur(self.above, outputs, state, new_state, training)
        return outputs, new_state, attention

    def _recur(self, layers, outputs, state, new_state, training):
        for index, layer in layers:
            outputs, *layer_state = layer(
                outputs,
                initial_state=self._unpack(state, index, layer),
                training=training,
            )
            self._pack(new_state, index, layer_state)
            outputs = self.dropouts[index + 1](outputs, training=training)
        return outputs

    def read_out(self, token_ids, targets, state=None):
        """Returns what the head projects and makes of it, for inference.

        Returns:
            `((outputs, scores), state)`: `(batch, time, units)` and the
            natural-log probability of each target, `(batch, time)`.
        """
        outputs, state, _ = self.remember(token_ids, state)
        scores = target_log_probabilities(self.head(outputs), targets)
        return (outputs, scores), state

    def score_sampled(self, token_ids, targets, state=None):
        """Scores targets by one sample of the matrices of a smoothing.

        Returns:
            `(scores, state)`: the natural-log probability of each target,
            `(batch, time)`.
        """
        logits, state, recalled = self.predict(token_ids, state, sampled=True)
        if recalled.redraw is not None:
            logits = recalled.redraw(targets)
        return target_log_probabilities(logits, targets), state

    def attend(self, token_ids, state=None):
        """Returns the attention weights and the new state, for inference.

        The weights are those of the memory; where it has none, the mixture's.
        """
        outputs, new_state, attention = self.remember(token_ids, state)
        if self.mixture is not None:
            _, of_mixture, _ = self._mix(
                outputs, token_ids, None, state, new_state, training=False
            )
            if self.memory is None or not self.memory.attends:
                attention = of_mixture
        return attention, new_state

    def _pack(self, state, index, layer_state):
        for position, value in enumerate(tree.flatten(layer_state)):
            state[f"recurrent_{index}_state_{position}"] = value

    def _unpack(self, state, index, layer):
        if state is None:
            return None
        structure = layer.get_initial_state(1)
        return tree.pack_sequence_as(
            structure,
            [
                state[f"recurrent_{index}_state_{position}"]
                for position in range(len(tree.flatten(structure)))
            ],
        )


def _pack_named(state, prefix, values):
    for name, value in values.items():
        state[f"{prefix}_{name}"] = value


def _unpack_named(state, prefix):
    if state is None:
        return None
    return {
        name.removeprefix(f"{prefix}_"): value
        for name, value in state.items()
        if name.startswith(f"{prefix}_")
    }


def reset_rows(state, initial, reset):
    """Puts the rows marked by `reset` back to their initial state.

    Args:
        state: dict of tensors, batch first.
        initial: dict of the same shapes.
        reset: boolean tensor `(batch,)`.
    """

    def choose(value, start):
        rows = ops.reshape(reset, (-1,) + (1,) * (len(value.shape) - 1))
        return ops.where(rows, ops.cast(start, value.dtype), value)

    return {name: choose(value, initial[name]) for name, value in state.items()}
