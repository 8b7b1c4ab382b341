"""Requirements of files of one step, checked before a process writes them."""

from keras import ops

from memlm_keras.data.subwords import SubwordVocabulary
from memlm_keras.models import Ensemble
from memlm_keras.models.copies import in_float32
from memlm_keras.models.ensemble import models_of


def as_float32(model):
    """Returns a language model in float32.

    Args:
        model: `memlm_keras.LanguageModel` or `memlm_keras.Ensemble`.

    Raises:
        ValueError: for a model that is quantized.
    """
    models = models_of(model)
    for layer in (layer for one in models for layer in one.layers):
        if layer.quantization_mode is not None:
            raise ValueError(
                "`model` must not be quantized: the file is in float32. "
                f"Received: a model whose layer {layer.name} is in "
                f"{layer.quantization_mode}. Export it before `quantize`: "
                'format="litert" has a `quantize="int8"` of its own'
            )
    copies = [in_float32(one) for one in models]
    if copies == models:
        return model
    return Ensemble(copies) if isinstance(model, Ensemble) else copies[0]


def require_recogniser(vocabulary, contract, tokens):
    """Raises `ValueError` unless ids are those of a recogniser."""
    if contract is None:
        raise ValueError(
            f"`tokens` is of a `contract`. Received: tokens={tokens!r} and "
            "contract=None"
        )
    if not isinstance(vocabulary, SubwordVocabulary):
        raise ValueError(
            f'contract="{contract}" needs the ids of the recogniser, so a '
            "`memlm_keras.data.SubwordVocabulary` that the model is trained "
            "with: SubwordVocabulary.from_tokens_file('tokens.txt'). Received: "
            f"{type(vocabulary).__name__}"
        )
    if tokens is None:
        return
    wanted = SubwordVocabulary.from_tokens_file(
        tokens,
        unknown=vocabulary.unknown,
        end_of_sentence=vocabulary.end_of_sentence,
    )
    if wanted.tokens != vocabulary.tokens:
        raise ValueError(
            "`tokens` must list the tokens of the model's vocabulary by their "
            f"ids. Received: {tokens}, of {len(wanted)} tokens, for a model of "
            f"{len(vocabulary)}; train it with "
            "SubwordVocabulary.from_tokens_file of that file"
        )


def require_zero_state(model, name):
    """Raises `ValueError` for a state that does not begin with zeros."""
    begun = [
        name
        for name, value in model.initial_state(1).items()
        if ops.convert_to_numpy(value).any()
    ]
    if begun:
        raise ValueError(
            f'"{name}" needs a model whose state begins with '
            "zeros, as the engine begins. Received: a model whose state begins "
            f"otherwise in {', '.join(begun)}"
        )
