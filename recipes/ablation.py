"""Trains variants of `memlm/small` and compares their perplexities.

    python recipes/ablation.py --dataset=novel.txt

A variant adds a memory, a pointer or smoothing, or changes the cells, the sizes
or the averaging of weights. All other options are those that `memlm train
--dataset=novel.txt` would choose, except that losses are over all words and the
learning rate is that of small texts. Finished runs are not repeated. `memlm
pairs`, `memlm surprisal` and `memlm evaluate --dataset=novel.txt` read the run
RUN_DIR/VARIANT-seed0.
"""

import dataclasses
import pathlib

from absl import flags

import memlm_keras as memlm
import programs
from memlm_keras.experiments import Experiment
from memlm_keras.experiments import choose_preset
from memlm_keras.experiments import process
from memlm_keras.experiments.options import UsageError
from memlm_keras.presets import memlm_rows
from memlm_keras.presets.rows import projected_rnn
from memlm_keras.presets.rows import serialized
from memlm_keras.presets.rows import uniform

FLAGS = flags.FLAGS
flags.DEFINE_string("dataset", "embedded", "As in `memlm train`.")
flags.DEFINE_string("run_dir", "runs/ablation", "Folder of the runs.")
flags.DEFINE_multi_integer("seed", [0, 1], "Seeds of each variant.")
flags.DEFINE_float("dropout", None, "Dropout rate; default: by the text.")
flags.DEFINE_float("learning_rate", None, "Learning rate; default: by preset.")
flags.DEFINE_integer("epochs", None, "Epochs; default: by the text.")
flags.DEFINE_integer("halve_after", None, "As in `memlm train`.")
flags.DEFINE_integer("linear_decay", None, "As in `memlm train`.")
flags.DEFINE_integer("batch_size", None, "Batch size; default: by the text.")
flags.DEFINE_float("scale", None, "Factor on sizes, as in `memlm train`.")
flags.DEFINE_integer("window", None, "Window of memories that have one.")
flags.DEFINE_integer("num_sampled", 0, "As in `memlm train`.")
flags.DEFINE_integer("cache_size", None, "As in `memlm train`.")
GIVEN = (
    "dropout learning_rate epochs halve_after linear_decay batch_size scale "
    "num_sampled"
).split()
LINE = "{:20} {:>10} {:>8} {:>12} {:>8}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant(memlm_rows.MemlmRow):
    """A variant of `memlm/small`."""

    units: int = 200
    embedding_dim: int | None = 200
    # Name of a class in `memlm_keras.memory`, and the arguments of the class.
    memory: str | None = None
    window: int | None = None
    arguments: dict = dataclasses.field(default_factory=dict)
    # Name of a class in `memlm_keras.cells`; `None` means an LSTM.
    cell: str | None = None
    # Window of a pointer sentinel, in steps; `None` means no pointer.
    pointer: int | None = None
    # Rate of smoothing by linear interpolation.
    smoothing: float | None = None
    average: bool = False

    def model(self):
        model = super().model()
        if self.memory:
            arguments = {"kernel_initializer": self.weights, **self.arguments}
            if self.window is not None:
                arguments["window"] = self.window
            memory = f"memlm_keras.memory.{self.memory}"
            model["memory"] = serialized(memory, **arguments)
        if self.cell:
            cell = f"memlm_keras.cells.{self.cell}"
            model["recurrent"] = [projected_rnn(cell, units=self.units)]
        if self.pointer:
            pointer = "memlm_keras.mixtures.PointerSentinel"
            model["mixture"] = serialized(pointer, window=self.pointer)
        if self.smoothing:
            smoothing = serialized(
                "memlm_keras.smoothing.VariationalSmoothing",
                scheme="linear_interpolation",
                rate=self.smoothing,
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
        """Leaves out the cache and dynamic evaluation of `memlm/small`."""
        return {}


INDUCTION = {"memory": "InductionAttention", "window": 100}
# With an initial range of 0.3, a model with 600 units does not learn.
PARTS = {
    "units": 600,
    "memory": "KeyValuePredict",
    "window": 5,
    "initial_range": 0.1,
}


def delta_rule(**changes):
    """Makes a variant with a `DeltaRule` memory; `changes` are its
    arguments."""
    arguments = {
        "num_heads": 4,
        "key_dim": 48,
        "decay": True,
        "residual": True,
        "kernel_initializer": "glorot_uniform",
    }
    return Variant(memory="DeltaRule", arguments=arguments | changes)


VARIANTS = {
    "lstm": Variant(),
    # This LSTM has as many parameters as the models with a memory.
    "lstm_wide": Variant(units=248),
    "lstm_0.1": Variant(initial_range=0.1),
    "induction": Variant(**INDUCTION),
    "induction_0.1": Variant(**INDUCTION, initial_range=0.1),
    "induction_pointer": Variant(**INDUCTION, initial_range=0.1, pointer=100),
    "attention": Variant(memory="Attention", window=100, initial_range=0.1),
    "delta_rule": delta_rule(),
    "delta_rule_no_decay": delta_rule(decay=False),
    "delta_rule_no_residual": delta_rule(residual=False),
    "delta_rule_0.1": delta_rule(kernel_initializer=uniform(0.1)),
    "key_value_predict": Variant(**PARTS),
    "pointer": Variant(pointer=100),
    "smoothing": Variant(smoothing=0.2),
    "associative_gru": Variant(cell="AssociativeGRUCell"),
    "average": Variant(average=True),
    "combined": Variant(smoothing=0.2, pointer=100, **PARTS),
}
flags.DEFINE_multi_enum(
    "variant", None, [*VARIANTS], "Variants to train; default: all."
)


def main(arguments):
    if arguments:
        raise UsageError(f"Unknown arguments: {arguments}")
    process.import_keras()
    memlm.presets.register("ablation", VARIANTS, title="Parts of memlm/small")
    given = {
        name: FLAGS[name].value
        for name in GIVEN
        if FLAGS[name].value is not None
    }
    # A scale of 1 keeps the sizes of the preset.
    choice = choose_preset(FLAGS.dataset, **{"scale": 1.0} | given)
    epochs = given.pop("epochs", choice.running.get("epochs"))
    options = choice.options | given
    lines = [LINE.format("", "parameters", "seed", "validation", "test")]
    for name in FLAGS.variant or VARIANTS:
        sizes, measures = dict(options), {}
        if FLAGS.window is not None and VARIANTS[name].window is not None:
            sizes["window"] = FLAGS.window
        if not VARIANTS[name].pointer:
            measures["cache_size"] = FLAGS.cache_size
        for seed in FLAGS.seed:
            preset = f"ablation/{name}"
            experiment = Experiment(preset, FLAGS.dataset, seed=seed, **sizes)
            run_dir = pathlib.Path(FLAGS.run_dir, f"{name}-seed{seed}")
            found = experiment.run(
                run_dir, epochs=epochs, verbose=2, measures=measures
            )
            cells = [name, f"{found['parameters']:,}", str(seed)]
            for split in ("validation", "test"):
                cells.append(f"{found[split]['perplexity']:.1f}")
            lines.append(LINE.format(*cells))
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    programs.run(main)
