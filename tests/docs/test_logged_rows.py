"""Compares the tables of the performance page with measurements."""

import json
import re
import statistics

from told import ROOT

import logs
from benchmarks import report
from benchmarks.runner import Result
from benchmarks.suites import CASES

from .test_result_tables import RESULTS
from .test_result_tables import rows

LIBRARIES = {"PyTorch": "torch", "JAX": "jax", "TensorFlow": "tensorflow"}
# Rows of the table of libraries, and their contenders.
CONTENDERS = {
    "PyTorch": "pytorch torch",
    "JAX by hand": "handwritten_jax jax",
    **{f"plain Keras, {k}": f"plain_keras {v}" for k, v in LIBRARIES.items()},
    **{f"memlm_keras, {k}": f"package {v}" for k, v in LIBRARIES.items()},
    "memlm_keras, JAX, ten steps a call": "package jax ten_steps",
    "memlm_keras, TensorFlow, ten steps a call": "package tensorflow ten_steps",
}
# Cases of the table of models; a model's first case has its number.
MODELS = "memories associative_layer delta_rule_layer smoothing".split()
MODELS += "lstm_network_layer word_by_word_layer memory_network".split()


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
    for peer, contender in CONTENDERS.items():
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
    times = logs.read(RESULTS / "logs" / "gpu.jsonl")["times"]["text"]
    sizes = [f"memlm/{size}" for size in ("small", "medium", "large")]
    of_sizes = {size: f"{size} 10000 words b20 s35" for size in sizes}
    for label, model in {"two": "2x1024/400 b128 s70", **of_sizes}.items():
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


def test_rows_of_performance_have_the_numbers_of_their_logs():
    logged = set(performance())
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    compared = 0
    for (heading, label), *cells in rows(text):
        if heading in ("work", "backend"):
            continue
        if heading == "model":
            # Names of models are followed by their sizes.
            label = re.match(r"`?([\w/]+)", label)[1]
        compared += 1
        found = label, *(cell for _, cell in cells)
        assert found in logged, found
    assert compared
