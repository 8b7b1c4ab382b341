"""Trains the models of Weissenborn (2016): associative memories for pairs.

    python recipes/weissenborn2016.py --dataset=sick --data_dir=sick \\
        --model=weissenborn2016/dual_am_gru_shared
    python recipes/weissenborn2016.py --dataset=snli --vectors=glove.840B.300d.zip
    python recipes/weissenborn2016.py --dataset=embedded \\
        --premise="ada likes tea . bert likes chess ." \\
        --hypothesis="bert likes tea ."  # of a run that is finished, or is now
    python recipes/weissenborn2016.py --table=entailment --dataset=sick \\
        --data_dir=sick --seeds=0,1,2,3,4
    python recipes/weissenborn2016.py --dataset=ptb \\
        --model=weissenborn2016/dual_am_gru_autoencoder

A classifier tells whether a hypothesis follows from a premise; an autoencoder
writes again what it has read. The best epoch on validation data is kept; with
classifiers an epoch is a pass over the pairs, or 1,000 batches if that is less,
and the learning rate is halved when the accuracy falls over a pass.

A run folder is written, as by recipes/daniluk2017.py, and in it, of models with
an associative memory, associations.png and .csv: how alike what each word of
the hypothesis read is to what each word of the premise wrote, the paper's
Figures 2 and 3. With --export, a classifier is written as a SavedModel too.
"""  # noqa: E501

import common
import drawn_sentence
import dual_sequence_runs
import preset_runs
import tables
from absl import app
from absl import flags

PAPER = "weissenborn2016"
TABLES = {
    "entailment": ("EntailmentClassifier", "Table 1"),
    "autoencoding": ("SequenceAutoencoder", "Section 5.3"),
}
PICTURE = "associations.png"
OF_PICTURES = ("premise", "hypothesis", "sentence", "written")
# Flags of one kind of model only.
OF_ONE_KIND = {
    "EntailmentClassifier": (
        *("premise", "hypothesis", "vectors", "lowercase", "export"),
        *("embedding_range", "halve"),
    ),
    "SequenceAutoencoder": (
        *("sentence", "beams", "segment_length", "tokenize", "document_start"),
    ),
    "LanguageModel": ("halve_after",),
}

FLAGS = flags.FLAGS
common.define_flags(run_dir=f"runs/{PAPER}")
tables.define_flags(TABLES)
preset_runs.define_flags()
dual_sequence_runs.define_flags()
drawn_sentence.define_flags("Of autoencoders, for the picture: ")
# So that --help tells of them.
for module in (
    *(common, tables, preset_runs, dual_sequence_runs, drawn_sentence),
):
    flags.adopt_module_key_flags(module)
flags.DEFINE_string(
    "model",
    f"{PAPER}/dual_am_gru_shared",
    f"Preset of {PAPER}, of a classifier or an autoencoder.",
)
flags.DEFINE_string(
    "premise",
    None,
    "Of classifiers, for the picture: the premise, its words as the corpus has "
    "them, with spaces between; by default that of the first test pair.",
)
flags.DEFINE_string(
    "hypothesis", None, "The hypothesis, likewise; to be given with --premise."
)
flags.DEFINE_enum(
    "written",
    "written",
    ["written", "state"],
    "For the picture: compare with what a step adds to the memory, or with all "
    "that it then remembers.",
)
flags.DEFINE_string(
    "export",
    None,
    "Folder to write a classifier to as a SavedModel, saved_models/NAME/1.",
)

RUNS = {
    "EntailmentClassifier": dual_sequence_runs.EntailmentRuns((PAPER,)),
    "SequenceAutoencoder": dual_sequence_runs.AutoencoderRuns((PAPER,)),
}


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    tables.check_flags((), ("model",))
    drawn_sentence.check_flags()
    if (FLAGS.premise is None) != (FLAGS.hypothesis is None):
        raise app.UsageError("--premise and --hypothesis go together.")
    common.choose_backend(FLAGS.backend)
    from memlm_keras import presets

    if FLAGS.table is not None:
        kind, where = TABLES[FLAGS.table]
        check_kind(kind)
        wrong = [f for f in ("export", *OF_PICTURES) if FLAGS[f].present]
        if wrong:
            raise app.UsageError(f"--{wrong[0]} contradicts --table.")
        return RUNS[kind].fill_table(f"Weissenborn (2016), {where}")
    kind = presets.get(FLAGS.model)["kind"]
    if kind not in RUNS:
        raise app.UsageError(
            "--model must be a classifier or an autoencoder; language models "
            "are trained by recipes/baselines.py. Received: "
            f"--model={FLAGS.model}"
        )
    check_kind(kind)
    if FLAGS.export is not None:
        from memlm_keras import serving

        serving.check_path(FLAGS.export)
    model, corpus, run_dir = RUNS[kind].train(FLAGS.model)
    classifier = kind == "EntailmentClassifier"
    source, target = (_pair if classifier else _sentence)(corpus)
    if classifier:
        tell(model, corpus, source, target)
    if all(hasattr(reader.cell, "trace") for reader in model.readers):
        draw(model, corpus, source, target, run_dir)
    if FLAGS.export is not None:
        serving.export(
            model, FLAGS.export, corpus.vocabulary, labels=corpus.labels
        )


def check_kind(kind):
    """Refuses flags that models of this kind have no use for."""
    for other, names in OF_ONE_KIND.items():
        wrong = [name for name in names if FLAGS[name].present]
        if other != kind and wrong:
            raise app.UsageError(
                f"--{wrong[0]} has no meaning for a {kind}. Received: "
                f"{FLAGS[wrong[0]].serialize()}"
            )


def tell(model, corpus, premise, hypothesis):
    """Prints what a classifier says of a pair."""
    import keras
    import numpy as np

    from memlm_keras.data import PairBatches

    encode = corpus.vocabulary.encode
    batches = PairBatches([encode(premise)], [encode(hypothesis)], [0], 1)
    logits = model.predict(batches, verbose=0)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    print(" ".join(premise), "/", " ".join(hypothesis))
    for index in np.argsort(-probabilities):
        print(f"  {probabilities[index]:.3f} {corpus.labels[index]}")


def draw(model, corpus, source, target, run_dir):
    """Draws what was read of what was written, and writes the numbers."""
    from memlm_keras import analysis

    encode = corpus.vocabulary.encode
    found = analysis.associations(
        model, encode(source), encode(target), FLAGS.written
    )
    path = run_dir / PICTURE
    analysis.plot_associations(
        found.similarity, source, target, path, FLAGS.model.partition("/")[2]
    )
    analysis.write_associations(
        found.similarity, source, target, path.with_suffix(".csv")
    )
    print(f"See {path}")


def _pair(corpus):
    """The pair to draw: the one that is given, or the first of the test."""
    if FLAGS.premise is not None:
        pair = FLAGS.premise.split(), FLAGS.hypothesis.split()
        if not all(pair):
            raise app.UsageError("--premise and --hypothesis must hold words.")
        return pair
    decode = corpus.vocabulary.decode
    return decode(corpus.test.premises[0]), decode(corpus.test.hypotheses[0])


def _sentence(corpus):
    """The sentence to draw: as it is read, and as the decoder reads it."""
    words = drawn_sentence.words(corpus)
    end = corpus.vocabulary.tokens[corpus.vocabulary.end_of_sentence_id]
    return [*words, end], [end, *words]


if __name__ == "__main__":
    app.run(main)
