"""Trains the small models that come with the package.

    python recipes/trained.py --backend=jax

Trains an LSTM and a model with attention on the embedded corpus, like
`quickstart.py`, and writes memlm/embedded_lstm and memlm/embedded_attention.
Training takes a few minutes on a CPU core.
"""

import pathlib

from absl import app
from absl import flags

import memlm_keras as memlm
import model_card
import quickstart
from memlm_keras.experiments import process

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "out",
    str(pathlib.Path(memlm.__file__).parent / "presets" / "trained"),
    "Folder that gets memlm/embedded_lstm and memlm/embedded_attention.",
)
flags.DEFINE_enum(
    "dtype",
    "float16",
    ["float32", "float16", "int8"],
    "Dtype of stored matrices.",
)

DESCRIPTIONS = {
    "lstm": "An LSTM without a memory, to compare with the attention model.",
    "attention": "An LSTM with the attention of Daniluk et al. (2017), which "
    "looks back for the name, city and year of a person.",
}


def main(_):
    process.import_keras(FLAGS.backend)
    corpus = memlm.data.load("embedded")
    pathlib.Path(FLAGS.run_dir).mkdir(parents=True, exist_ok=True)
    for kind, description in DESCRIPTIONS.items():
        model, row = quickstart.train(kind, corpus)
        folder = pathlib.Path(FLAGS.out, "memlm", f"embedded_{kind}")
        batches = corpus.batches("test", 32, quickstart.SEGMENT, documents=True)
        card = {
            "description": f"{description} A demonstration: it knows 75 words.",
            "text": "the embedded corpus, generated sentences about people",
            "licence": "Apache-2.0, like the program that generates the text",
            "seed": FLAGS.seed,
            "epochs": FLAGS.epochs,
            "training time": f"{row['seconds']} seconds",
            "command": "python recipes/trained.py --backend="
            f"{process.backend()} --seed={FLAGS.seed} --epochs={FLAGS.epochs} "
            f"--learning_rate={FLAGS.learning_rate} --window={FLAGS.window} "
            f"--dtype={FLAGS.dtype}",
        }
        model_card.save_trained(model, folder, FLAGS.dtype, batches, card)
        print(f"Written: {folder}")


if __name__ == "__main__":
    app.run(main)
