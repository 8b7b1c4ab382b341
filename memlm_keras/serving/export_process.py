"""Exports a saved model in a process of its own, on TensorFlow.

Run by `memlm_keras.serving.export` where another backend runs:

    KERAS_BACKEND=tensorflow python -m memlm_keras.serving.export_process \
        model.keras vocabulary.json options path format

There is no vocabulary.json where a format can do without.
"""

import json
import pathlib
import sys

import keras

import memlm_keras  # noqa: F401 - registers what the file names.
from memlm_keras import registry
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.serving import formats


def main(model_path, vocabulary_path, options, path, format):
    # Papers of other packages bring layers of their own.
    registry.papers()
    known = pathlib.Path(vocabulary_path).exists()
    formats.write(
        keras.saving.load_model(model_path, compile=False),
        Vocabulary.from_file(vocabulary_path) if known else None,
        json.loads(options),
        pathlib.Path(path),
        format,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
