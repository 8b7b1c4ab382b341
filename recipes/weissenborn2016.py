"""Trains a classifier whose cell with two memories reads two sentences, as in
Weissenborn, Neural Associative Memory for Dual-Sequence Modeling (2016).

    python recipes/weissenborn2016.py --vectors=glove.840B.300d.zip
    python recipes/weissenborn2016.py --dataset=sick --data_dir=path/to/sick
    python recipes/weissenborn2016.py --dataset=embedded --epochs=12

Trains the row "Dual AM-GRU shared" of Table 1, measures it, and exports it for
TensorFlow Serving. `memlm train weissenborn2016/dual_am_gru_shared` gives the
same weights as this program; `memlm table weissenborn2016` lists the paper's
tables.
"""

import math

import keras
from absl import app
from absl import flags

import memlm_keras as memlm

FLAGS = flags.FLAGS
flags.DEFINE_enum("dataset", "snli", ["snli", "sick", "embedded"], "Dataset.")
flags.DEFINE_string("data_dir", None, "Folder of the pairs; default: download.")
flags.DEFINE_string("vectors", None, "File of GloVe's word vectors.")
flags.DEFINE_float("scale", 1.0, "Factor on the units.", 0.0)
# The paper does not state the number of epochs.
flags.DEFINE_integer("epochs", None, "Epochs; 20 passes by default.", 1)
flags.DEFINE_integer("seed", 0, "Random seed.")
flags.DEFINE_string(
    "out", "saved_models/weissenborn2016", "Folder to export to, or empty."
)


def make_model(corpus):
    """Makes a model that reads two sentences with the same cell."""
    units = 2 * round(100 * FLAGS.scale / 2)  # Table 1
    return memlm.EntailmentClassifier(
        vocabulary=corpus.vocabulary,
        labels=corpus.labels,
        embedding_dim=300,  # Size of GloVe's vectors.
        # Embeddings have about GloVe's norm, since short keys retrieve little.
        embeddings_initializer=keras.initializers.RandomUniform(-0.5, 0.5),
        # Section 5.1: eight copies; one key reads both memories.
        recurrent=memlm.cells.DualAssociativeGRUCell(
            units, num_copies=8, key="bound"
        ),
        conditioning="source",  # Equation 13.
        # Section 5.1: a GRU on top; two ReLU layers read [p; h; |p - h|].
        top=keras.layers.GRU(units, reset_after=False),
        classifier_units=[units, units],
        dropout=0.1,  # Section 5.1
    )


def train(corpus):
    """Trains and returns a model, with the weights of its best epoch."""
    keras.utils.set_random_seed(FLAGS.seed)
    model = make_model(corpus)
    # Section 5.1: batches of 50, and Adam with beta_1=0 and a rate of 0.001.
    model.compile(keras.optimizers.Adam(0.001, beta_1=0.0, beta_2=0.999))
    # Section 5.1: validate after each 1,000 batches.
    in_a_pass = math.ceil(len(corpus.train) / 50)
    in_an_epoch = min(1000, in_a_pass)
    epochs_of_a_pass = math.ceil(in_a_pass / in_an_epoch)
    callbacks = [
        # Section 5.1: halve the rate if accuracy falls in a pass over the data.
        memlm.training.HalveOnDrop("val_accuracy", epochs_of_a_pass)
    ]
    if FLAGS.vectors:
        vectors = memlm.embeddings.read_vectors(
            FLAGS.vectors, corpus.vocabulary.tokens
        )
        vectors.assign_to(model.embedding)
        # Section 5.1: train GloVe's vectors only after the first pass.
        callbacks.append(
            memlm.training.FreezeEmbeddings(epochs_of_a_pass, vectors.found)
        )
    epochs = FLAGS.epochs or 20 * epochs_of_a_pass
    # Section 5.1: test the epoch with the best validation accuracy.
    best = keras.callbacks.EarlyStopping(
        "val_accuracy", mode="max", patience=epochs, restore_best_weights=True
    )
    model.fit(
        corpus.batches(
            "train",
            50,
            shuffle=True,
            seed=FLAGS.seed,
            batches_per_epoch=in_an_epoch,
        ),
        validation_data=corpus.batches("validation", 50),
        epochs=epochs,
        callbacks=[*callbacks, best],
    )
    return model


def main(_):
    corpus = memlm.data.load_pairs(FLAGS.dataset, FLAGS.data_dir)
    model = train(corpus)
    for split in ("validation", "test"):
        # Pairs without a label do not count.
        found = model.evaluate(corpus.batches(split, 64), return_dict=True)
        print(f"{split}: accuracy {found['accuracy']:.2%}")
    if FLAGS.out:
        print(memlm.serving.export(model, FLAGS.out))


if __name__ == "__main__":
    app.run(main)
