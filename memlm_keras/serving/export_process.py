"""Exports a saved model in a process of its own, on TensorFlow.

Run by `memlm_keras.serving.export` where another backend runs:

    KERAS_BACKEND=tensorflow python -m memlm_keras.serving.export_process \
        model.keras vocabulary.json options path
"""

import json
import sys

import keras

import memlm_keras  # noqa: F401 - registers what the file names.
from memlm_keras import registry
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.serving.saved_model import write_saved_model


def main(model_path, vocabulary_path, options, path):
    # Papers of other packages bring layers of their own.
    registry.papers()
    write_saved_model(
        keras.saving.load_model(model_path, compile=False),
        Vocabulary.from_file(vocabulary_path),
        json.loads(options),
        path,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
