"""Trains, exports and runs models in three minutes on two cores, offline.

    python recipes/quickstart.py

Trains an LSTM on the embedded corpus, and models with a memory that have no
more parameters. Compares all models with the best possible perplexity, draws
attention, generates text, exports a model for TensorFlow Serving, and scores a
sentence with the export.
"""

import pathlib
import shlex
import subprocess
import sys
import time

from absl import app
from absl import flags

import memlm_keras as memlm
from memlm_keras.experiments import process
from memlm_keras.experiments.run_folder import write_json

FLAGS = flags.FLAGS
flags.DEFINE_string("backend", None, "Keras backend.")
flags.DEFINE_integer("epochs", 8, "Epochs to train each model.", lower_bound=1)
flags.DEFINE_float("learning_rate", 0.01, "Initial rate of Adam.", 0.0)
flags.DEFINE_integer("seed", 0, "Random seed.")
flags.DEFINE_string("run_dir", "runs/quickstart", "Folder of the results.")
flags.DEFINE_multi_enum(
    "memory",
    ["attention", "attentive"],
    "attention key_value_predict attentive induction induction_pointer".split(),
    "Memory to train; repeat the flag to train several.",
)

SEGMENT = 54  # Half the length of a document of the embedded corpus.
flags.DEFINE_integer("window", SEGMENT, "Window of the memory, in steps.", 1)
SENTENCE = "ruth ellis was born in york in 1871"
LINE = "{:18}{:>12}{:>9}{:>12}{:>15}"
# For each model, units of the LSTM, and functions that make memory and mixture.
# No other model has more parameters than "lstm".
KINDS = {
    "lstm": (100,),
    "attention": (77, lambda: memlm.memory.Attention(FLAGS.window)),
    "key_value_predict": (
        99,
        lambda: memlm.memory.KeyValuePredict(FLAGS.window),
    ),
    "attentive": (77, lambda: memlm.memory.Attentive("combined", FLAGS.window)),
    "induction": (81, lambda: memlm.memory.InductionAttention(FLAGS.window)),
    "induction_pointer": (
        77,
        lambda: memlm.memory.InductionAttention(FLAGS.window),
        lambda: memlm.mixtures.PointerSentinel(FLAGS.window),
    ),
}


def main(_):
    begin = time.time()
    process.import_keras(FLAGS.backend)
    run_dir = pathlib.Path(FLAGS.run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    corpus = memlm.data.load("embedded")
    documents = memlm.data.embedded.documents_of(corpus.test, corpus.vocabulary)
    passage = " <eos>".join(" ".join(documents[0]).split(" <eos>")[:5])
    print(f"{len(corpus.train):,} training tokens, which read like this:")
    print(" ", passage.replace(" <eos>", "\n "))
    models, rows = {}, {}
    for name in dict.fromkeys(["lstm", *FLAGS.memory]):
        models[name], rows[name] = train(name, corpus)
    optimum = memlm.data.embedded.optimal_perplexity(documents)
    rows["best possible"] = {"perplexity": optimum}
    print("\nTest perplexity (every token with <eos>, natural logarithm)")
    print(LINE.format("", *rows["lstm"], "ahead of lstm"))
    for name, row in rows.items():
        row["ahead"] = 1 - row["perplexity"] / rows["lstm"]["perplexity"]
        cells = [row.get("parameters", ""), row.get("seconds", "")]
        cells += [f"{row['perplexity']:.2f}", f"{row['ahead']:.1%}"]
        print(LINE.format(name, *cells))
    print("The last line is exact: a model that forgets nothing reaches it.")
    results = {"seed": FLAGS.seed, "epochs": FLAGS.epochs, "rows": rows}
    write_json(run_dir / "results.json", results | process.provenance())

    lm = models[FLAGS.memory[0]]
    read = {"attention": memlm.analysis.sentence_predictions(lm, passage)}
    picture = run_dir / "attention.png"
    memlm.analysis.plot_sentence_attention(read, picture)
    print(f"\nWhere attention looks for each predicted word: {picture}")
    print(f"Generated, after {SENTENCE!r}:")
    text = lm.generate(f"{SENTENCE} <eos>", 60, "top_k", stop_token_ids=())
    print(" ", text.rpartition(" <eos>")[0].replace(" <eos>", "\n "))
    lm.save(run_dir / "model.keras")
    exported = memlm.serving.export(lm, "saved_models/quickstart")
    print(f"\nExported for TF Serving: {exported}. Scored from there:")
    score = pathlib.Path(__file__).with_name("score_exported.py")
    scored = subprocess.run(
        [sys.executable, score, exported, SENTENCE],
        capture_output=True,
        text=True,
    )
    if scored.returncode:
        raise RuntimeError(scored.stderr)
    # Print only standard output: TensorFlow logs to standard error.
    print(scored.stdout, end="")
    print(f"Done in {time.time() - begin:.0f} seconds. Next, for instance:")
    model = shlex.quote(str(run_dir / "model.keras"))
    print(f'  memlm attention {model} "{SENTENCE}" --out=map.html')
    print(f"  memlm evaluate {model} --dataset=embedded --documents")
    print("  memlm train key_value_predict --dataset=your_text.txt --scale=0.3")


def train(name, corpus):
    """Trains a model; returns the model and its row of the table."""
    import keras

    print(f"\n{name}")
    begin = time.time()
    units, *makers = KINDS[name]
    keras.utils.set_random_seed(FLAGS.seed)
    model = memlm.LanguageModel(
        vocabulary=corpus.vocabulary,
        embedding_dim=64,
        recurrent=[keras.layers.LSTM(units)],
        **{part: make() for part, make in zip(("memory", "mixture"), makers)},
        # A memory does not learn if the initial embeddings are too similar.
        initializer=keras.initializers.RandomUniform(-0.5, 0.5),
    )
    optimizer = keras.optimizers.Adam(FLAGS.learning_rate, global_clipnorm=5.0)
    model.compile(optimizer)

    def batches(split, **kwargs):
        # Memories also read earlier segments, but gradients do not reach them.
        return corpus.batches(split, 32, SEGMENT, documents=True, **kwargs)

    halve = memlm.training.halve_after(max(1, FLAGS.epochs - 3))
    log = keras.callbacks.CSVLogger(f"{FLAGS.run_dir}/{name}_log.csv")
    model.fit(
        batches("train", shuffle=True, seed=FLAGS.seed),
        validation_data=batches("validation"),
        epochs=FLAGS.epochs,
        callbacks=[keras.callbacks.LearningRateScheduler(halve), log],
        verbose=1 if sys.stdout.isatty() else 2,
    )
    test = memlm.evaluation.perplexity(model, batches("test")).perplexity
    seconds, parameters = round(time.time() - begin), model.count_params()
    return model, dict(parameters=parameters, seconds=seconds, perplexity=test)


if __name__ == "__main__":
    app.run(main)
