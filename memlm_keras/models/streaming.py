"""Language models with an explicit state: step, score, generate."""

import functools
import itertools

import keras
import numpy as np
from keras import ops
from keras import tree

from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_state
from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_token_ids
from memlm_keras.data import Batches
from memlm_keras.data.batches import concatenate_batches
from memlm_keras.models import generation
from memlm_keras.models import quantization
from memlm_keras.models import surprisal
from memlm_keras.models.backbone import compile_inference
from memlm_keras.models.backbone import reset_rows
from memlm_keras.models.sequence_model import require_readable
from memlm_keras.training import distribution

# Numbers of sentences and of steps that `measure_words` reads at once.
# Sentences are short, so more steps would waste computation on padding.
_ROWS, _STEPS = 32, 16


class StreamingModel(keras.Model):
    """A language model as a function of tokens and a state.

    The methods of this class work without `compile`. `backbone` is a `Backbone`
    or an object with the same methods; `token_ids` and `logits` are the input
    and output of the functional graph.

    Attributes:
        causal: bool, whether a prediction depends on earlier words only. If
            `causal` is false, each row is one whole sentence, without a state.
        quantized_layers: sequence of `Quantized`, the report of the last call
            of `quantize`, with `layer`, `kind`, `what`, `bytes_before` and
            `bytes_after` of each layer.
    """

    quantized_layers = ()

    def __init__(
        self,
        backbone,
        token_ids,
        logits,
        vocabulary_size,
        vocabulary=None,
        name=None,
    ):
        super().__init__(inputs=token_ids, outputs=logits, name=name)
        self.backbone = backbone
        self.vocabulary_size = vocabulary_size
        self.vocabulary = vocabulary
        self.causal = backbone.memory is None or backbone.memory.causal

    @property
    def memory(self):
        """The model's memory, or `None`."""
        return self.backbone.memory

    @property
    def mixture(self):
        """The layer that mixes recent words into predictions, or `None`."""
        return self.backbone.mixture

    @property
    def attending(self):
        """The layer whose weights `attention` returns: the memory or, if the
        memory does not attend, the mixture; `None` without such a layer."""
        if self.memory is not None and self.memory.attends:
            return self.memory
        return self.mixture

    # A cached property compiles its function once, and is not tracked by Keras.

    @functools.cached_property
    def _step(self):
        return compile_inference(self, self.backbone.step)

    @functools.cached_property
    def _attend(self):
        return compile_inference(self, self.backbone.attend)

    @functools.cached_property
    def _score(self):
        return compile_inference(self, self.backbone.score)

    @functools.cached_property
    def _measure(self):
        def measure(token_ids, targets, state):
            logits, state = self.backbone.step(token_ids, state)
            return surprisal.measures_of_logits(logits, targets), state

        return compile_inference(self, measure)

    @functools.cached_property
    def _sampling(self):
        return generation.Sampling(self, self.step)

    @functools.cached_property
    def _state_shapes(self):
        state = self.backbone.initial_state(1)
        return {name: tuple(value.shape[1:]) for name, value in state.items()}

    def export(self, filepath, format="tf_saved_model", **kwargs):
        """Calls `keras.Model.export`, which exports a model without a state.

        Raises:
            ValueError: for the default format on PyTorch, and for
                `format="onnx"` on PyTorch and JAX. Keras' ONNX export fixes the
                sequence length on PyTorch, and needs another package on JAX.
        """
        backend = keras.backend.backend()
        fails = {"torch": ("onnx", "tf_saved_model"), "jax": ("onnx",)}
        if format in fails.get(backend, ()):
            raise ValueError(
                f"Keras' `export` with format={format!r} does not work on "
                f"{backend}. `memlm_keras.serving.export(model, path, "
                f"format={format!r})` works on every backend"
            )
        return super().export(filepath, format=format, **kwargs)

    def initial_state(self, batch_size):
        """Returns the state before the first token, a flat dict of tensors
        `(batch_size, ...)`."""
        return self.backbone.initial_state(batch_size)

    def step(self, tokens, state, training=False):
        """Reads any number of tokens from a given state.

        Args:
            tokens: int32 tensor `(batch, time)`.
            state: dict as returned by `initial_state` or `step`.
            training: bool; if false, the step is compiled, and PyTorch computes
                no gradients.

        Returns:
            `(logits, state)`: logits `(batch, time, vocabulary_size)`, and the
            state after the last token.

        Raises:
            ValueError: for tokens of another shape, ids outside the vocabulary,
                a wrong state, and a model that is not causal.
        """
        require_streaming("`step`", self)
        if not ops.is_tensor(tokens):
            tokens = require_token_ids(
                "tokens", tokens, self.vocabulary_size, ndim=None
            )
        tokens = ops.convert_to_tensor(tokens, dtype="int32")
        if len(tokens.shape) != 2:
            raise ValueError(
                "`tokens` must be of shape (batch, time), such as (batch, 1). "
                f"Received: shape {tuple(tokens.shape)}"
            )
        require_state(state, self._state_shapes, tokens.shape[0])
        if training:
            return self.backbone.step(tokens, state, training)
        return self._step(tokens, state)

    def read(self, rows):
        """Reads rows of any length, each from an empty context.

        Rows are not padded: each is read in pieces whose lengths are powers of
        two, and keeps its state while other rows are read. At most eight shapes
        are compiled for each number of rows. No logits are computed.

        Args:
            rows: list of int arrays `(time,)`, which may be empty; or one int
                array `(batch, time)`.

        Returns:
            The state after the last token of each row, to pass to `step`.

        Raises:
            ValueError: if the rows are not as described, ids are outside the
                vocabulary, or the model is not causal.

        Example:

        >>> state = lm.read([[0, 5, 7], [0]])
        >>> logits, state = lm.step(np.array([[3], [4]]), state)
        """
        rows = [ops.convert_to_numpy(row) for row in rows]
        if any(row.ndim != 1 for row in rows):
            raise ValueError(
                "`rows` must hold arrays of token ids of shape (time,). "
                f"Received: shapes {[row.shape for row in rows]}"
            )
        lengths = [len(row) for row in rows]
        # NumPy converts an empty list to an array of floats.
        types = [row.dtype for row in rows if len(row)]
        tokens = keras.utils.pad_sequences(
            rows,
            max(lengths, default=0) or 1,
            np.result_type("int32", *types),
            padding="post",
        )
        tokens = require_token_ids("rows", tokens, self.vocabulary_size)
        if any(lengths):
            require_streaming("`read`", self)
        state = self.initial_state(len(lengths))
        for starts, size, reads in aligned_segments(lengths):
            columns = starts[:, None] + np.arange(size)
            # Rows without a segment of this size read arbitrary tokens, too;
            # below, their previous state is restored.
            columns = np.minimum(columns, tokens.shape[1] - 1)
            piece = np.take_along_axis(tokens, columns, axis=1)
            before = state
            _, state = self._attend(ops.convert_to_tensor(piece), before)
            if not reads.all():
                state = reset_rows(state, before, ops.convert_to_tensor(~reads))
        return state

    def score(self, token_ids, state=None):
        """Computes the natural-log probability of each next token.

        A model that is not causal reads all steps at once, and allocates all
        logits, `(batch, time, vocabulary)`.

        Args:
            token_ids: int array `(batch, time)`, at least two tokens per row;
                or, for a model with a `vocabulary`, a string or a list of
                strings. An end-of-sentence token is added before and after
                each string.
            state: optional dict to start from, as for `step`.

        Returns:
            float32 array `(batch, time - 1)`: entry `t` is the log-probability
            of token `t + 1` given the tokens up to `t`; if the model is not
            causal, also given the words after `t + 1`. For a string, an array
            `(words + 1,)`, whose last entry belongs to the sentence end; for a
            list of strings, a list of arrays.

        Raises:
            ValueError: for other shapes, ids outside the vocabulary, strings
                without a vocabulary, or a wrong state; and, if the model is not
                causal, for any state, or a row with several sentences.
        """
        if generation.is_text(token_ids):
            vocabulary = generation.require_strings(
                "token_ids", token_ids, self.vocabulary
            )
            texts = [token_ids] if isinstance(token_ids, str) else token_ids
            end = [vocabulary.end_of_sentence_id]
            scores = [
                self.score(np.concatenate([end, ids, end])[None], state)[0]
                for ids in map(vocabulary.encode, texts)
            ]
            return scores[0] if isinstance(token_ids, str) else scores
        token_ids = require_token_ids(
            "token_ids", token_ids, self.vocabulary_size, minimum_time=2
        )
        if state is None:
            state = self.initial_state(token_ids.shape[0])
        else:
            require_streaming("`score` with a `state`", self)
            require_state(state, self._state_shapes, len(token_ids))
        scores = []
        longest = affordable_steps(len(token_ids), self.vocabulary_size)
        for start, stop in self._pieces("token_ids", token_ids, 1, longest):
            part, state = self._score(
                ops.convert_to_tensor(token_ids[:, start:stop]),
                ops.convert_to_tensor(token_ids[:, start + 1 : stop + 1]),
                state,
            )
            scores.append(part)
        return ops.convert_to_numpy(ops.concatenate(scores, axis=1))

    def _pieces(self, name, token_ids, left_out=0, longest=128):
        """Splits rows into pieces `(start, stop)` that the model reads at once,
        without the last `left_out` tokens of each row."""
        steps = token_ids.shape[1] - left_out
        if self.causal:
            return segments(steps, longest)
        ended = token_ids[:, 1:] == getattr(
            self.memory, "end_of_sentence_id", None
        )
        rows = np.flatnonzero((ended[:, :-1] & ~ended[:, 1:]).any(axis=1))
        if len(rows):
            raise ValueError(
                f"`{name}` must have one sentence per row, because a "
                f"{type(self.memory).__name__} is not causal. Received: words "
                f"after the end of a sentence in row {rows[0]}"
            )
        return [(0, steps)]

    def attention(self, tokens):
        """Computes attention weights at each token, from an empty context.

        Args:
            tokens: int array `(batch, time)`.

        Returns:
            float32 array `(batch, time, memory)`, the oldest slot first. The
            weights of a step sum to one, or to zero while no slot is filled. In
            a `memlm_keras.memory.Attentive`, the sum may be smaller, since
            older outputs have weight, too.

        Raises:
            ValueError: if no layer attends, ids are outside the vocabulary, or
                a row has several sentences although the model is not causal.
        """
        self._require_attention()
        tokens = require_token_ids("tokens", tokens, self.vocabulary_size)
        state = self.initial_state(tokens.shape[0])
        attention = []
        for start, stop in self._pieces("tokens", tokens):
            weights, state = self._attend(
                ops.convert_to_tensor(tokens[:, start:stop]), state
            )
            attention.append(ops.cast(weights, "float32"))
        return ops.convert_to_numpy(ops.concatenate(attention, axis=1))

    def _require_attention(self):
        """Raises `ValueError` if no layer of the model attends."""
        if self.attending is None:
            raise ValueError(
                "Attention needs a memory that attends, such as a "
                f"`KeyValuePredict`. Received: memory={self.memory}"
            )

    def generate(
        self,
        prompt,
        max_length,
        sampler="top_k",
        vocabulary=None,
        stop_token_ids=None,
        suppress_token_ids=None,
    ):
        """Continues a prompt.

        Args:
            prompt: int array `(time,)` or `(batch, time)`, a list of rows with
                different lengths, or, with a vocabulary, a string or a list of
                strings. Only for an empty string, the model first reads an
                end-of-sentence token, which is not returned.
            max_length: integer, length of prompt and continuation together.
            sampler: a keras_nlp sampler, or its name: `"greedy"`, `"top_k"`,
                `"top_p"`, `"beam"` or `"random"`.
            vocabulary: `memlm_keras.data.Vocabulary`; `None` for the model's.
            stop_token_ids: list of ids; generation ends when every row contains
                one of them. A stop token fills the rest of its row; strings end
                before the stop token. With a vocabulary, `None` means the
                end-of-sentence token, which is then never generated directly
                after a prompt. Pass `()` to never stop early.
            suppress_token_ids: list of ids that are never generated, such as
                `[vocabulary.unknown_id]`, or `None`.

        Returns:
            Ids, `(max_length,)` or `(batch, max_length)`, or strings: the type
            of the prompt.

        Raises:
            ValueError: if an argument is not as described, ids are outside the
                vocabulary, or the model is not causal.

        Example:

        >>> lm.generate(np.array([0, 5]), max_length=10, sampler="greedy").shape
        (10,)
        """
        require_streaming("`generate`", self)
        return generation.generate(
            self,
            prompt=prompt,
            max_length=max_length,
            sampler=sampler,
            vocabulary=vocabulary,
            stop_token_ids=stop_token_ids,
            suppress_token_ids=suppress_token_ids,
        )

    # === Batches, with the state carried from one to the next ===

    def score_batches(self, batches, verbose=0):
        """Computes the natural-log probability of every target in batches.

        Args:
            batches: `memlm_keras.data.Batches`, or a dataset with `batch_size`.
            verbose: as in `keras.Model.predict`.

        Returns:
            `(scores, sample_weight)`, two float32 arrays
            `(number of batches * batch_size, longest time)`; scores with weight
            zero are undefined.

        Raises:
            ValueError: if the batches contain ids outside the vocabulary, or
                are not `SentenceBatches` although the model is not causal.
        """
        return concatenate_batches(
            read_batches(self, self._score, batches, verbose=verbose)
        )

    def attention_batches(self, batches):
        """Computes attention weights for batches, with a carried state.

        Args:
            batches: as for `score_batches`.

        Yields:
            A pair `(weights, sample_weight)` of float32 arrays per batch:
            `(batch, time, memory)` and `(batch, time)`.

        Raises:
            ValueError: like `score_batches`, and if no layer attends.
        """
        self._require_attention()

        def attend(token_ids, targets, state):
            return self._attend(token_ids, state)

        for weights, sample_weight in read_batches(self, attend, batches):
            weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
            yield weights, sample_weight

    # === Words ===

    def surprisal(self, text, vocabulary=None, unit="bits", reset=False):
        """Computes surprisal, entropy and rank of each word of a text.

        See `memlm_keras.evaluation.surprisal`.

        Example:

        >>> words = lm.surprisal("the man\\nwas born", corpus.vocabulary)
        >>> words.sentence.tolist()
        [1, 1, 1, 2, 2, 2]
        >>> list(words.columns())[3]
        'surprisal_bits'
        """
        return surprisal.surprisal(self, text, vocabulary, unit, reset)

    def measure_words(
        self, tokens, starts, end_of_sentence_id=0, segment_length=None
    ):
        """Computes surprisal (nats), entropy (nats) and rank of each token.

        Args:
            tokens: integer array `(tokens,)`.
            starts: integer array, offsets of documents, each of which starts
                from the initial state.
            end_of_sentence_id: integer, id that is read before each document.
            segment_length: integer, number of steps to read at once, or `None`.

        Returns:
            float64 array `(tokens, 3)`.
        """
        # Sizes are powers of two, so that few shapes are compiled.
        rows = min(_power_of_two(len(starts)), _ROWS)
        # Surprisal, entropy and rank take several times the memory of logits.
        steps = affordable_steps(4 * rows, self.vocabulary_size)
        steps = min(steps, _STEPS) if rows > 1 else steps
        longest = np.diff(starts, append=len(tokens)).max()
        batches = Batches(
            tokens,
            batch_size=rows,
            segment_length=segment_length or min(steps, _power_of_two(longest)),
            document_starts=starts,
            end_of_sentence_id=end_of_sentence_id,
        )
        measured = np.zeros((len(tokens), 3))
        for (part, weight), (_, place, _) in zip(
            read_batches(self, self._measure, batches), batches.of_offsets()
        ):
            counted = weight > 0
            measured[place[counted]] = ops.convert_to_numpy(part)[counted]
        return measured

    # === Quantization ===

    def quantize(
        self, mode=None, config=None, filters=None, verbose=True, **kwargs
    ):
        """Quantizes the weights in place, and reports the sizes of layers.

        With `"int8"`, embeddings, projections, memories, mixtures, this
        package's cells and Keras' LSTM, GRU and SimpleRNN take a quarter of the
        space. Keras quantizes embedding and projection; other matrices have one
        scale per column, and become floats for products. Layers of other kinds
        keep their weights. A quantized model cannot be trained, but can be
        saved, loaded and exported as a SavedModel.

        Args:
            mode, config, filters: arguments of `keras.Model.quantize`.
            verbose: bool, whether to print the report `quantized_layers`.
            **kwargs: other arguments of `keras.Model.quantize`.

        Raises:
            ValueError: for a model that is already quantized or is smoothed;
                quantize `with_fixed_matrices()` of a smoothed model.

        Example:

        >>> small = lm.with_mixture(None)
        >>> small.quantize("int8", verbose=False)
        >>> [one.what for one in small.quantized_layers if one.layer == "head"]
        ['int8']
        """
        # Set without Keras, which would track the attribute.
        vars(self)["quantized_layers"] = quantization.quantize(
            self, mode, config, filters, verbose, **kwargs
        )


