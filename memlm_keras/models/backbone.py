"""The steps of every language model: embed, recur, remember and predict."""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops
from keras import tree

from memlm_keras.cells.fused import run_layer
from memlm_keras.heads import token_losses
from memlm_keras.heads.projection import head_losses
from memlm_keras.masking import take_steps


class Prediction(NamedTuple):
    """Logits `(batch, time, vocabulary)`, and the log-probability and the loss
    of each target, `(batch, time)`."""

    logits: Any  # The logits are `None` if only losses are computed.
    log_probability: Any = None
    loss: Any = None  # Includes the pointer loss of a supervised mixture.


# === Named states ===


def pack_named(prefix, values):
    """Adds a prefix to each key of a dict of states."""
    return {f"{prefix}_{name}": value for name, value in values.items()}


def unpack_named(state, prefix):
    """Selects the values whose keys have a prefix, and removes the prefix."""
    if state is None:
        return None
    return {
        name.removeprefix(f"{prefix}_"): value
        for name, value in state.items()
        if name.startswith(f"{prefix}_")
    }


def reset_rows(state, initial, reset):
    """Resets the rows of a batch to `initial` where `reset` is true."""

    # `where` copies values, so that assigning a state variable later does not
    # change tensors that the backward pass needs.
    def choose(value, start):
        rows = ops.reshape(reset, (-1,) + (1,) * (len(value.shape) - 1))
        return ops.where(rows, ops.cast(start, value.dtype), value)

    return {name: choose(value, initial[name]) for name, value in state.items()}


# === Layers ===


