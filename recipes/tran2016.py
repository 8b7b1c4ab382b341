"""Tran et al. (2016), Recurrent Memory Networks for Language Modeling: memory
blocks over LSTMs, the Kneser-Ney model that they are compared with, and what
the attention shows.

    python recipes/tran2016.py ptb --data_dir=path/to/ptb
    python recipes/tran2016.py analyses --data_dir=path/to/ptb
    python recipes/tran2016.py dependencies --dataset=path/to/UD_German-GSD
    python recipes/tran2016.py completion --dataset=path/to/novels \\
        --questions=Holmes.machine_format.questions.txt \\
        --answers=Holmes.machine_format.answers.txt

Every sentence is read from an empty context, in training and evaluation. The
learning rate is kept for four epochs and then halved at each one. Analyses of a
run that is finished are drawn without training it again; the novels of the
Sentence Completion Challenge are prepared by `memlm_keras.data.prepare_novels`.
Steps, each a `memlm` command to which further flags may be added:
"""

import sys

from memlm_keras.experiments import recipe

STEPS = {
    # Table 2: of Penn Treebank what was measured; other texts by --dataset.
    "perplexity": ["table", "tran2016/perplexity"],
    # docs/results/tran2016.md.
    "ptb": [
        "table",
        "tran2016/perplexity",
        "--rows=kneser_ney_5,kneser_ney_5_cache,lstm_3,rm_tm_gated",
        "--dataset=ptb",
    ],
    # Figures 3, 4 and 5, and Table 3.
    "analyses": [
        "train",
        "tran2016/rm_tm_gated",
        "--dataset=ptb",
        "--analyses=columns,predictions,pairs",
    ],
    # Figure 6, of a treebank that is text and parses.
    "dependencies": [
        "train",
        "tran2016/rm_tm_gated",
        "--epochs=8",
        "--minimum_count=2",
        "--analyses=dependencies",
    ],
    # Table 4.
    "completion": [
        "table",
        "tran2016/completion",
        "--vocabulary_size=64000",
    ],
}

if __name__ == "__main__":
    sys.exit(recipe.main(STEPS, __doc__))