# === Batches ===


def read_batches(
    model,
    function,
    batches,
    start=None,
    segments=None,
    verbose=0,
    weighted=False,
):
    """For each batch, yields the result of `function` and the sample weight.
    `function` takes token ids, targets, state and, if `weighted`, sample
    weight; `function` returns a result and the state for the next batch."""
    require_readable(model, batches)
    if segments is not None:
        require_positive_integer("segments", segments)
    if start is None:
        start = model.initial_state(batches.batch_size)
    start = state = tree.map_structure(distribution.shard_rows, start)
    progress = keras.utils.Progbar(
        len(batches) if segments is None else min(segments, len(batches)),
        verbose=verbose,
    )
    for inputs, targets, sample_weight in itertools.islice(batches, segments):
        if "positions" in inputs:
            raise ValueError(
                "The batches must have a target at each step. Received: "
                'batches with "positions": use `evaluate` or `predict`'
            )
        tokens, targets, weight = (
            distribution.shard_rows(ops.convert_to_tensor(array))
            for array in (inputs["token_ids"], targets, sample_weight)
        )
        reset = ops.convert_to_tensor(inputs["reset"])
        state = reset_rows(state, start, reset)
        arguments = (tokens, targets, state, weight)
        result, state = function(*arguments[: 4 if weighted else 3])
        progress.add(1)
        yield result, sample_weight


# === Pieces of a text ===


def segments(length, longest=128):
    """Yields `(start, stop)` of the segments of a text. Segment lengths are
    powers of two, up to `longest`, so few shapes are compiled."""
    for starts, size, _ in aligned_segments([length], longest):
        yield int(starts[0]), int(starts[0]) + size


def affordable_steps(rows, vocabulary_size):
    """Returns how many steps to read at once: the largest power of two, up to
    128, whose logits take at most 256 MiB."""
    steps = 128
    while steps > 1 and rows * steps * vocabulary_size > 2**26:
        steps //= 2
    return steps


def aligned_segments(lengths, longest=128):
    """Splits rows of given lengths into segments, longest first. Yields the
    start in each row, the number of steps in the segment, and a mask of the
    rows that have this number of steps left."""
    lengths = np.asarray(lengths, "int64")
    starts = np.zeros_like(lengths)
    size = longest
    while size:
        reads = lengths - starts >= size
        if reads.any():
            yield starts, size, reads
            starts = starts + size * reads
        else:
            size //= 2


def _power_of_two(least):
    return 2 ** (int(least) - 1).bit_length()