class Backbone:
    """Runs the layers of a `memlm_keras.LanguageModel`: `forward` calls
    `embed`, `recur`, `remember` and `predict`."""

    # An embedding with `draws=True` has a method `draw`, which samples random
    # matrices. Embedding and head take these matrices as the argument `drawn`.

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
        # For each layer, the names of its states, nested like the states.
        self._names = []
        for index, layer in (*self._below, *self._above):
            states = layer.get_initial_state(1)
            names = [
                f"recurrent_{index}_state_{position}"
                for position in range(len(tree.flatten(states)))
            ]
            self._names.append(tree.pack_sequence_as(states, names))

    def layers(self):
        """Returns a dict from names, such as `recurrent_0`, to layers."""
        named = {"embedding": self.embedding, "head": self.head}
        for index, layer in (*self._below, *self._above):
            named[f"recurrent_{index}"] = layer
        for name in ("memory", "mixture"):
            if getattr(self, name) is not None:
                named[name] = getattr(self, name)
        return named

    # === The steps ===

    def embed(self, token_ids, training=False, drawn=None):
        """Embeds tokens `(batch, time)`; `drawn` is a result of `draw`."""
        sample = {} if drawn is None else {"drawn": drawn}
        vectors = self.embedding(token_ids, training=training, **sample)
        return self.dropouts[0](vectors, training=training)

    def recur(self, outputs, state=None, training=False, above=False):
        """Runs the recurrent layers below the memory, or those `above`; returns
        `(outputs, state)`."""
        new_state = {}
        for index, layer in self._above if above else self._below:
            names, layer_state = self._names[index], None
            if state is not None:
                layer_state = tree.map_structure(state.__getitem__, names)
            outputs, *layer_state = run_layer(
                layer, outputs, layer_state, training
            )
            new_state |= zip(tree.flatten(names), tree.flatten(layer_state))
            outputs = self.dropouts[index + 1](outputs, training=training)
        return outputs, new_state

    def remember(
        self, outputs, token_ids, state=None, training=False, positions=None
    ):
        """Reads from the memory, if any, at all steps or at `positions`
        `(batch, queries)`; returns `(outputs, state, attention weights)`."""
        if self.memory is None:
            if positions is not None:
                outputs = take_steps(outputs, positions)
            return outputs, {}, None
        if (memory_state := unpack_named(state, "memory")) is not None:
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
        """Applies the head and the mixture, if any, at all steps or at
        `positions`. Returns a `Prediction` and the mixture's new states."""
        projected = outputs
        if positions is not None:
            projected = take_steps(outputs, positions)
        draws = getattr(self.head, "draws", False)
        mixture, logits = self.mixture, None
        # In training, a mixture without weights, such as `NeuralCache`, updates
        # its state, but does not change the prediction.
        mixes = mixture is not None and not (training and not mixture.weights)
        if sample_weight is not None and not draws:
            # Given the weights of the losses, the head computes gradients in
            # the forward pass. With a mixture, the weight of each loss depends
            # on the mixture's gradient, known only in the backward pass.
            factors = None if mixes else sample_weight
            losses = head_losses(
                self.head, projected, targets, factors, training
            )
        else:
            sample = {"targets": targets, "drawn": drawn} if draws else {}
            logits = self.head(projected, **sample)
        mixed, mixture_state, _, copies = self._mix(
            outputs,
            token_ids,
            logits if mixes else None,
            state,
            training,
            positions,
        )
        if mixes:
            logits = mixed
        if targets is None:
            return Prediction(logits), mixture_state
        if logits is not None:
            losses = token_losses(logits, targets)
        elif mixes:
            losses = -mixture.log_probability(copies, targets, -losses)
        prediction = Prediction(logits, -losses, losses)
        if training and mixes and mixture.supervised:
            pointed = mixture.pointer_log_probability(copies, targets)
            prediction = prediction._replace(loss=losses - pointed)
        return prediction, mixture_state

    def _mix(
        self, outputs, token_ids, logits, state, training=False, positions=None
    ):
        """Calls the mixture, if any; see `Mixture` for the four results."""
        if self.mixture is None:
            return None, {}, None, None
        mixed, mixture_state, weights, copies = self.mixture(
            outputs,
            token_ids=token_ids,
            logits=logits,
            state=unpack_named(state, "mixture"),
            training=training,
            positions=positions,
        )
        return mixed, pack_named("mixture", mixture_state), weights, copies

    # === The whole model ===

    def initial_state(self, batch_size):
        """Returns the state before the first token, a flat dict of tensors
        `(batch_size, ...)`; recurrent layers come first, from the bottom."""
        state = {}
        for index, layer in (*self._below, *self._above):
            values = tree.flatten(layer.get_initial_state(batch_size))
            state |= zip(tree.flatten(self._names[index]), values)
        for name in ("memory", "mixture"):
            if (layer := getattr(self, name)) is not None:
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
        """Runs the model on token ids `(batch, time)`; returns a `Prediction`
        and the new state. With `sampled`, a smoothed model draws random
        embedding matrices, as in training. With `positions` `(batch, queries)`,
        predicts only at these steps."""
        drawn = self._draw(token_ids) if training or sampled else None
        # A mixture needs all steps' outputs, so `predict` selects `positions`.
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
            # Add losses last, since the call of a layer clears all its losses.
            for layer in (self.embedding, self.head):
                if getattr(layer, "draws", False):
                    layer.add_divergence()
        return prediction, new_state | mixture_state

    def step(self, token_ids, state=None, training=False):
        """Runs the whole model; returns `(logits, state)`."""
        prediction, state = self.forward(token_ids, state, training)
        return prediction.logits, state

    def score(self, token_ids, targets, state=None, sampled=False):
        """Returns the log-probability of each target, and the new state."""
        prediction, state = self.forward(
            token_ids,
            state,
            targets=targets,
            sampled=sampled,
            sample_weight=ops.ones_like(targets, dtype="float32"),
        )
        return prediction.log_probability, state

    def attend(self, token_ids, state=None):
        """Returns the attention weights of the memory (or of the mixture, if
        the memory does not attend) and the new state."""
        outputs, new_state, weights = self._read(token_ids, state)
        _, mixture_state, of_mixture, _ = self._mix(
            outputs, token_ids, None, state
        )
        if self.memory is None or not self.memory.attends:
            weights = of_mixture
        return weights, new_state | mixture_state

    def outputs(self, token_ids, targets, state=None):
        """Returns `((outputs, scores), state)`: inputs of the head and
        log-probabilities of targets. Without targets, `scores` is `None`."""
        outputs, state, _ = self._read(token_ids, state)
        if targets is None:
            return (outputs, None), state
        losses = head_losses(self.head, outputs, targets)
        return (outputs, -losses), state

    def _read(
        self, token_ids, state=None, training=False, drawn=None, positions=None
    ):
        """Runs `embed`, `recur` and `remember`."""
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


# === Inference ===


def compile_inference(model, function):
    """Compiles a function of tensors; on PyTorch, only turns off gradients."""
    # Without compilation, JAX would compile a recurrent layer at each call, and
    # TensorFlow would run one operation at a time.
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        @jax.jit
        def stateless(values, *arguments):
            mapping = list(zip(model.variables, values))
            with keras.StatelessScope(state_mapping=mapping):
                return function(*arguments)

        return lambda *arguments: stateless(
            [variable.value for variable in model.variables], *arguments
        )
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=True)
    import torch

    return torch.no_grad()(function)
