"""Trains a memory block over an LSTM with a custom training loop: RM(+tM-g) of
Tran et al., Recurrent Memory Networks for Language Modeling (2016).

    python recipes/tran2016.py --data_dir=path/to/ptb
    python recipes/tran2016.py --dataset=embedded --scale=0.5

Trains the row RM(+tM-g) of Table 2, measures it, and exports it for TensorFlow
Serving. `memlm train tran2016/rm_tm_gated` gives the same weights as this
program; `memlm table tran2016` lists the paper's tables.
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
flags.DEFINE_integer("epochs", 15, "Epochs (Section 4.2).", 1)
flags.DEFINE_integer("seed", 0, "Random seed.")
flags.DEFINE_string(
    "out", "saved_models/tran2016", "Folder to export to, or empty."
)


def make_model(vocabulary):
    """Makes an LSTM with a memory block of 15 words (Section 3.1)."""
    units = round(128 * FLAGS.scale)  # size of all layers (Section 4.2)

    def uniform():
        # Section 4.2; only the bias of the forget gate starts at 1.
        return RandomUniform(-0.05, 0.05)

    lstm = keras.layers.LSTM(
        units,
        kernel_initializer=uniform(),
        recurrent_initializer=uniform(),
        bias_initializer=uniform(),
    )
    block = memlm.memory.MemoryBlock(
        window=15,  # Section 4.2.
        temporal=True,  # "+tM", Equation 2.
        composition="gated",  # "-g", Equations 4 to 7.
        kernel_initializer=uniform(),
    )
    return memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=units,
        recurrent=[lstm],
        memory=block,
        initializer=uniform(),
    )


def train(corpus):
    """Trains and returns a model, with the weights of its best epoch."""
    keras.utils.set_random_seed(FLAGS.seed)
    model = make_model(corpus.vocabulary)
    # Section 4.2: SGD with gradients clipped to a norm of 5.
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=5.0)
    # Sum losses over a sentence, because the learning rate of 1 requires it.
    model.compile(optimizer, loss=memlm.training.SentenceCrossEntropy())
    # Section 4.2: batches of 20 sentences of equal length, which start from a
    # zero state. Gradients reach back to the start.
    batches = corpus.sentence_batches(
        "train", 20, shuffle=True, seed=FLAGS.seed
    )
    validation = corpus.batches("validation", 64, 32, sentences=True)
    best, best_weights = float("inf"), None
    for epoch in range(FLAGS.epochs):
        # Section 4.2: a rate of 1, halved at each epoch after the fourth.
        optimizer.learning_rate = 0.5 ** max(0, epoch - 3)
        batches.start_at(epoch)
        model.reset_metrics()
        for batch in batches:
            # This Keras method computes gradients and updates the weights;
            # docs/custom_training.md does the same with code of each backend.
            logs = model.train_on_batch(*batch, return_dict=True)
        found = model.evaluate(validation, verbose=0, return_dict=True)
        print(
            f"Epoch {epoch + 1}: perplexity {logs['perplexity']:.2f}, of the "
            f"validation text {found['perplexity']:.2f}"
        )
        if found["perplexity"] < best:
            best, best_weights = found["perplexity"], model.get_weights()
    model.set_weights(best_weights)
    return model


def main(_):
    corpus = memlm.data.load(FLAGS.dataset, FLAGS.data_dir, sentences=True)
    model = train(corpus)
    for split in ("validation", "test"):
        print(split)
        # Each sentence is read from an empty context.
        batches = corpus.batches(split, 64, 32, sentences=True)
        memlm.evaluation.perplexity(model, batches)
    if FLAGS.out:
        print(memlm.serving.export(model, FLAGS.out))


if __name__ == "__main__":
    app.run(main)
