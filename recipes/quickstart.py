"""The whole path in under three minutes on two cores, with no download.

    python recipes/quickstart.py

Trains an LSTM and a key-value-predict model of equal size on the embedded
corpus, holds them against the best perplexity that any model could reach on it,
draws where the memory attends, generates, exports for TF Serving and scores a
sentence from the exported model in a process of its own.
"""

import pathlib
import subprocess
import sys
import time

from absl import app
from absl import flags

from memlm_keras.experiments import command_line
from memlm_keras.experiments import subcommands

FLAGS = flags.FLAGS
flags.DEFINE_enum("backend", None, subcommands.BACKENDS, "Keras backend.")
flags.DEFINE_integer("epochs", 8, "Epochs to train each model.", lower_bound=1)
flags.DEFINE_integer("units", 128, "Units of the LSTM.", lower_bound=8)
flags.DEFINE_integer("embedding_dim", 64, "Size of the embeddings.")
flags.DEFINE_float("learning_rate", 0.004, "Learning rate of Adam.")
flags.DEFINE_integer("seed", 0, "Seed of everything random.")
flags.DEFINE_string("run_dir", "runs/quickstart", "Folder for the pictures.")
flags.DEFINE_string(
    "export_dir", "saved_models/quickstart", "Folder of the exported model."
)

PROMPT = "ruth ellis was born in"


def main(argv):
    del argv
    begin = time.time()
    command_line.import_keras(FLAGS.backend)

    import keras

    import memlm_keras as memlm

    run_dir = pathlib.Path(FLAGS.run_dir)
    corpus = memlm.data.load("embedded")
    vocabulary = corpus.vocabulary
    print(
        f"Embedded corpus: {len(corpus.train):,} training tokens, "
        f"{len(vocabulary)} words; backend {keras.backend.backend()}."
    )
    sentence = corpus.test.tokens[: 1 + list(corpus.test.tokens).index(0)]
    print("It reads like this:", " ".join(vocabulary.decode(sentence)), "\n")

    models, rows = {}, []
    for name in ("lstm", "key_value_predict"):
        model = make_model(name, vocabulary, models)
        print(f"{name}: {model.count_params():,} parameters")
        result, seconds = train(model, corpus)
        models[name] = model
        rows.append((name, model.count_params(), result.perplexity, seconds))

    documents = memlm.data.embedded.documents_of(corpus.test, vocabulary)
    optimum = memlm.data.embedded.optimal_perplexity(documents)
    print("\nTest perplexity (every token with <eos>, natural logarithm)")
    print(f"{'model':<20}{'parameters':>12}{'perplexity':>12}{'seconds':>9}")
    for name, parameters, perplexity, seconds in rows:
        print(f"{name:<20}{parameters:>12,}{perplexity:>12.2f}{seconds:>9.0f}")
    print(f"{'best possible':<20}{'':>12}{optimum:>12.2f}")
    print(
        "The last line is exact: the corpus' own distribution is known, and a "
        "reader who\nforgets nothing reaches it.\n"
    )

    model = models["key_value_predict"]
    passage = corpus.test.tokens[:24]
    memlm.analysis.plot_attention(
        model.attention(passage[None])[0],
        vocabulary.decode(passage),
        run_dir / "attention.png",
        title="Where key-value-predict attends",
    )
    print(f"Attention picture: {run_dir / 'attention.png'}")
    generated = model.generate(PROMPT, 36, "top_k", stop_token_ids=())
    print("Generated text:")
    for line in generated.split(vocabulary.end_of_sentence):
        print("   ", line.strip())
    print()

    exported = next_version(pathlib.Path(FLAGS.export_dir))
    memlm.serving.export(model, exported)
    model.save(run_dir / "model.keras")
    print(f"Exported for TF Serving: {exported}. Scored from there:")
    text = " ".join(vocabulary.decode(sentence[:-1]))
    score = pathlib.Path(__file__).with_name("score_exported.py")
    command = [sys.executable, str(score), str(exported), text]
    subprocess.run(command, check=True)
    print(f"\nDone in {time.time() - begin:.0f} seconds. Next, for instance:")
    print(f'  python recipes/score_exported.py {exported} "any words of yours"')
    print("  memlm train ngram_4 --scale=0.3")
    print("  memlm train key_value_predict --dataset=your_text.txt --scale=0.3")
    print("  memlm presets")


def make_model(name, vocabulary, models):
    """Makes the LSTM, or a model of the parameters of the LSTM."""
    import keras

    import memlm_keras as memlm

    preset = f"daniluk2017/{name}"
    units = FLAGS.units
    if models:
        units = memlm.presets.match_parameters(
            models["lstm"].count_params(),
            preset,
            len(vocabulary),
            embedding_dim=FLAGS.embedding_dim,
        )
    keras.utils.set_random_seed(FLAGS.seed)
    model = memlm.LanguageModel.from_preset(
        preset,
        vocabulary=vocabulary,
        units=units,
        embedding_dim=FLAGS.embedding_dim,
    )
    model.compile(
        keras.optimizers.Adam(FLAGS.learning_rate, global_clipnorm=5.0)
    )
    return model


def train(model, corpus):
    """Trains a model and returns its test `Perplexity` and the seconds."""
    import keras

    import memlm_keras as memlm

    def batches(split, **kwargs):
        return corpus.batches(
            split, batch_size=32, segment_length=20, documents=True, **kwargs
        )

    begin = time.time()
    model.fit(
        batches("train", shuffle=True, seed=FLAGS.seed),
        validation_data=batches("validation"),
        epochs=FLAGS.epochs,
        callbacks=[
            keras.callbacks.LearningRateScheduler(
                memlm.training.halve_after(max(1, FLAGS.epochs - 3))
            ),
            memlm.training.StopOnNaN(),
        ],
    )
    seconds = time.time() - begin
    return memlm.evaluation.perplexity(model, batches("test")), seconds


def next_version(folder):
    """The path of the next version that TF Serving would take up."""
    versions = [int(p.name) for p in folder.glob("*") if p.name.isdigit()]
    return folder / str(max(versions, default=0) + 1)


if __name__ == "__main__":
    app.run(main)
