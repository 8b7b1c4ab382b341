"""Models with the matrices that a smoothed one predicts by."""

from keras import ops


def with_fixed_matrices(model):
    """See `memlm_keras.LanguageModel.with_fixed_matrices`."""
    smoothing = model.smoothing
    if smoothing is None:
        return model
    every_word = ops.arange(model.vocabulary_size, dtype="int32")

    def fixed(table):
        if smoothing.prediction == "mean":
            table = smoothing.mean_rows(table, every_word)
        return ops.convert_to_numpy(table)

    still_tied = model.tie_embeddings and smoothing.smooths_output
    config = {**model.get_config(), "smoothing": None}
    copy = type(model).from_config({**config, "tie_embeddings": still_tied})
    copied = {layer.name: layer for layer in copy.layers}
    for layer in model.layers:
        if layer not in (model.embedding, model.head):
            copied[layer.name].set_weights(layer.get_weights())
    copy.embedding.embeddings.assign(fixed(model.embedding.embeddings))
    if model.output_bias:
        copy.head.bias.assign(model.head.bias)
    if still_tied:
        return copy
    # A matrix that was tied and is smoothed as an input only is two now.
    if smoothing.smooths_output:
        kernel = fixed(model.head.kernel).T
    elif model.tie_embeddings:
        kernel = ops.transpose(model.embedding.embeddings)
    else:
        kernel = model.head.kernel
    copy.head.kernel.assign(kernel)
    return copy
