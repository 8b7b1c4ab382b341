"""`memlm score`, `generate`, `attention` and `predict`."""

import math
import os
import sys

import memlm_keras as memlm
from memlm_keras import files
from memlm_keras.experiments import options
from memlm_keras.experiments import process
from memlm_keras.experiments.command_line import command
from memlm_keras.experiments.opened import open_run

_TOP_K = 10


@command(
    "Prints the log-probability of each token of sentences, and their "
    "perplexity. Without TEXT, reads the lines of standard input.",
    {"RUN": None, "TEXT": "*"},
    options.CACHE,
)
def score(run: str, text: list, cache: bool = False):
    for each in text:
        if os.path.isfile(each):
            raise options.UsageError(
                f"TEXT must be a sentence, but {each} is a file. memlm score "
                "RUN < FILE scores its lines, and memlm surprisal RUN FILE "
                "writes a table."
            )
    opened = open_run(run)
    model = opened.model_that("score", cache)
    vocabulary = opened.vocabulary
    total, length, count = 0.0, 0, 0
    entered = memlm.data.text_store.EnteredText(vocabulary)
    for line in map(entered.line, text or _typed_lines()):
        ids = vocabulary.encode_sentence(line)
        scores = [*map(float, model.score(ids if opened.counts else line))]
        words = vocabulary.decode(ids)
        width = max(map(len, words))
        for word, value in zip(words, scores, strict=True):
            print(f"{word:{width}} {value:10.4f} nats")
        print(_summary(sum(scores), len(scores)), end="\n\n")
        total, length = total + sum(scores), length + len(scores)
        count += 1
    if count > 1:
        print(f"{count} sentences: {_summary(total, length)}")
    process.print_notes(*entered.notes())


def _typed_lines():
    if sys.stdin is None:
        raise options.UsageError(
            "TEXT must be given, because standard input is closed."
        )
    if sys.stdin.isatty():
        print("Type one sentence per line, and end with Ctrl-D:")
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def _summary(total, length):
    found = memlm.evaluation.Perplexity(-total, length, length, "")
    return (
        f"log-probability {total:.4f} nats ({total / math.log(2):.4f} bits), "
        f"{length} predicted tokens, perplexity {found.perplexity:.2f}"
    )


@command(
    "Continues a text.",
    {"RUN": None, "PROMPT": "?"},
    options.CACHE,
    options.Option(
        "max_length",
        int,
        "Maximum number of words, including the prompt.",
        at_least=1,
    ),
    options.Option(
        "sampler",
        str,
        "How to choose the next word.",
        choices=("top_k", "top_p", "greedy", "beam", "random"),
    ),
    options.Option("sentences", int, "Number of texts.", at_least=1),
    options.seed("Seed of the sampler; by default a random one."),
    options.Option("unknown", bool, "Allow the token of unknown words."),
)
def generate(
    run: str,
    prompt: str | None,
    cache: bool = False,
    max_length: int = 50,
    sampler: str = "top_k",
    sentences: int = 3,
    seed: int | None = None,
    unknown: bool = False,
):
    model = open_run(run).model_that("generate", cache)
    if seed is not None:
        import keras

        keras.utils.set_random_seed(seed)
    words = model.vocabulary
    prompt = memlm.data.text_store.EnteredText(words).line(prompt or "")
    ids = list(words.encode(prompt))
    if number := ids.count(words.unknown_id):
        process.print_notes(
            f"{number} of the prompt's {len(ids)} tokens are read as "
            f"{words.unknown}."
        )
    with options.wrong_use():
        texts = model.generate(
            [prompt] * sentences,
            max_length,
            sampler,
            suppress_token_ids=[] if unknown else [words.unknown_id],
        )
    for text in texts:
        print(text)


@command(
    "Writes pictures of a model's attention to its run folder, also over a "
    "sentence TEXT. With --out, writes an HTML page for TEXT instead.",
    {"RUN": None, "TEXT": "?"},
    options.to_write(
        "out",
        help="HTML file to write instead of pictures: pointing at a word of "
        "TEXT shows where the model attended.",
    ),
    options.VERBOSE,
    pictures=options.DRAWING,
)
def attention(
    run: str,
    text: str | None,
    verbose: int,
    pictures: dict,
    out: str | None = None,
):
    from memlm_keras.experiments.figures import check_pictures

    opened = open_run(run)
    if out is not None or opened.folder is None:
        model = _attending(opened)
        if out is None or text is None or pictures:
            raise options.UsageError(
                "To write an HTML page, give TEXT and --out, and no picture "
                'options: memlm attention RUN "some words" --out=map.html. A '
                "model without a run folder can only be shown on such a page."
            )
        predictions = memlm.analysis.sentence_predictions(
            model, text, top=min(_TOP_K, model.vocabulary_size)
        )
        title = f"Attention of {opened.name}"
        return memlm.analysis.write_sentence_page(predictions, out, title)
    if text is not None:
        pictures = {"sentence": text, **pictures}
    with process.quiet(verbose):
        experiment = opened.experiment
    check_pictures(experiment, pictures)
    folder = opened.folder.path
    with files.hold(folder), process.quiet(verbose):
        paths = experiment.draw(opened.model, folder, pictures, verbose)
    if not paths:
        raise options.UsageError(
            f"{experiment.preset_name} has no attention that can be drawn."
        )
    print("\n".join(map(str, paths)))


def _attending(opened):
    """Returns a model that attends to words of its text, or raises an error."""
    model = opened.model_that("attention")
    # Classifiers attend to another sentence, and the page shows only one.
    if getattr(model, "attending", None) is None:
        raise options.UsageError(
            f"{opened.path} has no attention that an HTML page can show. Name "
            "a language model with a memory that attends to words of its text, "
            "such as memlm/embedded_attention."
        )
    return model


@command(
    "Prints the probability of each label of a pair; or, for a FILE (.tsv, "
    ".csv or .jsonl, with the columns premise and hypothesis), a table with "
    "the probabilities for all pairs.",
    {"RUN": None, "FILE/PREMISE": None, "HYPOTHESIS": "?"},
    options.to_write("out", help="Table to write; by default it is printed."),
)
def predict(
    run: str, premise: str, hypothesis: str | None, out: str | None = None
):
    if hypothesis is None and not os.path.isfile(premise):
        raise options.UsageError(
            "memlm predict RUN needs a file of pairs, or a PREMISE and a "
            f"HYPOTHESIS. Received: {premise}, which is not a file"
        )
    if hypothesis is not None and out is not None:
        raise options.UsageError("--out needs a file of pairs.")
    from memlm_keras.experiments.pairs import predict_pairs

    model = open_run(run).model_that("classify")
    with options.wrong_use():
        if hypothesis is not None:
            labels = model.classify(premise, hypothesis)
        else:
            table, notes = predict_pairs(model, premise)
    if hypothesis is None:
        with process.writing(out) as file:
            file.write(table)
        process.print_notes(*notes)
        return
    for label, probability in sorted(labels.items(), key=lambda i: -i[1]):
        print(f"{probability:.3f} {label}")
