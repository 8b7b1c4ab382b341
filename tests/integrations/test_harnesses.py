"""Compares scores from programs for `transformers` models with this
package's."""

import importlib.util
import json
import pathlib

import numpy as np
import pytest
from told import python

import memlm_keras as memlm
from memlm_keras.serving import export

pytestmark = [pytest.mark.slow, pytest.mark.backend("torch")]

SENTENCES = "sentence_good", "sentence_bad"
COUNT = 200
ROWS = 32


@pytest.fixture(scope="module")
def pairs():
    """Makes pairs of sentences with common words, some with punctuation."""
    words = "The of and to a, in was he that's it Her with as had.".split()
    random = np.random.default_rng(1)
    orders = [
        random.permuted([words, words], axis=1)[:, : 3 + place % 9]
        for place in range(COUNT)
    ]
    return [dict(zip(SENTENCES, map(" ".join, order))) for order in orders]


@pytest.fixture(scope="module")
def lm():
    return memlm.LanguageModel.from_preset("memlm/english")


@pytest.fixture(scope="module")
def ours(lm, pairs):
    """Returns this package's scores of the pairs, float64 `(pairs, 2)`."""
    result = memlm.linguistics.minimal_pairs(lm, pairs)
    return np.stack([result.good, result.bad], axis=1)


@pytest.fixture(scope="module")
def wrapped(lm):
    pytest.importorskip("transformers", reason="needs the extra huggingface")
    from memlm_keras.integrations.huggingface import modeling as huggingface

    return huggingface.wrap(lm)


def batches(pairs):
    """Yields batches of sentences, alternately good and bad."""
    sentences = [pair[name] for pair in pairs for name in SENTENCES]
    for begin in range(0, len(sentences), ROWS):
        yield sentences[begin : begin + ROWS]


def require_ours(found, ours):
    found = np.asarray(found, "float64").reshape(ours.shape)
    assert np.abs(found - ours).max() < 1e-4


def test_minicons(wrapped, pairs, ours):
    scorer = pytest.importorskip("minicons.scorer", reason="needs minicons")
    model, tokenizer = wrapped
    scorer = scorer.IncrementalLMScorer(model, tokenizer=tokenizer)
    for bos_token in (False, True):
        found = [
            score
            for sentences in batches(pairs)
            for score in scorer.sequence_score(
                sentences,
                reduction=lambda scores: scores.double().sum().item(),
                bos_token=bos_token,
            )
        ]
        require_ours(found, ours)


def write_task(folder, pairs):
    """Writes lm-evaluation-harness' task BLiMP with the given pairs."""
    package = pathlib.Path(importlib.util.find_spec("lm_eval").origin).parent
    data = folder / "pairs.jsonl"
    data.write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")
    task = {
        "task": "blimp_pairs",
        "include": str(package / "tasks" / "blimp" / "_template_yaml"),
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"train": str(data)}},
    }
    # JSON is YAML.
    (folder / "pairs.yaml").write_text(json.dumps(task), encoding="utf-8")


def test_lm_evaluation_harness(lm, pairs, ours, tmp_path):
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    write_task(tmp_path, pairs)
    path = export(lm, tmp_path / "lm", format="hf")
    arguments = {
        "--model": "hf",
        "--model_args": f"pretrained={path},trust_remote_code=True",
        "--tasks": "blimp_pairs",
        "--include_path": str(tmp_path),
        "--batch_size": str(ROWS),
        "--device": "cpu",
        "--output_path": str(tmp_path / "results"),
    }
    python(
        *("-m", "lm_eval", "run", "--log_samples"),
        *(part for argument in arguments.items() for part in argument),
        folder=tmp_path,
        HF_HUB_OFFLINE="1",
        HF_DATASETS_CACHE=str(tmp_path / "datasets"),
        HF_MODULES_CACHE=str(tmp_path / "modules"),
        KERAS_BACKEND=None,
    )
    (samples,) = (tmp_path / "results").rglob("samples_*.jsonl")
    lines = samples.read_text(encoding="utf-8").splitlines()
    rows = sorted(map(json.loads, lines), key=lambda row: row["doc_id"])
    assert [row["doc"]["sentence_good"] for row in rows] == [
        pair["sentence_good"] for pair in pairs
    ]
    require_ours(
        [float(sum_) for row in rows for sum_, _ in row["filtered_resps"]], ours
    )
    (results,) = (tmp_path / "results").rglob("results_*.json")
    accuracy = json.loads(results.read_text())["results"]["blimp_pairs"]
    # lm-evaluation-harness counts a tie as correct.
    right = ours[:, 0] >= ours[:, 1]
    assert accuracy["acc,none"] == pytest.approx(right.mean())
