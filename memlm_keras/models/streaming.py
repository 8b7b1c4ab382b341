"""Reading with an explicit state: step, read, score, attend, generate."""

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_streaming
from memlm_keras.models import checks
from memlm_keras.models.backbone import reset_rows
from memlm_keras.models.generation import generate
from memlm_keras.models.inference import affordable_steps
from memlm_keras.models.inference import aligned_segments
from memlm_keras.models.inference import segments
from memlm_keras.models.inference import target_log_probabilities


class StreamingModel(keras.Model):
    """What a language model does token by token.

    The subclass sets `vocabulary_size`, `memory`, `mixture` and, in
    `_untracked`, the `backbone` and its compiled forms `infer` and `attend`.
    """

    @property
    def backbone(self):
        """The `Backbone` that everything runs through."""
        return self._untracked.backbone

    @property
    def attending(self):
        """The layer whose weights `attention` returns, or `None`.

        It is the memory; or the mixture, where no memory attends.
        """
        if self.memory is not None and self.memory.attends:
            return self.memory
        return self.mixture

    @property
    def causal(self):
        """Whether the memory reads no words behind the one to predict.

        If it does, a row is one whole sentence, and there is no state to go on
        from.
        """
        return self.memory is None or self.memory.causal

    def initial_state(self, batch_size):
        """The state before the first token.

        Args:
            batch_size: integer.

        Returns:
            Flat dict of tensors, batch first: all that the model remembers.
        """
        return self.backbone.initial_state(batch_size)

    def step(self, tokens, state, training=False):
        """Reads any number of tokens from a given state.

        Args:
            tokens: int32 tensor `(batch, time)`.
            state: dict as returned by `initial_state` or `step`.
            training: bool. With `False` the step is compiled, and records no
                gradient on torch.

        Returns:
            `(logits, state)`: `(batch, time, vocabulary_size)` and the state
            after the last token.

        Raises:
            ValueError: for tokens that are not `(batch, time)`, token ids
                outside the vocabulary, a state of other names or of another
                batch size, and a model that reads ahead.
        """
        require_streaming("`step`", self)
        checks.concrete_token_ids(tokens, self.vocabulary_size)
        tokens = ops.convert_to_tensor(tokens, dtype="int32")
        checks.rank_two("tokens", tokens)
        checks.state(state, self._untracked.one_row, tokens.shape[0])
        if training:
            return self.backbone.forward(tokens, state, training)
        return self._untracked.infer(tokens, state)

    def read(self, rows):
        """Reads rows of any lengths, each from an empty history.

        Every row is read in pieces of its own, whose lengths are powers of
        two, and keeps its state while others go on. So nothing is padded, and
        rows of whatever lengths compile no more than eight shapes for each
        number of rows. Nothing is predicted: the head does not run.

        Args:
            rows: list of int arrays `(time,)`, one a row, which may be empty;
                or one int array `(batch, time)`.

        Returns:
            The state after the last token of each row, as `step` takes it.

        Raises:
            ValueError: for no rows, rows that are not one-dimensional, ids
                that are no integers or outside the vocabulary, and rows that
                are not empty for a model that reads ahead.

        Example:

        >>> state = lm.read([[0, 5, 7], [0]])
        >>> logits, state = lm.step(np.array([[3], [4]]), state)
        """
        tokens, lengths = _side_by_side(rows, self.vocabulary_size)
        if any(lengths):
            require_streaming("`read`", self)
        state = self.initial_state(len(lengths))
        for starts, size, reads in aligned_segments(lengths):
            columns = starts[:, None] + np.arange(size)
            # Rows without a piece of this size read anything; it is forgotten.
            columns = np.minimum(columns, tokens.shape[1] - 1)
            piece = np.take_along_axis(tokens, columns, axis=1)
            before = state
            _, state = self._untracked.attend(
                ops.convert_to_tensor(piece), before
            )
            if not reads.all():
                state = reset_rows(state, before, ops.convert_to_tensor(~reads))
        return state

    def score(self, token_ids, state=None):
        """Natural-log probability of each next token.

        A model that reads ahead reads all steps at once, and its logits,
        `(batch, time - 1, vocabulary_size)`, are in memory together.

        Args:
            token_ids: int array `(batch, time)`, time at least 2.
            state: dict as returned by `step` or `read`, what was read before
                the first token; `None` for an empty history.

        Returns:
            float32 array `(batch, time - 1)`: entry t is
            `log p(token_ids[t + 1] | state, token_ids[: t + 1])`, for a model
            that reads ahead given the words behind `t + 1` as well.

        Raises:
            ValueError: for ids that are not `(batch, time >= 2)` or outside
                the vocabulary, a state of other names or of another batch
                size; and, for a model that reads ahead, a state, or rows of
                more than one sentence.

        Example:

        >>> lm.score(np.array([[0, 5, 7, 0]])).shape
        (1, 3)
        """
        token_ids = checks.token_id_array(
            "token_ids", token_ids, self.vocabulary_size, minimum_time=2
        )
        if state is None:
            state = self.initial_state(token_ids.shape[0])
        else:
            require_streaming("`score` with a `state`", self)
            checks.state(state, self._untracked.one_row, len(token_ids))
        scores = []
        longest = affordable_steps(len(token_ids), self.vocabulary_size)
        for start, stop in self._pieces("token_ids", token_ids, 1, longest):
            logits, state = self._untracked.infer(
                ops.convert_to_tensor(token_ids[:, start:stop]), state
            )
            targets = token_ids[:, start + 1 : stop + 1]
            scores.append(target_log_probabilities(logits, targets))
        return ops.convert_to_numpy(ops.concatenate(scores, axis=1))

    def _pieces(self, name, token_ids, left_out=0, longest=128):
        """Yields `(start, stop)` of the pieces that a text is read in.

        Args:
            name: string, name of the argument.
            token_ids: integer array `(batch, time)`.
            left_out: integer, tokens at the end that are not read.
            longest: integer, a power of two, most steps of a piece.
        """
        steps = token_ids.shape[1] - left_out
        if self.causal:
            yield from segments(steps, longest)
            return
        checks.one_sentence_a_row(name, token_ids, self.memory)
        yield 0, steps

    def attention(self, tokens):
        """Where the model attends, reading `tokens` from an empty history.

        Args:
            tokens: int array `(batch, time)`.

        Returns:
            float32 array `(batch, time, memory)`, the oldest slot first. A row
            sums to one, or to zero while no slot is filled; or to less where a
            memory reaches further back than it reports (`Attentive`).

        Raises:
            ValueError: if the model has no memory that attends, for ids outside
                the vocabulary, and for rows of more than one sentence if the
                model reads ahead.
        """
        self._require_attention()
        tokens = checks.token_id_array("tokens", tokens, self.vocabulary_size)
        state = self.initial_state(tokens.shape[0])
        attention = []
        for start, stop in self._pieces("tokens", tokens):
            weights, state = self._untracked.attend(
                ops.convert_to_tensor(tokens[:, start:stop]), state
            )
            attention.append(ops.cast(weights, "float32"))
        return ops.convert_to_numpy(ops.concatenate(attention, axis=1))

    def _require_attention(self):
        if self.attending is None:
            raise ValueError(
                "Attention needs a memory that attends, such as "
                "`memlm_keras.memory.KeyValuePredict`. Received: a model with "
                f"memory={self.memory}"
            )

    def generate(
        self,
        prompt,
        max_length,
        sampler="top_k",
        vocabulary=None,
        stop_token_ids=None,
    ):
        """Continues a prompt.

        Args:
            prompt: int array `(time,)` or `(batch, time)`, a list of such rows
                of different lengths, or, with `vocabulary`, a string or a list
                of strings.
            max_length: integer, length of prompt and continuation together.
            sampler: a keras_nlp sampler, or its name: `"greedy"`, `"top_k"`,
                `"top_p"`, `"beam"`, `"random"`, ...
            vocabulary: optional `memlm_keras.data.Vocabulary`.
            stop_token_ids: optional list of ids; generation ends when every
                row has produced one. The first fills the rest of its row; of
                strings it is left out.

        Returns:
            Of the prompt's kind: ids `(max_length,)` or `(batch, max_length)`,
            or strings.

        Raises:
            ValueError: for an empty prompt, a prompt as long as `max_length`,
                ids outside the vocabulary, strings without a vocabulary, or a
                model that reads ahead.

        Example:

        >>> lm.generate(np.array([0, 5]), max_length=10, sampler="greedy").shape
        (10,)
        """
        require_streaming("`generate`", self)
        return generate(
            self, prompt, max_length, sampler, vocabulary, stop_token_ids
        )


def _side_by_side(rows, vocabulary_size):
    """Returns int32 ids `(rows, longest)`, checked, and the rows' lengths."""
    rows = [ops.convert_to_numpy(row) for row in rows]
    if any(row.ndim != 1 for row in rows):
        raise ValueError(
            "`rows` must hold arrays of token ids of shape (time,). Received: "
            f"shapes {[row.shape for row in rows]}"
        )
    lengths = [len(row) for row in rows]
    # An empty list has no integer type of its own.
    types = [row.dtype for row in rows if len(row)]
    shape = (len(rows), max(lengths, default=0) or 1)
    tokens = np.zeros(shape, np.result_type("int32", *types))
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
    return checks.token_id_array("rows", tokens, vocabulary_size), lengths
