"""The cases and suites of the benchmark."""

import dataclasses

from benchmarks.cases import Case
from benchmarks.cases import Contender

BACKENDS = ("tensorflow", "jax", "torch")
_ANY = float("inf")


def _package(*variants, precision="float32", tolerance=1e-4):
    return tuple(
        Contender("package", backend, variant, precision, tolerance, computes)
        for backend in BACKENDS
        for variant, computes in zip(
            variants or ("plain",), variants or ("",), strict=True
        )
    )


def _pytorch(*variants):
    return tuple(
        Contender("pytorch", "torch", variant, computes=variant)
        for variant in variants
    )


# `lstm_n_parts` is an LSTM with the sizes of a model whose memory has n parts.
_MEMORIES = (
    "lstm",
    "lstm_3_parts",
    "lstm_4_parts",
    "key_value_predict",
    "ngram_4",
    "attention",
    "rm_tm_gated",
    "attentive_single",
    "attentive_combined",
)
_ROWS = (
    "vanilla_tied",
    "dn_linear",
    "dn_kneser_ney",
    "vs_linear",
    "vs_kneser_ney",
    "vs_elementwise",
)
_OVER = {
    "attention": "lstm",
    "rm_tm_gated": "lstm",
    "attentive_single": "lstm",
    "attentive_combined": "lstm",
    "key_value": "lstm_2_parts",
    "key_value_predict": "lstm_3_parts",
    "ngram_4": "lstm_4_parts",
    "lstm": "lstm",
    "lstm_2_parts": "lstm_2_parts",
    "lstm_3_parts": "lstm_3_parts",
    "lstm_4_parts": "lstm_4_parts",
}
_ZAREMBA = Case(
    "zaremba_medium",
    "Two LSTM layers of 650 units, tied, 32 rows of 35 steps",
    (
        Contender("pytorch", "torch"),
        Contender("handwritten_jax", "jax"),
        # Losses differ, since `plain_keras` carries no state between batches.
        *(
            Contender("plain_keras", backend, tolerance=1e-3)
            for backend in BACKENDS
        ),
        *_package(),
        # These models run Keras' layers instead of `memlm_keras.cells.fused`.
        *(
            Contender("package", backend, "layers_of_keras")
            for backend in BACKENDS
        ),
    ),
    layers=2,
    tied=True,
)
_LARGE_VOCABULARY = Case(
    "vocabulary_77003",
    "One LSTM layer of 300 units over a vocabulary of 77,003, 64 rows of 20 "
    "steps",
    (
        Contender("pytorch", "torch"),
        *(
            Contender("plain_keras", backend, tolerance=1e-3)
            for backend in BACKENDS
        ),
        *_package(),
    ),
    batch=64,
    time=20,
    vocabulary=77_003,
    units=300,
    embedding=300,
)
# Ten updates a call, which Keras allows on these backends.
_TEN_STEPS = (
    Contender("package", "tensorflow", "ten_steps"),
    Contender("package", "jax", "ten_steps"),
)
# A small model: a step's time is mostly the overhead of an update.
_SMALL = Case(
    "small_update",
    "Two LSTM layers of 24 units over a vocabulary of 200, 20 rows of 35 steps",
    (
        Contender("pytorch", "torch"),
        Contender("handwritten_jax", "jax"),
        *_package(),
        *_TEN_STEPS,
    ),
    batch=20,
    vocabulary=200,
    units=24,
    embedding=24,
    layers=2,
    tied=True,
)
_ASSOCIATIVE = Case(
    "associative_layer",
    "Recurrent layers alone, forward and backward, of 100 units",
    (
        # The loss differs, since PyTorch's GRU has other weights and gates.
        Contender("pytorch", "torch", "gru", computes="gru of PyTorch"),
        *_pytorch("associative_gru"),
        *_package(
            "gru", "gru_of_keras", "associative_gru", "dual_associative_gru"
        ),
    ),
    kind="layer",
    batch=50,
    time=20,
    units=100,
    embedding=100,
    over=dict.fromkeys(
        ("gru", "gru_of_keras", "associative_gru", "dual_associative_gru"),
        "gru_of_keras",
    ),
)


def _in_tf32(*contenders):
    """Returns contenders with the larger tolerance that TF32 needs."""
    return tuple(dataclasses.replace(c, tolerance=0.01) for c in contenders)


_ON_A_CARD = _in_tf32(
    Contender("pytorch", "torch"),
    Contender("pytorch", "torch", "compiled"),
    Contender("handwritten_jax", "jax"),
    *_package(),
    Contender("package", "torch", "cuda_graphs"),
)
_LARGE = Case(
    "gpu_1024",
    "Two LSTM layers of 1,024 units, 128 rows of 70 steps",
    _ON_A_CARD,
    batch=128,
    time=70,
    vocabulary=8_000,
    units=1024,
    embedding=400,
    layers=2,
)


