"""Compares each row of tables with the logs of texts and the benchmarks."""

import json
import math
import re
import statistics

import pytest
from told import ROOT

import logs
from benchmarks import report
from benchmarks.runner import Result
from benchmarks.suites import CASES

from .test_result_tables import RESULTS
from .test_result_tables import rows

ENGLISH = "`memlm/english`", "`memlm/english_large`"
BOOKS = "kidnapped400", "kidnapped", "room", "mary_barton"
# Rows of sizes, settings and headings.
UNLOGGED = (
    "layers, units, tied embeddings",
    "training",
    "**perplexity of a known word**",
    "**minutes of the command**",
    "**perplexity of a piece**",
)
LIBRARIES = {"PyTorch": "torch", "JAX": "jax", "TensorFlow": "tensorflow"}
# Cases of the table of models; the first of a model counts.
MODELS = "memories", "associative_layer", "delta_rule_layer", "smoothing"
PEERS = {"plain Keras": "plain_keras", "memlm_keras": "package"}


def texts(study):
    """Returns the printed texts of a study, by the names of its runs."""
    runs = logs.read(RESULTS / "logs" / f"{study}.jsonl").items()
    return {name: run["text"] for name, run in runs if "text" in run}


def columns(text, label):
    """Returns the cells after a label in a printed table."""
    (line,) = re.findall(rf"^\| {re.escape(label)} \| (.*) \|$", text, re.M)
    return line.split(" | ")


def share(part, whole):
    """Returns by how much a perplexity is lower, in percent."""
    return f"{1 - part / whole:.0%}"


def english():
    found = texts("english")
    numbers = logs.numbers(RESULTS / "logs" / "english.jsonl")
    perplexity = r"^perplexity ([\d.]+) = exp\(([\d.]+) nats .*?([\d.]+) per w"
    tests = [
        [float(x) for x in re.findall(perplexity, found[name], re.M)[-1]]
        for name in ("log", "large_log")
    ]
    pieces, nats, words = zip(*tests)
    cached = float(
        re.findall(r"^perplexity (\S+) =", found["kneser_ney"], re.M)[1]
    )
    characters = sum(
        int(count) * math.log2(float(perplexity)) / float(bits)
        for count, perplexity, bits in re.findall(
            r"^test .* (\d+) pieces, perplexity (\S+), .* (\S+) bits per",
            found["books"],
            re.M,
        )
    )
    parameters = [
        re.search(r"^([\d,]+) parameters", found[name], re.M)[1]
        for name in ("log", "large_log")
    ]
    yield (
        "parameters",
        *(
            f"{int(count.replace(',', '')) / 1e6:.1f} million"
            for count in parameters
        ),
    )
    yield "perplexity of a piece", *map("{:.2f}".format, pieces)
    yield (
        f"below Kneser-Ney with a cache ({cached:.1f})",
        *(share(each, cached) for each in pieces),
    )
    yield (
        "perplexity of a word, punctuation attached",
        *map("{:.1f}".format, words),
    )
    yield (
        "bits per character",
        *(f"{each / math.log(2) / characters:.3f}" for each in nats),
    )
    for suite, label in (
        ("blimp", "BLiMP, 95% interval over pairs"),
        ("syntaxgym", "SyntaxGym, 95% interval over items"),
    ):
        overall = [
            columns(found[f"{s}{suite}"], "overall") for s in ("", "large_")
        ]
        yield label, *(f"{each[1]} ({each[2]})" for each in overall)
    for label, engine in (
        ("ms a word, one token at a time, PyTorch", "torch step"),
        ("the same, ONNX Runtime", "onnxruntime step"),
        ("ms a word, a whole text, PyTorch", r"torch step \S+ score"),
    ):
        times = re.findall(
            rf"^memlm/\w+ {engine} (\S+)", found["large_speed"], re.M
        )
        yield (
            label,
            *(f"{float(t):.{1 if float(t) >= 1 else 2}f}" for t in times),
        )

    known = re.findall(
        r"^\S+ (\S+) 0\.\d+$", found["further/known_words"], re.M
    )
    small, before, further = (
        [float(x) for x in known[i:12:3]] for i in range(3)
    )
    title = "`memlm/english`, trained further"
    for label, values in (
        ("`memlm/small`", small),
        (f"{ENGLISH[0]} as it is", before),
        (title, further),
    ):
        yield label, *map("{:.1f}".format, values)
    yield "below `memlm/small`", *map(share, further, small)
    for label, start in ("`memlm/small`", ""), (title, "memlm/english "):
        times = re.findall(
            rf"^(\d+):(\S+)  memlm train {start}--dataset=unseen/",
            found["further/times"],
            re.M,
        )
        yield label, *(f"{int(m) + float(s) / 60:.1f}" for m, s in times)
    for label, run, digits, *place in (
        (
            "Kneser-Ney with a cache",
            "further",
            1,
            "comparison",
            "kneser_ney_with_cache",
        ),
        ("`memlm/small` on pieces", "pieces", 1),
        (f"{ENGLISH[0]} as it is", "further", 1, "comparison", "before"),
        ("trained further", "further", 1),
        ("with dynamic evaluation", "further", 1, "dynamic"),
        ("bits per character, trained further", "further", 3, "comparison"),
    ):
        last = ["bits_per_character"] if digits == 3 else ["test", "perplexity"]
        values = [
            numbers[f"further/{b}_{run}", *place, *last][0] for b in BOOKS
        ]
        yield label, *(f"{value:.{digits}f}" for value in values)
    values = [
        numbers[f"further/{b}_small", "tokens_per_second"][0] for b in BOOKS
    ]
    seconds = [
        numbers[f"further/{b}_small", "seconds_per_epoch"][0] for b in BOOKS
    ]
    yield (
        "thousands of tokens for training, `memlm/small`",
        *(f"{a * b / 1000:.0f}" for a, b in zip(values, seconds)),
    )


