"""Trains Kneser-Ney smoothing of embedding and softmax as in Kong et al.,
Variational Smoothing in Recurrent Neural Network Language Models (2019).

    python recipes/kong2019.py --data_dir=path/to/ptb
    python recipes/kong2019.py --dataset=embedded --scale=0.1 --epochs=8

Trains "VS Kneser-Ney" of Table 2 with 512 units, measures it, and exports it
for TensorFlow Serving. `memlm train kong2019/vs_kneser_ney_512` gives the same
weights as this program; `memlm table kong2019` lists the paper's tables.
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
flags.DEFINE_integer("epochs", 100, "Maximum number of epochs.", 1)
flags.DEFINE_integer("seed", 0, "Random seed.")
flags.DEFINE_string(
    "out", "saved_models/kong2019", "Folder to export to, or empty."
)

# Section 5.1 has batches of 64 and a carried state. We chose 35 steps.
BATCH_SIZE, STEPS = 64, 35
# Values from the grid in Section 5.1; the paper does not state the best ones.
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
        rate=0.2,  # Rate of recurrent dropout (Section 5.1).
    )


def make_model(vocabulary):
    """Makes two LSTM layers with smoothed embeddings and softmax."""
    units = round(512 * FLAGS.scale)  # Table 2
    return memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=units,
        recurrent=[make_lstm(units), make_lstm(units)],  # Section 5.1
        # Section 5.1; the paper applies "outputs" to output embeddings instead.
        dropout={"embeddings": 0.5, "outputs": 0.5},
        tie_embeddings=True,  # Sections 4.3 and 5.1
        embedding=memlm.smoothing.SmoothedEmbedding(
            # Section 4.2. The KL term has the weight of the L2 penalty.
            smoothing=memlm.smoothing.VariationalSmoothing(
                scheme="kneser_ney", rate=RATE, l2=L2
            ),
            embeddings_initializer=uniform(),
        ),
        head=memlm.smoothing.SmoothedProjection(),
        initializer=uniform(),
    )


def train(corpus):
    """Trains and returns a model, with the weights of its best epoch."""
    keras.utils.set_random_seed(FLAGS.seed)
    model = make_model(corpus.vocabulary)
    # Section 2: count the words and bigrams of the training text.
    model.smoothing.adapt(
        memlm.smoothing.StreamStatistics.count(
            corpus.train.tokens, len(corpus.vocabulary)
        )
    )
    model.compile(
        keras.optimizers.RMSprop(LEARNING_RATE, global_clipnorm=5.0),
        # Our choice: the L2 penalty is added to the loss summed over steps.
        loss=memlm.training.SentenceCrossEntropy(),
    )
    model.fit(
        corpus.batches("train", BATCH_SIZE, STEPS),
        validation_data=corpus.batches("validation", BATCH_SIZE, STEPS),
        epochs=FLAGS.epochs,
        # Section 5.1: keep the epoch with the best validation perplexity.
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_perplexity",
                mode="min",
                patience=10,  # The paper does not state the patience.
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
        # Section 4: evaluation uses the means of the smoothed matrices.
        memlm.evaluation.perplexity(model, corpus.batches(split, 1, 100))
    if FLAGS.out:
        print(memlm.serving.export(model, FLAGS.out))


if __name__ == "__main__":
    app.run(main)