def _zaremba_on_a_card(units, batch):
    return dataclasses.replace(
        _LARGE,
        name=f"gpu_{units}_batch_{batch}",
        title=f"Two LSTM layers of {units} units, {batch} rows of 35 steps",
        batch=batch,
        time=35,
        vocabulary=10_000,
        units=units,
        embedding=units,
    )


_DELTA_RULE = Case(
    "delta_rule_layer",
    "The delta rule alone, forward and backward, of 200 units and 4 heads, 20 "
    "rows of 64 steps",
    _package("lstm_145", "delta_rule", "associative_gru"),
    kind="layer",
    batch=20,
    time=64,
    units=200,
    embedding=200,
    # An LSTM of 145 units has as many parameters as this delta rule.
    over=dict.fromkeys(
        ("lstm_145", "delta_rule", "associative_gru"), "lstm_145"
    ),
)
_LONG_WINDOW = Case(
    "long_window",
    "A step with a memory over an LSTM of the same hidden and output sizes, "
    "with a window of 64 steps",
    (
        *_package(
            "lstm",
            "lstm_2_parts",
            "lstm_3_parts",
            "attention",
            "key_value",
            "key_value_predict",
        ),
    ),
    kind="memories",
    batch=64,
    time=64,
    units=96,
    embedding=64,
    vocabulary=2_000,
    window=64,
    over=_OVER,
)


def _beside_pytorch(variant):
    """Returns contenders: hand-written PyTorch, and this package."""
    return (*_pytorch(variant), *_package(variant))


_MEMORY_BLOCK = Case(
    "memory_block",
    "An LSTM of 128 units with a gated memory of 15 words, 20 rows of 25 steps",
    _beside_pytorch("rm_tm_gated"),
    kind="memories",
    batch=20,
    time=25,
    units=128,
    embedding=128,
)


def _beside_by_hand(variant):
    """Returns contenders: each library by hand, and this package."""
    return (
        *_pytorch(variant),
        Contender("layers_by_hand", "jax", variant, computes=variant),
        Contender("layers_by_hand", "tensorflow", variant, computes=variant),
        *_package(variant),
    )


_LSTM_NETWORK = Case(
    "lstm_network_layer",
    "An LSTM of 450 units that attends to its 64 last states, alone, forward "
    "and backward, 50 rows of 20 steps",
    _beside_by_hand("lstm_network"),
    kind="layer",
    over_library=True,
    batch=50,
    time=20,
    units=450,
    embedding=300,
    window=64,
)


def _served(memory):
    """Returns contenders that serve a model with a memory."""
    return (
        *_pytorch(memory),
        *_package(memory),
        *(
            Contender("exported", engine, memory, computes=memory)
            for engine in ("tensorflow", "onnxruntime", "litert")
        ),
        Contender("exported", "litert", memory, "int8", 0.01, memory),
    )


_KEY_VALUE_PREDICT = Case(
    "key_value_predict_token",
    "Serving the key-value-predict model of 786 units: one token of one row",
    _served("key_value_predict"),
    kind="step",
    batch=1,
    time=1,
    units=786,
    embedding=300,
)
_ATTENTIVE = Case(
    "attentive_combined_token",
    "Serving the attentive model of 2 x 650 units, combined score, tied: one "
    "token of one row",
    _served("attentive_combined"),
    kind="step",
    batch=1,
    time=1,
    layers=2,
    tied=True,
)
_SCORED = "The same model: scoring 16 rows of 32 tokens"