def minimal_pairs():
    found = texts("minimal_pairs")
    for name, text in texts("english").items():
        if name.endswith(("blimp", "syntaxgym", "garden_paths")):
            large, suite = re.fullmatch("(large_)?(.*)", name).groups()
            if suite == "garden_paths":
                run = "english_large" if large else "english"
                text = re.sub(r"^(?=\d)", f"{run} ", text, flags=re.M)
                found[suite] += text
            found[f"{suite}_english{'_large' if large else ''}"] = text

    def scores(run):
        yield columns(found[f"blimp_{run}"], "overall")[3]
        yield columns(found[f"syntaxgym_{run}"], "overall")[1]
        for condition in ("NPS", "NPZ", "MVRR"):
            row = rf"^{run} \d+ {condition}_UAMB \w+ (?:0 )?(\S+) (\S+)$"
            bits = re.findall(row, found["garden_paths"], re.M)
            added = [
                float(with_it) - float(without) for with_it, without in bits
            ]
            yield f"{statistics.mean(added):.2f}" if bits else ""

    for label, words, *runs in (
        ("Kneser-Ney, order 5", "0.5 million", "kneser_ney"),
        ("LSTM, two seeds", "0.5 million", "lstm_seed0", "lstm_seed1"),
        (
            "delta rule, two seeds",
            "0.5 million",
            "delta_rule_seed0",
            "delta_rule_seed1",
        ),
        ("Kneser-Ney, order 5", "10 million", "kneser_ney_10m"),
        (f"{ENGLISH[0]}, an LSTM", "10 million", "english"),
        ("delta rule, the same recipe", "10 million", "delta_rule_10m"),
        (ENGLISH[1], "10 million, 12 epochs", "english_large"),
    ):
        yield label, words, *map(", ".join, zip(*map(scores, runs)))
    ngrams, lstm, _, gpt = columns(found["blimp_english"], "overall")[7:]
    yield "5-gram of BLiMP's authors", "3 billion", ngrams, "", "", "", ""
    yield "LSTM of BLiMP's authors", "83 million", lstm, "", "", "", ""
    suites = columns(found["syntaxgym_english"], "overall")[-1]
    yield "GPT-2", "", gpt, suites, "", "", ""
    runs = "kneser_ney_10m", "delta_rule_10m", "english", "english_large"
    for name in re.findall(
        r"^\| phenomenon (\S+)", found["blimp_english"], re.M
    ):
        accuracies = [
            columns(found[f"blimp_{run}"], f"phenomenon {name}") for run in runs
        ]
        published = [accuracies[0][i] for i in (7, 8, 10)]
        yield (
            name.replace("_", " "),
            *(cells[3] for cells in accuracies),
            *published,
        )


