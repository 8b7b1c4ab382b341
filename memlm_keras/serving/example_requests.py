"""A request for each signature, that servers are warmed up with.

Runs on the TensorFlow backend of Keras only.
"""

import itertools
import json

import tensorflow as tf

_WORDS = 3


def example_requests(functions, vocabulary, max_length=_WORDS):
    """Makes a request of one row for each signature.

    Args:
        functions: dict of concrete functions by the name of the signature.
        vocabulary: `memlm_keras.data.Vocabulary` whose words they ask about.
        max_length: integer, most tokens of a row.

    Returns:
        Dict, by the name of the signature, of dicts of tensors.
    """
    words = list(itertools.islice(_words(vocabulary), _WORDS)) or [
        vocabulary.tokens[vocabulary.unknown_id]
    ]
    while len(words) > 1 and len(vocabulary.encode(" ".join(words))) > (
        max_length - 1
    ):
        words.pop()
    ids = list(vocabulary.encode(" ".join(words)))[:max_length]
    text = tf.constant([" ".join(words)])
    values = {
        "text": text,
        "premise": text,
        "hypothesis": text,
        "token_ids": tf.constant([ids], tf.int32),
        "rows": tf.constant([0]),
        "length": tf.constant([len(ids)]),
        "top_k": tf.constant([1]),
        "temperature": tf.constant([1.0]),
        "seed": tf.constant([0]),
    }
    if "initial_state" in functions:
        values |= functions["initial_state"](rows=values["rows"])
    return {
        name: {key: values[key] for key in inputs(function)}
        for name, function in functions.items()
    }


def inputs(function):
    """`tf.TensorSpec`s of the inputs of a signature, by their names."""
    specs = tf.nest.flatten(function.structured_input_signature)
    return {spec.name: spec for spec in specs}


def as_json(signature, request):
    """A request as the body of one by REST.

    Args:
        signature: string, its name.
        request: dict of tensors.

    Returns:
        String of JSON.
    """
    columns = {key: _plain(value.numpy()) for key, value in request.items()}
    return json.dumps({"signature_name": signature, "inputs": columns})


def _plain(array):
    if array.dtype == object:
        return [item.decode() for item in array]
    return array.tolist()


def _words(vocabulary):
    """Words that are read as they stand, those of letters first."""
    special = (vocabulary.unknown_id, vocabulary.end_of_sentence_id)
    tokens = list(enumerate(vocabulary.tokens))
    for index, token in sorted(tokens, key=lambda item: not item[1].isalpha()):
        if index not in special and list(vocabulary.encode(token)) == [index]:
            yield token