CASES = {
    case.name: case
    for case in (
        _ZAREMBA,
        _SMALL,
        dataclasses.replace(
            _SMALL,
            name="small_memory",
            title="The same with one layer, alone and with a memory",
            contenders=(
                *_pytorch("lstm_3_parts", "key_value_predict"),
                *_package("lstm_3_parts", "key_value_predict"),
            ),
            kind="memories",
            layers=1,
            tied=False,
            over=_OVER,
        ),
        Case(
            "zaremba_medium_bfloat16",
            "The same layers in mixed bfloat16, float32 and autocast",
            (
                Contender("pytorch", "torch"),
                Contender(
                    "pytorch",
                    "torch",
                    precision="mixed_bfloat16",
                    tolerance=0.01,
                ),
                *_package(),
                *_package(precision="mixed_bfloat16", tolerance=0.01),
            ),
            layers=2,
            tied=True,
        ),
        Case(
            "memories",
            "A step with a memory over an LSTM of the same hidden and output "
            "sizes",
            (
                *_pytorch(
                    "lstm",
                    "lstm_3_parts",
                    "key_value_predict",
                    "attention",
                    "attentive_combined",
                    "rm_tm_gated",
                ),
                *_package(*_MEMORIES),
            ),
            kind="memories",
            batch=64,
            time=20,
            units=600,
            embedding=300,
            over=_OVER,
        ),
        _MEMORY_BLOCK,
        dataclasses.replace(
            _MEMORY_BLOCK,
            name="memory_network",
            title="A memory network of 15 words and 128 units, 20 rows of 25 "
            "steps",
            contenders=_beside_pytorch("memory_network"),
            layers=0,
        ),
        _LSTM_NETWORK,
        dataclasses.replace(
            _LSTM_NETWORK,
            name="word_by_word_layer",
            title="Word-by-word attention of 100 units alone, forward and "
            "backward, 50 pairs of at most 20 words each",
            contenders=_beside_by_hand("word_by_word"),
            units=100,
        ),
        _LONG_WINDOW,
        _ASSOCIATIVE,
        _DELTA_RULE,
        Case(
            "higher_order_layer",
            "Recurrent layers alone, forward and backward, of 300 units",
            _package("lstm_layer", "fofe_hornn", "gated_hornn"),
            kind="layer",
            batch=64,
            time=20,
            units=300,
            embedding=300,
            over=dict.fromkeys(
                ("lstm_layer", "fofe_hornn", "gated_hornn"), "lstm_layer"
            ),
        ),
        Case(
            "smoothing",
            "Rows of Kong et al. (2019) of 205 units, 64 rows of 35 steps",
            # Random dropout masks and replaced words make losses differ.
            _package(*_ROWS, tolerance=_ANY),
            kind="smoothing",
            batch=64,
            over=dict.fromkeys(_ROWS, "vanilla_tied"),
        ),
        _LARGE_VOCABULARY,
        dataclasses.replace(
            _LARGE_VOCABULARY,
            name="vocabulary_33278",
            title="The same over a vocabulary of 33,278, 32 rows of 35 steps",
            batch=32,
            time=35,
            vocabulary=33_278,
        ),
        Case(
            "streaming_step",
            "Reading one token of one row, 600 units",
            (
                *_pytorch("lstm", "key_value_predict"),
                *_package(
                    "lstm",
                    "key_value_predict",
                    "attentive_combined",
                    "delta_rule",
                ),
            ),
            kind="step",
            batch=1,
            time=1,
            over={
                "lstm": "lstm",
                "key_value_predict": "lstm",
                "attentive_combined": "lstm",
                "delta_rule": "lstm",
            },
            units=600,
            embedding=300,
        ),
        _KEY_VALUE_PREDICT,
        dataclasses.replace(
            _KEY_VALUE_PREDICT,
            name="key_value_predict_scores",
            title=_SCORED,
            batch=16,
            time=32,
        ),
        dataclasses.replace(
            _KEY_VALUE_PREDICT,
            name="key_value_predict_lengths",
            title="The same model: 16 requests of 2 to 32 tokens",
            contenders=tuple(
                Contender("requests", "tensorflow", variant)
                for variant in ("one_by_one", "together")
            ),
            batch=16,
            time=32,
        ),
        _ATTENTIVE,
        dataclasses.replace(
            _ATTENTIVE,
            name="attentive_combined_scores",
            title=_SCORED,
            batch=16,
            time=32,
        ),
        Case(
            "input",
            "Making batches alone, compared with training with 200 units",
            (
                Contender("package", "torch", "lstm", computes="lstm"),
                *(
                    Contender("pipeline", "torch", variant, computes=variant)
                    for variant in (
                        "batches",
                        "sentence_batches",
                        "noised_batches",
                        "pair_batches",
                    )
                ),
            ),
            kind="input",
            batch=64,
            time=20,
            units=200,
            embedding=200,
        ),
    )
}

# The most informative cases come first: `--minutes` leaves out the last.
_GPU = (
    _LARGE,
    _zaremba_on_a_card(650, 20),
    dataclasses.replace(
        _SMALL,
        name="gpu_small_update",
        contenders=_ON_A_CARD + _in_tf32(*_TEN_STEPS),
    ),
    dataclasses.replace(
        CASES["memories"],
        name="gpu_memories",
        contenders=_in_tf32(
            *_pytorch("lstm_3_parts", "key_value_predict"),
            *_package("lstm_3_parts", "key_value_predict"),
        ),
    ),
    _zaremba_on_a_card(1500, 20),
    _zaremba_on_a_card(200, 20),
    _zaremba_on_a_card(650, 256),
    dataclasses.replace(
        CASES["memories"],
        name="gpu_rows",
        title="Rows of other papers over the same LSTM",
        contenders=_in_tf32(
            *_package("lstm", "rm_tm_gated", "attentive_combined")
        ),
    ),
    dataclasses.replace(_ASSOCIATIVE, name="gpu_associative_layer"),
)
CASES |= {case.name: case for case in _GPU}
_ON_CARDS = tuple(case.name for case in _GPU)

_SERVING = tuple(
    name
    for name, case in CASES.items()
    if any(c.peer in ("exported", "requests") for c in case.contenders)
)
SUITES = {
    "cpu": tuple(name for name in CASES if name not in _SERVING + _ON_CARDS),
    "gpu": _ON_CARDS,
    "serving": _SERVING,
}