def performance():
    recorded = json.loads((ROOT / "docs" / "performance.json").read_text())
    ratios, models, timed = {}, {}, {}
    for case, results in recorded["cases"].items():
        results = [Result(**result) for result in results]
        for result in results:
            timed[case, result.contender] = result
        for line in report.table(CASES[case], results)[2:]:
            contender, _, ratio, *_ = line.strip("| ").split(" | ")
            ratios[case, contender] = f" ({ratio})"
            if case in MODELS:
                models.setdefault(contender, ratio)
    for peer, contender in {
        "PyTorch": "pytorch torch",
        "JAX by hand": "handwritten_jax jax",
        **{
            f"{title}, {library}": f"{name} {backend}"
            for title, name in PEERS.items()
            for library, backend in LIBRARIES.items()
        },
    }.items():
        row = [peer]
        for case in ("zaremba_medium", "vocabulary_77003", "small_update"):
            result = timed.get((case, contender))
            ms = 1000 * statistics.median(result.seconds) if result else 0
            ratio = "" if peer == "PyTorch" else ratios.get((case, contender))
            row.append(f"{ms:.{0 if ms > 10 else 1}f}{ratio}" if ms else "")
            if case != "small_update":
                row.append(f"{result.memory / 2**20:,.0f}" if result else "")
        yield tuple(row)
    for name in {contender.split()[-1] for contender in models}:
        each = [f"package {backend} {name}" for backend in LIBRARIES.values()]
        yield name, *(models.get(contender, "") for contender in each)
    (times,) = (t for n, t in texts("gpu").items() if n == "times")
    for label, model in (
        ("two", "2x1024/400 b128 s70"),
        *(
            (f"memlm/{size}", f"memlm/{size} 10000 words b20 s35")
            for size in ("small", "medium", "large")
        ),
    ):
        row = [label]
        for pattern in (
            rf"^torch {model}: (\d\S+) ms",
            # The last measurement has the current size of blocks.
            rf"^torch {model}(?: tf32)?: .* params, (\S+) ms",
            rf"^jax {model}: .* params, (\S+) ms",
        ):
            ms = re.findall(pattern, times, re.M)
            row.append(f"{float(ms[-1]):.1f}" if ms else "")
        yield tuple(row)


@pytest.mark.parametrize(
    "page, expected",
    [
        ("results/english", english),
        ("results/minimal_pairs", minimal_pairs),
        ("performance", performance),
    ],
    ids=["english", "minimal_pairs", "performance"],
)
def test_rows_have_the_numbers_of_their_logs(page, expected):
    logged = set(expected())
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    compared = 0
    for row in rows(text):
        label, *found = (cell for _, cell in row)
        if row[0][0] in ("work", "backend") or label in UNLOGGED:
            continue
        if row[0][0] == "model" and page == "performance":
            # Names of models are followed by their sizes.
            label = re.match(r"`?([\w/]+)", label)[1]
        compared += 1
        assert (label, *found) in logged, f"{label}: {found}"
    assert compared
