"""Kong et al. (2019), Variational Smoothing in Recurrent Neural Network
Language Models: Kneser-Ney smoothing of embedding and softmax (Section 4.2).

    python recipes/kong2019.py --data_dir=path/to/ptb
    python recipes/kong2019.py --dataset=embedded --scale=0.1 --epochs=8

Trains the row "VS: Kneser-Ney" of Table 2 with 512 units, measures it, and
exports it for TensorFlow Serving. `memlm train kong2019/vs_kneser_ney_512`
gives the same weights; `memlm table kong2019` lists the paper's tables.
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
flags.DEFINE_string("data_dir", None, "Folder of the text; else a download.")
flags.DEFINE_float("scale", 1.0, "Factor on the paper's sizes.", 0.0)
# A choice, like all numbers without a section: the paper has none.
flags.DEFINE_integer("epochs", 100, "The most epochs.", 1)
flags.DEFINE_integer("seed", 0, "Seed of everything random.")
flags.DEFINE_string(
    "out", "saved_models/kong2019", "Folder to export to, or empty."
)

# Section 5.1: batches of 64, whose state is carried. 35 steps are a choice.
BATCH_SIZE, STEPS = 64, 35
# Of those that were tried (Section 5.1); the paper names no choice.
RATE, L2, LEARNING_RATE = 0.2, 1e-4, 0.003


def uniform():
    return RandomUniform(-0.05, 0.05)


def make_lstm(units):
    return memlm.cells.RecurrentDropoutLSTMCell(
        units,
        kernel_initializer=uniform(),
        recurrent_initializer=uniform(),
        bias_initializer="zeros",
        kernel_regularizer=keras.regularizers.L2(L2),
        recurrent_regularizer=keras.regularizers.L2(L2),
        rate=0.2,  # Section 5.1: recurrent dropout
    )


def make_model(vocabulary):
    """Two LSTM layers between smoothed embeddings and a smoothed softmax."""
    units = round(512 * FLAGS.scale)  # Table 2
    return memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=units,
        recurrent=[make_lstm(units), make_lstm(units)],  # Section 5.1
        # Section 5.1; of the outputs in place of the output embeddings.
        dropout={"embeddings": 0.5, "outputs": 0.5},
        tie_embeddings=True,  # Sections 4.3 and 5.1
        embedding=memlm.smoothing.SmoothedEmbedding(
            # Section 4.2; its divergence has the weight of the L2 penalty.
            smoothing=memlm.smoothing.VariationalSmoothing(
                scheme="kneser_ney", rate=RATE, l2=L2
            ),
            embeddings_initializer=uniform(),
        ),
        head=memlm.smoothing.SmoothedProjection(),
        initializer=uniform(),
    )


def train(corpus):
    """Returns the model of the epoch with the best validation perplexity."""
    keras.utils.set_random_seed(FLAGS.seed)
    model = make_model(corpus.vocabulary)
    # Section 2: counts of words and of their neighbours in the training text.
    model.smoothing.adapt(
        memlm.smoothing.StreamStatistics.count(
            corpus.train.tokens, len(corpus.vocabulary)
        )
    )
    model.compile(
        keras.optimizers.RMSprop(LEARNING_RATE, global_clipnorm=5.0),
        # A choice: the sum over steps, to which the L2 penalty is added.
        loss=memlm.training.SentenceCrossEntropy(),
    )
    model.fit(
        corpus.batches("train", BATCH_SIZE, STEPS),
        validation_data=corpus.batches("validation", BATCH_SIZE, STEPS),
        epochs=FLAGS.epochs,
        # Section 5.1: the best on the validation text.
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_perplexity",
                mode="min",
                patience=10,  # A choice.
                restore_best_weights=True,
            )
        ],
    )
    return model


def main(_):
    corpus = memlm.data.load(FLAGS.dataset, FLAGS.data_dir)
    model = train(corpus)
    for split in ("validation", "test"):
        print(split)
        # Section 4: by the mean of the smoothed matrices; one stream.
        memlm.evaluation.perplexity(model, corpus.batches(split, 1, 100))
    if FLAGS.out:
        print(memlm.serving.export(model, FLAGS.out))


if __name__ == "__main__":
    app.run(main)
