r"""Trains the English model, memlm/english, on a folder of books.

    python recipes/english.py --data_dir=FOLDER_OF_BOOKS

The folder holds train/, valid/ and test/, with one .txt file per book and one
paragraph per line. SentencePiece learns pieces of words from the training text.
The same command continues an interrupted run, and writes the trained model to
OUT/memlm/NAME. The larger model takes five minutes on an H100:

    python recipes/english.py --data_dir=FOLDER_OF_BOOKS --backend=jax \
        --name=english_large --layers=2 --units=1024 --embedding_dim=400 \
        --dropout=0.2 --learning_rate=0.002 --nodocuments \
        --batch_size=128 --segment_length=70 --epochs=12
"""

import pathlib
import shlex
import sys
import time

from absl import app
from absl import flags

import memlm_keras as memlm
import model_card
from memlm_keras.experiments import process

MEMORIES = ("projection", "delta_rule")
FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "Folder of books.", required=True)
flags.DEFINE_string("run_dir", None, "Folder of the run; default: runs/NAME.")
flags.DEFINE_string("out", "runs/trained", "Folder that gets memlm/NAME.")
flags.DEFINE_string("name", "english", "Name of the trained model.")
flags.DEFINE_enum("backend", "torch", process.BACKENDS, "Keras backend.")
flags.DEFINE_integer("pieces", 8_000, "Size of the vocabulary.", 270)
flags.DEFINE_integer("embedding_dim", 256, "Size of embeddings.", 1)
flags.DEFINE_integer("layers", 1, "Number of LSTM layers.", 1)
flags.DEFINE_integer("units", 400, "Units of an LSTM layer.", 1)
flags.DEFINE_float("dropout", 0.0, "Dropout rate between layers.", 0.0, 0.9)
flags.DEFINE_enum("memory", "projection", MEMORIES, "Memory over the LSTM.")
flags.DEFINE_bool("documents", True, "Reset the state before each book.")
flags.DEFINE_integer("batch_size", 28, "Rows of a batch.", 1)
flags.DEFINE_integer("segment_length", 50, "Steps of a batch.", 1)
flags.DEFINE_integer("epochs", 1, "Passes over the training text.", 1)
flags.DEFINE_float("learning_rate", 0.003, "Highest rate of Adam.", 0.0)
flags.DEFINE_integer("seed", 0, "Seed of the initial weights.")

PATHS = ("--data_dir", "--run_dir", "--out")
TEXT = "English novels and stories of 1790 to 1929, in the public domain"


def main(_):
    process.import_keras(FLAGS.backend)
    import keras

    from memlm_keras.training.callbacks import TimeEstimate

    run_dir = pathlib.Path(FLAGS.run_dir or f"runs/{FLAGS.name}")
    data_dir = pathlib.Path(FLAGS.data_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    folders = [data_dir / split for split in ("train", "valid", "test")]
    vocabulary = pieces(folders[0], run_dir / f"pieces_{FLAGS.pieces}.model")
    corpus = memlm.data.load_text(*folders, vocabulary=vocabulary)
    keras.utils.set_random_seed(FLAGS.seed)
    recurrent, memory = layers_and_memory()
    model = memlm.LanguageModel(
        vocabulary=vocabulary,
        embedding_dim=FLAGS.embedding_dim,
        recurrent=recurrent,
        memory=memory,
        dropout=FLAGS.dropout,
        tie_embeddings=True,
    )
    sizes = FLAGS.batch_size, FLAGS.segment_length
    books = corpus.train.longest_first()
    order = {"documents": FLAGS.documents, "shuffle": FLAGS.documents}
    batches = corpus.batches(books, *sizes, **order)
    validation = corpus.batches("validation", *sizes)
    updates = FLAGS.epochs * batches.batches_per_epoch
    rate = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        warmup_target=FLAGS.learning_rate,
        warmup_steps=updates // 50,
        decay_steps=updates - updates // 50,
    )
    model.compile(memlm.training.FusedAdam(rate, global_clipnorm=1.0))
    path = run_dir / "checkpoint.npz"
    on_gpu = process.accelerators(FLAGS.backend)
    # `None` saves a checkpoint only at the end of each epoch.
    every = None if on_gpu else 250
    checkpoint = memlm.training.Checkpoint(path, batches, frequency=every)
    print(f"{model.count_params():,} parameters, {updates:,} updates")
    clock = time.monotonic if on_gpu else time.process_time
    whole, begin = not path.exists(), clock()
    model.fit(
        batches,
        epochs=FLAGS.epochs,
        callbacks=[TimeEstimate(batches), checkpoint],
        validation_data=validation,
    )
    hours = (clock() - begin) / 3600
    card = {
        "description": f"An LSTM language model of {TEXT}.",
        "memory": FLAGS.memory,
        "text": f"{TEXT}, {len(corpus.train):,} pieces of words",
        "licence": "Apache-2.0, like the package",
        "training time": f"{60 * hours:.0f} minutes of "
        + (on_gpu[0] if on_gpu else "processor time")
        + ("" if whole else ", since the run was last continued"),
        "command": shlex.join(
            ["python", "recipes/english.py", "--data_dir=FOLDER_OF_BOOKS"]
            + [a for a in sys.argv[1:] if not a.startswith(PATHS)]
        ),
    }
    folder = pathlib.Path(FLAGS.out, "memlm", FLAGS.name)
    test = corpus.batches("test", 4, 256, documents=True)
    model_card.save_trained(model, folder, "int8", test, card)


def layers_and_memory():
    """Makes LSTMs, and a memory with outputs of the size of embeddings."""
    import keras

    size = FLAGS.embedding_dim
    sizes = [FLAGS.units] * FLAGS.layers
    memory = memlm.memory.Projection(activation=None, units=size)
    if FLAGS.memory == "delta_rule":
        sizes[-1] = size
        memory = memlm.memory.DeltaRule(
            num_heads=8, key_dim=64, value_dim=64, decay=True, residual=True
        )
    return [keras.layers.LSTM(units) for units in sizes], memory


def pieces(folder, path):
    """Returns a SentencePiece model's vocabulary; trains a missing model."""
    if not path.exists():
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            input=",".join(map(str, sorted(folder.glob("*.txt")))),
            model_prefix=str(path.with_suffix("")),
            vocab_size=FLAGS.pieces,
            model_type="bpe",
            byte_fallback=True,
            max_sentence_length=100_000,
            **{"eos_id": 0, "unk_id": 1, "bos_id": -1},
        )
    return memlm.data.SubwordVocabulary.from_sentencepiece(
        path, replacements="typographic"
    )


if __name__ == "__main__":
    app.run(main)
