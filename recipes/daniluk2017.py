"""Trains key-value-predict attention as in Daniluk et al., Frustratingly Short
Attention Spans in Neural Language Modeling (2017, Section 2.3).

    python recipes/daniluk2017.py --data_dir=path/to/ptb
    python recipes/daniluk2017.py --dataset=embedded --scale=0.2 --epochs=8

Trains the row key_value_predict of Figure 2 (c), measures it, and exports it
for TensorFlow Serving. The paper's Wikipedia articles (goo.gl/s8cyYa) are not
available, so the default text is Penn Treebank. `memlm train
daniluk2017/key_value_predict` gives the same weights as this program; `memlm
table daniluk2017` lists the paper's tables.
"""

import keras
from absl import app
from absl import flags
from keras.initializers import RandomUniform

import memlm_keras as memlm

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "dataset", "ptb", ["ptb", "wikitext-2", "embedded"], "Training text."
)
flags.DEFINE_string("data_dir", None, "Folder of the text; default: download.")
flags.DEFINE_float("scale", 1.0, "Factor on the paper's sizes.", 0.0)
# The paper does not state the number of epochs.
flags.DEFINE_integer("epochs", 30, "Maximum number of epochs.", 1)
flags.DEFINE_integer("seed", 0, "Random seed.")
flags.DEFINE_string(
    "out", "saved_models/daniluk2017", "Folder to export to, or empty."
)

# Section 4.1: batches of 64, back-propagation through 20 steps.
BATCH_SIZE, STEPS = 64, 20


def make_model(vocabulary, scale):
    """Makes an LSTM with attention over its last five outputs (Eq. 16, 17)."""

    def uniform():
        # Section 4.1; only the bias of the forget gate starts at 1.
        return RandomUniform(-0.1, 0.1)

    lstm = keras.layers.LSTM(
        # Figure 2 (c): 834 units, a third each for key, value and prediction.
        3 * round(834 * scale / 3),
        kernel_initializer=uniform(),
        recurrent_initializer=uniform(),
        bias_initializer=uniform(),
    )
    memory = memlm.memory.KeyValuePredict(
        window=5,  # Figure 2 (a)
        kernel_initializer=uniform(),
    )
    return memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=round(300 * scale),  # Figure 2 (b)
        recurrent=[lstm],
        memory=memory,
        initializer=uniform(),
    )


def train(corpus):
    """Trains and returns a model, with the weights of its best epoch."""
    keras.utils.set_random_seed(FLAGS.seed)
    model = make_model(corpus.vocabulary, FLAGS.scale)
    # Section 4.1: Adam with a rate of 0.001, gradients clipped to a norm of 5.
    model.compile(
        memlm.training.FusedAdam(learning_rate=0.001, global_clipnorm=5.0)
    )
    documents = has_documents(corpus)
    model.fit(
        corpus.batches(
            "train",
            BATCH_SIZE,
            STEPS,
            # Section 4.1: the state is reset between articles.
            documents=documents,
            shuffle=documents,
            seed=FLAGS.seed,
        ),
        validation_data=corpus.batches(
            "validation", BATCH_SIZE, STEPS, documents=documents
        ),
        epochs=FLAGS.epochs,
        # Section 4.1: keep the epoch with the best validation perplexity.
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_perplexity",
                mode="min",
                patience=2,  # The paper does not state the patience.
                restore_best_weights=True,
            )
        ],
    )
    return model


def has_documents(corpus):
    return corpus.train.document_starts is not None


def main(_):
    corpus = memlm.data.load(FLAGS.dataset, FLAGS.data_dir)
    model = train(corpus)
    for split in ("validation", "test"):
        # Without documents, read one stream, as in the published evaluation.
        how = (64, 20, True) if has_documents(corpus) else (1, 100)
        print(split)
        memlm.evaluation.perplexity(model, corpus.batches(split, *how))
    if FLAGS.out:
        print(memlm.serving.export(model, FLAGS.out))


if __name__ == "__main__":
    app.run(main)
