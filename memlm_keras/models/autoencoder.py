"""Sequence autoencoders encode a sequence and generate the same sequence."""

import functools

import keras
import numpy as np
from keras import ops

from memlm_keras.arguments import require_one_of
from memlm_keras.arguments import require_positive_integer
from memlm_keras.arguments import require_token_ids
from memlm_keras.arguments import require_vocabulary
from memlm_keras.models import layers
from memlm_keras.models.backbone import compile_inference
from memlm_keras.models.generation import Sampling
from memlm_keras.models.generation import is_text
from memlm_keras.models.generation import require_strings
from memlm_keras.models.pairs import CONDITIONINGS
from memlm_keras.models.pairs import DualSequenceModel
from memlm_keras.models.pairs import LayerMaker
from memlm_keras.models.pairs import LengthMask
from memlm_keras.models.pairs import padded
from memlm_keras.models.pairs import require_conditioning
from memlm_keras.models.pairs import starting_states
from memlm_keras.models.quantization import forget_compiled


@keras.saving.register_keras_serializable(package="memlm_keras")
class SequenceAutoencoder(DualSequenceModel):
    """Encodes and decodes sequences (Weissenborn, 2016, Section 5.3).

    A recurrent layer, the encoder, reads a sequence. A second recurrent layer,
    the decoder, generates that sequence from the encoder's final memory.
    Encoder and decoder share only the embeddings. In training, the decoder
    reads the correct tokens (teacher forcing); in `generate`, its own outputs.

    Args:
        vocabulary_size, embedding_dim, initializer: see `EntailmentClassifier`.
        embeddings_initializer, name, dtype: see `EntailmentClassifier`.
        encoder: Keras recurrent layer, or cell, that reads the sequence.
        decoder: layer or cell of the same size that generates the sequence.
        conditioning: `"source"` or `"memory"`, as in `EntailmentClassifier`.
        dropout: float in [0, 1), rate for embeddings and the head's inputs.
        end_of_sentence_id: integer, id that starts and ends each generated
            sequence; `None` for the id of `vocabulary`, or 0 without one.
        vocabulary: `memlm_keras.data.Vocabulary` that is saved with the model,
            so that the model reads and writes strings; or `None`.

    Call arguments:
        inputs: dict of int32 tensors, as in
            `memlm_keras.data.AutoencodingBatches`: `"source"` `(batch, time)`,
            `"source_length"` `(batch,)`, at least 1, and `"target"`
            `(batch, time)`, the decoder's inputs. Tokens after `source_length`
            are ignored.
        training: optional bool.

    Returns:
        Logits `(batch, time, vocabulary_size)`.

    Raises:
        ValueError: if an argument is not as described, or a layer runs
            backwards or is `stateful`.

    Example:

    >>> model = memlm_keras.SequenceAutoencoder(
    ...     vocabulary_size=100,
    ...     embedding_dim=8,
    ...     encoder=memlm_keras.cells.AssociativeGRUCell(8),
    ...     decoder=memlm_keras.cells.DualAssociativeGRUCell(8),
    ... )
    >>> len(model.generate([[5, 7, 2, 0]], max_length=6)[0]) <= 6
    True
    """

    preset_kind = "SequenceAutoencoder"
    projection_layer = None

    def __init__(
        self,
        vocabulary_size=None,
        embedding_dim=None,
        encoder=None,
        decoder=None,
        conditioning="source",
        dropout=0.0,
        end_of_sentence_id=None,
        initializer=None,
        embeddings_initializer=None,
        vocabulary=None,
        name=None,
        dtype=None,
    ):
        vocabulary_size = layers.size_of(vocabulary_size, vocabulary)
        require_positive_integer("vocabulary_size", vocabulary_size)
        if end_of_sentence_id is None:
            end_of_sentence_id = getattr(vocabulary, "end_of_sentence_id", 0)
        make = LayerMaker(dropout, initializer, dtype)
        encoder = layers.as_recurrent_layer("encoder", encoder)
        decoder = layers.as_recurrent_layer("decoder", decoder)
        require_one_of("conditioning", conditioning, CONDITIONINGS)
        require_conditioning(conditioning, encoder, decoder)
        if getattr(encoder, "cell", None) is getattr(decoder, "cell", encoder):
            raise ValueError(
                "`encoder` and `decoder` must be two layers, because they "
                f"share no parameters. Received twice: {encoder!r}"
            )
        require_positive_integer("end_of_sentence_id", end_of_sentence_id, 0)
        if end_of_sentence_id >= vocabulary_size:
            raise ValueError(
                "`end_of_sentence_id` must be below vocabulary_size="
                f"{vocabulary_size} and not negative. Received: "
                f"{end_of_sentence_id}"
            )

        # === Layers ===
        embedding = make.embedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer,
            readers=(encoder, decoder),
        )
        head = make.dense(vocabulary_size, "head")

        # === Functional model ===
        inputs = {
            name: keras.Input(shape, dtype="int32", name=name)
            for name, shape in (
                ("source", (None,)),
                ("source_length", ()),
                ("target", (None,)),
            )
        }
        backbone = EncoderDecoder(
            embedding=embedding,
            encoder=encoder,
            decoder=decoder,
            head=head,
            conditioning=conditioning,
            dropouts={
                name: make.dropout_layer(f"dropout_{name}")
                for name in ("source", "target", "outputs")
            },
        )
        states = backbone.encode(
            inputs["source"], inputs["source_length"], training=None
        )
        logits, _ = backbone.decode(inputs["target"], states, training=None)
        super().__init__(inputs=inputs, outputs=logits, name=name)

        # === Config ===
        self.vocabulary_size = vocabulary_size
        self.vocabulary = vocabulary
        if vocabulary is not None:
            require_vocabulary(self, vocabulary)
        self.embedding_dim = embedding_dim
        self.encoder = encoder
        self.decoder = decoder
        self.conditioning = conditioning
        self.dropout = dropout
        self.end_of_sentence_id = end_of_sentence_id
        self.initializer = make.initializer
        self.embedding = embedding
        self.head = head
        self.backbone = backbone

    @property
    def readers(self):
        """Tuple of the encoder and the decoder."""
        return self.encoder, self.decoder

    # A cached property compiles its function once, and is not tracked by Keras.

    @functools.cached_property
    def _encode(self):
        return compile_inference(self, self.backbone.encode)

    @functools.cached_property
    def _decode(self):
        return compile_inference(self, self.backbone.decode)

    @functools.cached_property
    def _sampling(self):
        return Sampling(self, self._decode)

    def quantize(self, *args, **kwargs):
        """Quantizes the weights in place, as `keras.Model.quantize` does."""
        super().quantize(*args, **kwargs)
        forget_compiled(self)

    def generate(self, source, sampler="greedy", max_length=None):
        """Encodes sequences, and generates them from the encoder's memory.

        Args:
            source: list of integer arrays, each ending in `end_of_sentence_id`;
                or, with a `vocabulary`, a string or a list of strings.
            sampler: sampler of `keras_nlp.samplers`, such as
                `BeamSampler(num_beams=5)`, or its name, such as `"greedy"`.
            max_length: integer, maximum number of tokens to generate; `None`
                for twice the length of the longest source.

        Returns:
            List of int32 arrays, without their end ids; or text, like `source`.

        Raises:
            ValueError: for an empty or malformed `source`, and for strings if
                the model has no vocabulary.
        """
        if is_text(source):
            vocabulary = require_strings("source", source, self.vocabulary)
            strings = [source] if isinstance(source, str) else source
            rows = [vocabulary.encode_sentence(string) for string in strings]
            written = [
                vocabulary.detokenize(row)
                for row in self.generate(rows, sampler, max_length)
            ]
            return written[0] if isinstance(source, str) else written
        ids, lengths = padded("source", source)
        if max_length is None:
            max_length = 2 * int(lengths.max())
        require_positive_integer("max_length", max_length)
        ids = require_token_ids("source", ids, self.vocabulary_size)
        # Generation starts from the end-of-sentence id.
        prompt = np.full(
            (len(ids), 1 + max_length), self.end_of_sentence_id, "int32"
        )
        fixed = np.zeros(prompt.shape, "bool")
        fixed[:, 0] = True

        states = self._encode(
            ops.convert_to_tensor(ids), ops.convert_to_tensor(lengths)
        )
        written, ends = self._sampling.write(
            sampler, prompt, fixed, states, stops=[self.end_of_sentence_id]
        )
        return [row[1:end] for row, end in zip(written, ends)]


class EncoderDecoder:
    """Runs the encoder and the decoder of an autoencoder."""

    def __init__(
        self, embedding, encoder, decoder, head, conditioning, dropouts
    ):
        self.embedding = embedding
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.conditioning = conditioning
        self.dropouts = dropouts
        self.mask = LengthMask(name="length_mask")

    def encode(self, source, lengths, training=False):
        """Encodes the source, and returns initial states for the decoder."""
        vectors = self.dropouts["source"](
            self.embedding(source), training=training
        )
        _, *states = self.encoder(
            vectors, mask=self.mask(source, lengths), training=training
        )
        return starting_states(self.conditioning, states, self.decoder)

    def decode(self, target, states, training=False):
        """Decodes target tokens `(batch, time)`; returns logits and states."""
        vectors = self.dropouts["target"](
            self.embedding(target), training=training
        )
        outputs, *states = self.decoder(
            vectors, initial_state=list(states), training=training
        )
        outputs = self.dropouts["outputs"](outputs, training=training)
        return self.head(outputs), states
