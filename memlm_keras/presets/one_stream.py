"""What presets have in common that read a text as one stream."""

from memlm_keras.presets.serialized import summed_over_time


def given_or_scaled(paper_units, scale, units, embedding_dim):
    """Sizes of layers and embeddings that are both of so many in the paper.

    Args:
        paper_units: integer.
        scale: float, factor on the paper's.
        units: integer or `None`, in place of it.
        embedding_dim: integer or `None`, likewise.

    Returns:
        A tuple `(units, embedding_dim)`.
    """
    scaled = max(1, round(paper_units * scale))
    return units or scaled, embedding_dim or scaled


def one_stream(
    name,
    source,
    model,
    data,
    optimizer,
    schedule,
    published,
    sum_over_time=True,
):
    """A preset whose state is carried through the whole text.

    Args:
        name: string, `"paper/row"`.
        source: string, where the paper has it.
        model: dict, arguments of the model.
        data: tuple of batch size and steps of back-propagation.
        optimizer: serialized optimizer.
        schedule: dict, what is known of it.
        published: tuple of the corpus and of validation and test perplexity.
        sum_over_time: whether the loss is summed over time, as Zaremba et al.
            (2014) have it, and not averaged.

    Returns:
        A dict of plain values.
    """
    batch_size, segment_length = data
    loss = {"loss": summed_over_time()} if sum_over_time else {}
    return {
        "name": name,
        "source": source,
        "model": {"memory": None, **model},
        "units": _units(model["recurrent"][-1]),
        "units_divisor": 1,
        "data": {"batch_size": batch_size, "segment_length": segment_length},
        "optimizer": optimizer,
        **loss,
        "schedule": {**schedule, "selected_by": "validation perplexity"},
        "published": perplexities(*published),
    }


def perplexities(corpus, validation, test):
    """What a paper publishes of a row; perplexities may be `None`."""
    return {
        "corpus": corpus,
        "validation_perplexity": validation,
        "test_perplexity": test,
    }


def _units(layer):
    config = layer["config"]
    while "cell" in config:
        config = config["cell"]["config"]
    return config["units"]
