"""Asks a served classifier, where nothing but TensorFlow is at hand.

python -I pair_client.py saved_model requests.json responses.json
"""

import json
import sys

import tensorflow as tf

path, requests, responses = sys.argv[1:]
served = tf.saved_model.load(path).signatures["serving_default"]
with open(requests, encoding="utf-8") as file:
    texts = {key: tf.constant(value) for key, value in json.load(file).items()}
found = served(**texts)
refused = []
for premise in ([" "], ["a", "b"]):
    try:
        served(premise=tf.constant(premise), hypothesis=tf.constant(["a"]))
    except tf.errors.InvalidArgumentError as error:
        refused.append(str(error))
with open(responses, "w", encoding="utf-8") as file:
    json.dump(
        {
            "label": [label.decode() for label in found["label"].numpy()],
            "probabilities": found["probabilities"].numpy().tolist(),
            "refused": refused,
        },
        file,
    )
