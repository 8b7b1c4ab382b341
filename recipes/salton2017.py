"""Trains attention that scores each earlier output of a sentence by itself, as
in Salton et al., Attentive Language Models (2017, Section 3).

    python recipes/salton2017.py --data_dir=path/to/ptb
    python recipes/salton2017.py --dataset=embedded --scale=0.1 --epochs=8

Trains the row "single" of Table 1, measures it, and exports it for TensorFlow
Serving. `memlm train salton2017/ptb_single` gives the same weights as this
program; `memlm table salton2017` lists the paper's tables.
"""

import keras
from absl import app
from absl import flags
from keras.initializers import RandomUniform

import memlm_keras as memlm

FLAGS = flags.FLAGS
flags.DEFINE_enum("dataset", "ptb", ["ptb", "embedded"], "Training text.")
flags.DEFINE_string("data_dir", None, "Folder of the text; default: download.")
flags.DEFINE_float("scale", 1.0, "Factor on the paper's sizes.", 0.0)
flags.DEFINE_integer("epochs", 100, "Maximum, as in the authors' code.", 1)
flags.DEFINE_integer("seed", 0, "Random seed.")
flags.DEFINE_string(
    "out", "saved_models/salton2017", "Folder to export to, or empty."
)


def uniform():
    # Section 4.1: initial values of matrices. Biases start at zero.
    return RandomUniform(-0.05, 0.05)


def make_lstm(units):
    return keras.layers.LSTM(
        units,
        kernel_initializer=uniform(),
        recurrent_initializer=uniform(),
        bias_initializer="zeros",
        unit_forget_bias=False,
    )


def make_model(vocabulary):
    """Makes two LSTM layers with a memory of the upper layer's outputs."""
    units = round(650 * FLAGS.scale)  # Section 4.1
    return memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=units,
        recurrent=[make_lstm(units), make_lstm(units)],
        memory=memlm.memory.Attentive(
            score="single",  # Equation 9.
            window=100,  # Longer than any sentence of the text.
            kernel_initializer=uniform(),
        ),
        dropout=0.5,  # Rate for non-recurrent connections (Section 4.1).
        tie_embeddings=True,  # Section 4.1.
        head=memlm.heads.TiedProjection(bias_initializer="zeros"),
        initializer=uniform(),
    )


def halve(epoch, rate):
    # Section 4.1: halve the rate after each epoch from the twelfth.
    return rate / 2 if epoch >= 12 else rate


def train(corpus):
    """Trains and returns a model, with the weights of its best epoch."""
    keras.utils.set_random_seed(FLAGS.seed)
    model = make_model(corpus.vocabulary)
    model.compile(
        # Section 4.1: a learning rate of 1, and gradients clipped to norm 5.
        keras.optimizers.SGD(1.0, global_clipnorm=5.0),
        # The loss is summed over words and divided by the batch size.
        loss=memlm.training.SentenceCrossEntropy(),
    )
    # Section 4.1: 32 sentences cut at 35 words, each from a zero state.
    # Evaluation does not cut sentences.
    batches = corpus.sentence_batches(
        "train",
        32,
        longest=35,
        equal_lengths=False,
        shuffle=True,
        seed=FLAGS.seed,
    )
    model.fit(
        batches,
        validation_data=corpus.batches("validation", 64, 32, sentences=True),
        epochs=FLAGS.epochs,
        callbacks=[
            keras.callbacks.LearningRateScheduler(halve),
            # Section 4.1: stop after ten epochs without improvement.
            keras.callbacks.EarlyStopping(
                "val_perplexity",
                mode="min",
                patience=10,
                restore_best_weights=True,
            ),
        ],
    )
    return model


def main(_):
    corpus = memlm.data.load(FLAGS.dataset, FLAGS.data_dir, sentences=True)
    model = train(corpus)
    for split in ("validation", "test"):
        print(split)
        batches = corpus.batches(split, 64, 32, sentences=True)
        # `also` adds the authors' protocol, which skips first words.
        memlm.evaluation.perplexity(model, batches, also=("salton2017",))
    if FLAGS.out:
        print(memlm.serving.export(model, FLAGS.out))


if __name__ == "__main__":
    app.run(main)
