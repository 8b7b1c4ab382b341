"""Weissenborn (2016), Neural Associative Memory for Dual-Sequence Modeling:
classifiers of sentence pairs, and autoencoders.

    python recipes/weissenborn2016.py sick --data_dir=path/to/sick
    python recipes/weissenborn2016.py snli --vectors=glove.840B.300d.zip
    python recipes/weissenborn2016.py embedded
    python recipes/weissenborn2016.py autoencoding --data_dir=path/to/ptb

With classifiers an epoch is a pass over the pairs, or 1,000 batches if that is
less, and the learning rate is halved when the accuracy falls over a pass. Of
models with an associative memory, associations.png (`memlm attention RUN
--premise=... --hypothesis=...`) is their Figures 2 and 3. `memlm predict RUN
PREMISE HYPOTHESIS` asks a classifier, and `memlm export RUN` serves it.
Steps, each a `memlm` command to which further flags may be added:
"""

import sys

from memlm_keras.experiments import recipe

EMBEDDED = [
    "table",
    "weissenborn2016/entailment",
    "--dataset=embedded",
    "--scale=0.5",
    "--embedding_dim=64",
    "--epochs=12",
    "--patience=12",
    "--seeds=0,1,2",
]

STEPS = {
    # Table 1.
    "snli": ["table", "weissenborn2016/entailment", "--dataset=snli"],
    # docs/results/weissenborn2016.md.
    "sick": [
        "table",
        "weissenborn2016/entailment",
        "--dataset=sick",
        "--rows=gru_shared,am_gru_shared,dual_am_gru_shared,lstm_attention",
        "--seeds=0,1,2,3,4",
    ],
    "embedded": [
        *EMBEDDED,
        "--rows=gru_shared,am_gru_shared,dual_am_gru_shared",
        "--embedding_range=0.5",
        "--nohalve",
    ],
    # What its halved rate and a smaller start cost the last of these.
    "embedded_halved": [
        *EMBEDDED,
        "--rows=dual_am_gru_shared",
        "--embedding_range=0.5",
        "--halve",
    ],
    "embedded_small_start": [
        *EMBEDDED,
        "--rows=dual_am_gru_shared",
        "--embedding_range=0.05",
        "--nohalve",
    ],
    # Section 5.3.
    "autoencoding": [
        "table",
        "weissenborn2016/autoencoding",
        "--dataset=ptb",
        "--vocabulary_size=2000",
        "--segment_length=12",
        "--epochs=5",
    ],
}

if __name__ == "__main__":
    sys.exit(recipe.main(STEPS, __doc__))
