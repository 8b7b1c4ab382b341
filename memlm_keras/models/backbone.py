"""The steps of every language model: embed, recur, remember, predict."""

from typing import Any
from typing import NamedTuple

from keras import ops
from keras import tree

from memlm_keras.cells.fused import run_layer
from memlm_keras.heads import token_losses
from memlm_keras.heads.losses import head_losses
from memlm_keras.masking import take_steps


class Prediction(NamedTuple):
    """The result of `predict`.

    Attributes:
        logits: `(batch, time, vocabulary)`; `None` where the head computes the
            losses of targets without them.
        log_probability: natural-log probability of each target, float32
            `(batch, time)`; `None` without targets.
        loss: the loss of each token, float32 `(batch, time)`:
            `-log_probability` and, in training, the additional term of a
            supervised mixture; `None` without targets.
    """

    logits: Any
    log_probability: Any = None
    loss: Any = None


def pack_named(prefix, values):
    """Adds a prefix to the names of a state."""
    return {f"{prefix}_{name}": value for name, value in values.items()}


def unpack_named(state, prefix):
    """Selects the values of a prefix from a state; `None` stays."""
    if state is None:
        return None
    return {
        name.removeprefix(f"{prefix}_"): value
        for name, value in state.items()
        if name.startswith(f"{prefix}_")
    }


