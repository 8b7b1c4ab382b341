"""Draws README's picture: the four steps of a model, and attention weights.

    python recipes/quickstart.py && python docs/pictures/overview.py

Draws three predictions of the quickstart's model with attention on the first
words of the test text.
"""

import pathlib

import keras
import numpy as np
from matplotlib import figure
from matplotlib import patches
from matplotlib.backends.backend_agg import FigureCanvasAgg

import memlm_keras as memlm

PATH = pathlib.Path(__file__).with_name("overview.png")
MODEL = "runs/quickstart/model.keras"
WORDS = 52
# Steps whose predictions are drawn, and their colours.
PREDICTED = {22: "#2563eb", 32: "#d97706", 41: "#c026d3"}
LEAST_WEIGHT = 0.14
INK, FAINT = "#1f2937", "#6b7280"
COLUMNS = (
    (
        "embed",
        "tokens to vectors",
        "#dbeafe",
        "#3b82f6",
        (
            "words or pieces",
            "pretrained vectors",
            "noising · Xie 2017",
            "smoothing · Kong 2019",
        ),
    ),
    (
        "recur",
        "Keras layers and cells",
        "#dcfce7",
        "#22c55e",
        (
            "LSTM, GRU, SimpleRNN",
            "higher order · Soltani 2016",
            "associative · Weissenborn 2016",
            "zoneout · Krueger 2017",
        ),
    ),
    (
        "remember",
        "read back what was seen",
        "#fef3c7",
        "#d97706",
        (
            "attention, key-value-predict,",
            "N-gram · Daniluk 2017",
            "memory block · Tran 2016",
            "attentive · Salton 2017",
        ),
    ),
    (
        "predict",
        "the next word",
        "#fce7f3",
        "#db2777",
        (
            "tied, untied, smoothed",
            "cache · Grave 2017",
            "pointer · Merity 2017",
            "ensembles",
        ),
    ),
)


def main():
    words, weights, probabilities = read_with_attention()
    picture = figure.Figure(figsize=(12, 6.2), dpi=110)
    FigureCanvasAgg(picture)
    draw_words_of_models(picture.add_axes([0, 0.49, 1, 0.51]))
    draw_text(picture, words, weights, probabilities)
    picture.savefig(PATH)
    print(PATH)


def read_with_attention():
    """Returns words, and attention and probabilities of a trained model."""
    lm = keras.saving.load_model(MODEL)
    tokens = memlm.data.load("embedded").test.tokens[:WORDS]
    return (
        lm.vocabulary.decode(tokens),
        lm.attention(tokens[None])[0],
        np.exp(lm.score(tokens[None])[0]),
    )


def draw_words_of_models(axes):
    axes.set(xlim=(0, 100), ylim=(0, 40))
    axes.axis("off")
    for index, (name, what, face, edge, items) in enumerate(COLUMNS):
        left = 2.5 + 24.4 * index
        middle = left + 10.6
        axes.add_patch(
            patches.FancyBboxPatch(
                (left, 3),
                21.2,
                33,
                boxstyle="round,pad=0.2,rounding_size=1.2",
                fc=face,
                ec=edge,
                lw=1.6,
            )
        )
        center = {"ha": "center", "va": "center"}
        axes.text(middle, 31, name, fontsize=19, weight="bold", **center)
        axes.text(
            middle,
            26.6,
            what,
            fontsize=10.5,
            color=FAINT,
            style="italic",
            **center,
        )
        for line, item in enumerate(items):
            height = 21.2 - 4.6 * line
            axes.text(middle, height, item, fontsize=11, color=INK, **center)
        if index < len(COLUMNS) - 1:
            axes.add_patch(
                arrow((left + 21.7, 19.5), (left + 24.0, 19.5), INK, 1.6, 18)
            )


def draw_text(picture, words, weights, probabilities):
    axes = picture.add_axes([0.02, 0, 0.96, 0.48])
    axes.axis("off")
    axes.set(xlim=(0, 1150), ylim=(0, 300))
    axes.text(
        0,
        290,
        f"A trained model looks back: attention over {weights.shape[1]} words, "
        f"for {len(PREDICTED)} of the words that it predicts",
        fontsize=12.5,
        weight="bold",
        color=INK,
        va="top",
    )
    placed = place(axes, picture.canvas.get_renderer(), words)
    for step, color in PREDICTED.items():
        text, middle, height = placed[step + 1]
        text.set(color="white", zorder=5)
        text.set_bbox({"boxstyle": "round,pad=0.2", "fc": color, "ec": color})
        axes.text(
            middle,
            height - 21,
            f"{probabilities[step]:.0%}",
            fontsize=9.5,
            color=color,
            weight="bold",
            ha="center",
            va="center",
        )
        for slot, weight in enumerate(weights[step]):
            attended = step - weights.shape[1] + slot
            if attended < 0 or weight < LEAST_WEIGHT:
                continue
            text, there, level = placed[attended]
            shade = {"fc": color, "ec": "none", "alpha": 0.15 + 0.45 * weight}
            text.set_bbox({"boxstyle": "round,pad=0.18", **shade})
            above = 12 if level == height else -12
            axes.add_patch(
                arrow(
                    (middle, height + 12),
                    (there, level + above),
                    color,
                    0.8 + 4.0 * weight,
                    10 + 6 * weight,
                    connectionstyle="arc3,rad=0.13",
                    alpha=0.75,
                )
            )


def place(axes, renderer, words):
    """Writes words line by line; returns texts, middles and heights."""
    placed, left, height = [], 0, 220
    to_data = axes.transData.inverted()
    for index, word in enumerate(words):
        is_predicted = index - 1 in PREDICTED
        left += 6 * is_predicted
        text = axes.text(left, height, word, fontsize=12, color=INK)
        text.set(va="center", weight="bold" if is_predicted else "normal")
        box = text.get_window_extent(renderer).transformed(to_data)
        if box.x1 > 1145:
            left, height = 0, height - 70
            text.set_position((left, height))
            box = text.get_window_extent(renderer).transformed(to_data)
        placed.append((text, (box.x0 + box.x1) / 2, height))
        left = box.x1 + 11 + 6 * is_predicted
    return placed


def arrow(begin, end, color, width, head, **kwargs):
    return patches.FancyArrowPatch(
        begin,
        end,
        arrowstyle="-|>",
        mutation_scale=head,
        color=color,
        lw=width,
        **kwargs,
    )


if __name__ == "__main__":
    main()
