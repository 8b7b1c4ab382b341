"""Trains variants of `memlm/small` and compares their perplexities.

    python recipes/ablation.py --dataset=novel.txt

They have a memory, a pointer, smoothing, other cells, averaged weights or other
sizes, and otherwise the options that `memlm train --dataset=novel.txt` would
choose. The last one combines smoothing, key-value-predict and a pointer. Runs
that are finished are not repeated.
"""

import dataclasses
import pathlib

from absl import app
from absl import flags

import memlm_keras as memlm
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import choose_preset
from memlm_keras.presets import own
from memlm_keras.presets.rows import projected_rnn
from memlm_keras.presets.rows import serialized

FLAGS = flags.FLAGS
flags.DEFINE_string("dataset", "embedded", "As of `memlm train`.")
flags.DEFINE_string("run_dir", "runs/ablation", "Folder of the runs.")
flags.DEFINE_multi_integer("seed", [0, 1], "Seeds of each variant.")
flags.DEFINE_multi_string("variant", None, "All, unless these are named.")
flags.DEFINE_float("dropout", None, "In place of that of the rule.")
LINE = "{:20} {:>10} {:>8} {:>12} {:>8}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant(own.OwnRow):
    """The row with other parts."""

    units: int = 200
    embedding_dim: int | None = 200
    # Class in `memlm_keras.memory`, and its arguments.
    memory: str | None = None
    window: int | None = None
    # Class in `memlm_keras.cells`; `None` is an LSTM.
    cell: str | None = None
    pointer: bool = False
    # Rate of linear interpolation.
    smoothing: float | None = None
    average: bool = False

    def model(self):
        model = super().model()
        if self.memory:
            model["memory"] = serialized(
                f"memlm_keras.memory.{self.memory}",
                window=self.window,
                kernel_initializer=self.weights,
            )
        if self.cell:
            cell = f"memlm_keras.cells.{self.cell}"
            model["recurrent"] = [projected_rnn(cell, units=self.units)]
        if self.pointer:
            pointer = "memlm_keras.mixtures.PointerSentinel"
            model["mixture"] = serialized(pointer, window=100)
        if self.smoothing:
            smoothing = serialized(
                "memlm_keras.smoothing.VariationalSmoothing",
                scheme="linear_interpolation",
                rate=self.smoothing,
                other_words="mean",
            )
            model["embedding"] = serialized(
                "memlm_keras.smoothing.SmoothedEmbedding",
                smoothing=smoothing,
                embeddings_initializer=self.weights,
            )
        return model

    def optimizer(self):
        optimizer = super().optimizer()
        if self.average:
            optimizer["config"] |= {
                "use_ema": True,
                "ema_momentum": 0.98,
                "ema_overwrite_frequency": 50,
            }
        return optimizer

    def more(self):
        """No cache and no dynamic evaluation."""
        return {}


# From +-0.3, 600 units do not learn.
PARTS = {
    "units": 600,
    "memory": "KeyValuePredict",
    "window": 5,
    "initial_range": 0.1,
}
VARIANTS = {
    "lstm": Variant(),
    "lstm_400": Variant(units=400, embedding_dim=400),
    "induction": Variant(memory="InductionAttention", window=100),
    "induction_0.1": Variant(
        memory="InductionAttention", window=100, initial_range=0.1
    ),
    "lstm_0.1": Variant(initial_range=0.1),
    "attention": Variant(memory="Attention", window=10),
    "key_value_predict": Variant(**PARTS),
    "pointer": Variant(pointer=True),
    "smoothing": Variant(smoothing=0.2),
    "associative_gru": Variant(cell="AssociativeGRUCell"),
    "average": Variant(average=True),
    "combined": Variant(smoothing=0.2, pointer=True, **PARTS),
}


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {argv[1:]}")
    memlm.presets.register("ablation", VARIANTS, title="Parts of memlm/small")
    choice = choose_preset(FLAGS.dataset, num_sampled=0)
    options = choice.options
    if FLAGS.dropout is not None:
        options = {**options, "dropout": FLAGS.dropout}
    lines = [LINE.format("", "parameters", "seed", "validation", "test")]
    for name in FLAGS.variant or VARIANTS:
        for seed in FLAGS.seed:
            preset = f"ablation/{name}"
            experiment = Experiment(preset, FLAGS.dataset, seed=seed, **options)
            run_dir = pathlib.Path(FLAGS.run_dir, f"{name}-seed{seed}")
            found = experiment.run(run_dir, **choice.running, verbose=2)
            perplexities = [
                f"{found[split]['perplexity']:.1f}"
                for split in ("validation", "test")
            ]
            lines.append(
                LINE.format(
                    name, f"{found['parameters']:,}", seed, *perplexities
                )
            )
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    app.run(main)
