"""Arguments that layers and models have in common."""


def require_positive_integer(name, value, minimum=1):
    """Raises `ValueError` unless `value` is an integer from `minimum` on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. "
            f"Received: {name}={value!r}"
        )


def require_rate(name, value):
    """Raises `ValueError` unless `value` is a rate in [0, 1)."""
    if not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be at least 0 and less than 1. "
            f"Received: {name}={value!r}"
        )


def require_vocabulary(model, vocabulary):
    """Raises `ValueError` unless a vocabulary can be the model's.

    It must be of its size, and, where the model knows its own, be that one.
    """
    own = getattr(model, "vocabulary", None)
    if own is not None and vocabulary != own:
        raise ValueError(
            "`vocabulary` must be the model's own, with the same tokens, ids "
            "and tokenizer, or be left out. Received: "
            f"{vocabulary!r}, of the fingerprint {vocabulary.fingerprint}, for "
            f"a model with {own!r}, of the fingerprint {own.fingerprint}"
        )
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            "`vocabulary` must be the one that the model was trained with, of "
            f"vocabulary_size={model.vocabulary_size}. Received: a vocabulary "
            f"of {len(vocabulary)} tokens"
        )


def require_streaming(what, model):
    """Raises `ValueError` for a model that reads ahead.

    Args:
        what: string, what was asked for.
        model: `memlm_keras.LanguageModel`.
    """
    if not model.causal:
        raise ValueError(
            f"{what} needs a model that reads forward only. Received: a model "
            f"with a {type(model.memory).__name__}, which reads ahead in whole "
            "sentences. It has `lm(tokens)`, `lm.score(tokens)` and "
            "`lm.attention(tokens)`; for the rest, take a memory of what was "
            "read before, such as `memlm_keras.memory.MemoryBlock`."
        )


def distinct(initializer, index):
    """Returns an initializer of the same kind with values of its own.

    One initializer gives the same values each time it is asked for the same
    shape, and so do its clones if it has a seed: sharing either would make
    equal matrices.

    Args:
        initializer: Keras initializer.
        index: integer, different for each weight of a layer or model.
    """
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += index
    return type(initializer).from_config(config)
