"""Tests the picture of a run's epochs."""

import pytest

from memlm_keras.analysis import pictures
from memlm_keras.experiments import figures


@pytest.mark.parametrize(
    "monitor, training, validation, scale, best",
    [
        ("val_perplexity", [4e3, 900, 510], [380, 159, 170], "log", 2),
        ("val_perplexity", [99, 98, 97], [99, 98, 97], "log", 3),
        ("val_accuracy", [0.4, 0.5, 0.6], [0.3, 0.7, 0.5], "linear", 2),
        ("val_perplexity", [5, 4, 3], [9, float("nan"), 8], "log", 3),
        ("val_perplexity", [float("nan")], [float("inf")], "linear", None),
    ],
)
def test_a_curve(
    monitor, training, validation, scale, best, tmp_path, monkeypatch
):
    made, save = [], pictures.save
    monkeypatch.setattr(
        pictures, "save", lambda *a: made.append(a[0]) or save(*a)
    )
    names = monitor.removeprefix("val_"), monitor
    log = [
        {"epoch": float(epoch), **dict(zip(names, values))}
        for epoch, values in enumerate(zip(training, validation))
    ]
    figures.draw_curve(log, monitor, tmp_path / "curve.png", "row on $text$")
    (axes,) = made[0].axes
    assert axes.get_title() == r"row on \$text\$"
    assert axes.get_yscale() == scale
    assert "with any dropout" in axes.get_xlabel()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["training", "validation"]
    expected = [] if best is None else [f"best: epoch {best}, "]
    assert [label[: len("best: epoch 0, ")] for label in labels[2:]] == expected
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