class Backbone:
    """The layers of a language model and the one way they are joined.

    Graph, training, streaming, scoring and export all run through `forward`,
    which calls `embed`, `recur`, `remember` and `predict` in this order.

    Where the `embedding` has `draws`, its vectors are drawn in training:
    `embedding.draw(token_ids, units)` makes the sample that its call takes as
    `drawn`. So does the call of a `head` with `draws`, along with `targets`.
    These layers add their KL terms with `add_divergence()`.

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
    ):
        self.embedding = embedding
        self.recurrent = recurrent
        self.memory = memory
        self.recurrent_above = recurrent_above
        self.head = head
        self.dropouts = dropouts
        self.mixture = mixture
        self._below = list(enumerate(recurrent))
        self._above = list(enumerate(recurrent_above, len(recurrent)))
        # How the states of each layer are nested.
        self._nested = [
            tree.map_structure(lambda state: 0, layer.get_initial_state(1))
            for layer in (*recurrent, *recurrent_above)
        ]

    def layers(self):
        """Returns the layers with weights, a dict by place."""
        named = {"embedding": self.embedding, "head": self.head}
        for index, layer in (*self._below, *self._above):
            named[f"recurrent_{index}"] = layer
        for name in ("memory", "mixture"):
            if getattr(self, name) is not None:
                named[name] = getattr(self, name)
        return named

    # === The steps ===

    def embed(self, token_ids, training=False, drawn=None):
        """Embeds tokens `(batch, time)`; `drawn` is a sample or `None`."""
        sample = {} if drawn is None else {"drawn": drawn}
        vectors = self.embedding(token_ids, training=training, **sample)
        return self.dropouts[0](vectors, training=training)

    def recur(self, outputs, state=None, training=False, above=False):
        """Runs the recurrent layers below the memory, or those above it.

        Args:
            outputs: float tensor `(batch, time, units)`.
            state: dict as of `initial_state`, or `None` for that.
            training: bool.
            above: bool.

        Returns:
            `(outputs, state)`, the state of these layers.
        """
        new_state = {}
        for index, layer in self._above if above else self._below:
            nested, layer_state = self._nested[index], None
            prefix = f"recurrent_{index}_state"
            if state is not None:
                layer_state = tree.pack_sequence_as(
                    nested,
                    [
                        state[f"{prefix}_{position}"]
                        for position in range(len(tree.flatten(nested)))
                    ],
                )
            outputs, *layer_state = run_layer(
                layer, outputs, layer_state, training
            )
            for position, value in enumerate(tree.flatten(layer_state)):
                new_state[f"{prefix}_{position}"] = value
            outputs = self.dropouts[index + 1](outputs, training=training)
        return outputs, new_state

    def remember(
        self, outputs, token_ids, state=None, training=False, positions=None
    ):
        """Reads from the memory, if there is one.

        Args:
            outputs: float tensor `(batch, time, units)`.
            token_ids: int32 tensor `(batch, time)`.
            state: dict as of `initial_state`, or `None` for that.
            training: bool.
            positions: int32 tensor `(batch, queries)`, the steps to return;
                `None` for all.

        Returns:
            `(outputs, state, weights)`: the state of the memory; the attention
            weights are `None` without one.
        """
        if self.memory is None:
            if positions is not None:
                outputs = take_steps(outputs, positions)
            return outputs, {}, None
        memory_state = unpack_named(state, "memory")
        if memory_state is not None:
            memory_state = self.memory.embed_state(memory_state, self.embedding)
        outputs, memory_state, weights = self.memory(
            outputs,
            token_ids=token_ids,
            state=memory_state,
            training=training,
            return_state=True,
            return_attention_scores=True,
            positions=positions,
        )
        return outputs, pack_named("memory", memory_state), weights

    def predict(
        self,
        outputs,
        token_ids,
        state=None,
        training=False,
        targets=None,
        drawn=None,
        sample_weight=None,
        positions=None,
    ):
        """Predicts the next token by the head, and the mixture if there is one.

        Args:
            outputs: float tensor `(batch, time, units)`.
            token_ids: int32 tensor `(batch, time)`.
            state, training, targets, sample_weight: as of `forward`.
            drawn: a sample of the embedding, or `None`.
            positions: int32 tensor `(batch, queries)`, the steps of the
                outputs that predict, one for each target; `None` for all.

        Returns:
            `(prediction, state)`: a `Prediction`, and the mixture's state.
        """
        projected = outputs
        if positions is not None:
            projected = take_steps(outputs, positions)
        draws = getattr(self.head, "draws", False)
        if sample_weight is not None and self.mixture is None and not draws:
            losses = head_losses(
                self.head, projected, targets, sample_weight, training
            )
            return Prediction(None, -losses, losses), {}
        sample = {"targets": targets, "drawn": drawn} if draws else {}
        logits = self.head(projected, **sample)
        logits, mixture_state, _, auxiliary = self._mix(
            outputs, token_ids, logits, state, training, positions
        )
        if targets is None:
            return Prediction(logits), mixture_state
        losses = token_losses(logits, targets)
        prediction = Prediction(logits, -losses, losses)
        if training and self.mixture is not None and self.mixture.supervised:
            pointed = self.mixture.pointer_log_probability(auxiliary, targets)
            prediction = prediction._replace(loss=losses - pointed)
        return prediction, mixture_state

    def _mix(
        self,
        outputs,
        token_ids,
        logits,
        state,
        training=False,
        positions=None,
    ):
        """Calls the mixture, with its state under the names of the whole."""
        if self.mixture is None:
            return logits, {}, None, None
        mixed, mixture_state, weights, auxiliary = self.mixture(
            outputs,
            token_ids=token_ids,
            logits=logits,
            state=unpack_named(state, "mixture"),
            training=training,
            positions=positions,
        )
        if training and not self.mixture.weights:
            # A mixture without weights does not train, but remembers.
            mixed = logits
        return mixed, pack_named("mixture", mixture_state), weights, auxiliary

    # === The whole model ===

    def initial_state(self, batch_size):
        """Returns all that the model remembers before the first token.

        Returns:
            Flat dict of tensors, batch first: `recurrent_<layer>_state_<i>`
            for each state of each recurrent layer, bottom first, and
            `memory_<name>` and `mixture_<name>` for each state of these.
        """
        state = {}
        for index, layer in (*self._below, *self._above):
            layer_state = tree.flatten(layer.get_initial_state(batch_size))
            for position, value in enumerate(layer_state):
                state[f"recurrent_{index}_state_{position}"] = value
        for name in ("memory", "mixture"):
            layer = getattr(self, name)
            if layer is not None:
                state |= pack_named(name, layer.initial_state(batch_size))
        return state

    def forward(
        self,
        token_ids,
        state=None,
        training=False,
        targets=None,
        sampled=False,
        sample_weight=None,
        positions=None,
    ):
        """Runs the whole model.

        Args:
            token_ids: int32 tensor `(batch, time)`.
            state: dict as of `initial_state`, or `None` for that.
            training: bool, or `None` where Keras is to decide.
            targets: int32 tensor `(batch, time)`, the next tokens, or `None`.
            sampled: bool, whether matrices are drawn as in training.
            sample_weight: float tensor `(batch, time)`, the later factors of
                the losses; with it, logits may be left out. Or `None`.
            positions: int32 tensor `(batch, queries)`, the steps that predict,
                to which targets and weights belong; `None` for all.

        Returns:
            `(prediction, state)`, the first a `Prediction`.
        """
        drawn = self._draw(token_ids) if training or sampled else None
        # A mixture reads the outputs of all steps.
        early = positions if self.mixture is None else None
        outputs, new_state, _ = self._read(
            token_ids, state, training, drawn, early
        )
        prediction, mixture_state = self.predict(
            outputs,
            token_ids,
            state,
            training,
            targets,
            drawn,
            sample_weight,
            positions if early is None else None,
        )
        if training:
            # At the end, since a layer forgets its losses when it is called,
            # and those of the layers that it holds.
            for layer in (self.embedding, self.head):
                if getattr(layer, "draws", False):
                    layer.add_divergence()
        return prediction, new_state | mixture_state

    def step(self, token_ids, state=None, training=False, positions=None):
        """Runs the whole model; returns `(logits, state)`."""
        prediction, state = self.forward(
            token_ids, state, training, positions=positions
        )
        return prediction.logits, state

    def score(self, token_ids, targets, state=None, sampled=False):
        """Scores the next tokens, for inference.

        Returns:
            `(scores, state)`: the natural-log probability of each target,
            float32 `(batch, time)`, and the new state.
        """
        prediction, state = self.forward(
            token_ids,
            state,
            targets=targets,
            sampled=sampled,
            sample_weight=ops.ones_like(targets, dtype="float32"),
        )
        return prediction.log_probability, state

    def attend(self, token_ids, state=None):
        """Returns the attention weights and the new state, for inference.

        The weights are those of the memory; where it has none, the mixture's.
        """
        outputs, new_state, weights = self._read(token_ids, state)
        _, mixture_state, of_mixture, _ = self._mix(
            outputs, token_ids, None, state
        )
        if self.memory is None or not self.memory.attends:
            weights = of_mixture
        return weights, new_state | mixture_state

    def outputs(self, token_ids, targets, state=None):
        """Returns the inputs of the head and its scores, for inference.

        Returns:
            `((outputs, scores), state)`: `(batch, time, units)` and the
            natural-log probability of each target by the head alone, `(batch,
            time)`; and the state of all but a mixture.
        """
        outputs, state, _ = self._read(token_ids, state)
        losses = head_losses(self.head, outputs, targets)
        return (outputs, -losses), state

    def _read(
        self,
        token_ids,
        state=None,
        training=False,
        drawn=None,
        positions=None,
    ):
        """Embeds, recurs and remembers: all before the prediction."""
        vectors = self.embed(token_ids, training, drawn)
        outputs, below = self.recur(vectors, state, training)
        early = None if self._above else positions
        outputs, remembered, weights = self.remember(
            outputs, token_ids, state, training, early
        )
        outputs, above = self.recur(outputs, state, training, above=True)
        if early is None and positions is not None:
            outputs = take_steps(outputs, positions)
        return outputs, below | remembered | above, weights

    def _draw(self, token_ids):
        if not getattr(self.embedding, "draws", False):
            return None
        draws = getattr(self.head, "draws", False)
        units = self.head.matrix.shape[-1] if draws else 0
        return self.embedding.draw(token_ids, units)
