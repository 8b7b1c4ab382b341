"""Writing a model with its signatures as a SavedModel.

Runs on the TensorFlow backend of Keras only; `memlm_keras.serving.export`
gets here from every backend.
"""

import tensorflow as tf

from memlm_keras.models import EntailmentClassifier
from memlm_keras.serving import model_card
from memlm_keras.serving import warm_up
from memlm_keras.serving.entailment_signatures import EntailmentSignatures
from memlm_keras.serving.example_requests import example_requests
from memlm_keras.serving.signatures import LanguageModelSignatures


def write(model, vocabulary, options, path):
    """Writes a model with its signatures as a SavedModel.

    Args:
        model: model of this package.
        vocabulary: `memlm_keras.data.Vocabulary` of the model's size.
        options: dict, further arguments of its signatures, and `card`, a dict
            of what is said of the model.
        path: folder to write.
    """
    options = dict(options)
    card = options.pop("card")
    kind = LanguageModelSignatures
    if isinstance(model, EntailmentClassifier):
        kind = EntailmentSignatures
    signatures = kind(model, vocabulary, **options)
    functions = signatures.concrete_functions()
    # The model is not tracked itself: it may hold a state carried from batch
    # to batch, which all requests to a server would share.
    module = tf.Module()
    module.words = signatures.words.resources
    module.weights = functions["serving_default"].variables
    tf.saved_model.save(module, str(path), signatures=functions)
    extra = path / "assets.extra"
    extra.mkdir()
    limit = {k: options[k] for k in ("max_length",) if k in options}
    requests = example_requests(functions, vocabulary, **limit)
    warmed_up = warm_up.write(requests, extra)
    model_card.write(functions, requests, card, warmed_up, extra)
