"""Kong et al. (2019), Variational Smoothing in Recurrent Neural Network
Language Models: noised and smoothed models, and the statistics that both are
made of.

    python recipes/kong2019.py ptb --data_dir=path/to/ptb
    python recipes/kong2019.py samples --data_dir=path/to/ptb --scale=0.2
    python recipes/kong2019.py grid --data_dir=path/to/ptb --scale=0.4 \\
        --rows=vs_linear_512,dn_linear_512 --grid rate=0.1,0.2 l2=0.0001,0.001

Perplexities are those by the mean of the smoothed matrices. A grid trains each
row with all values, and best.csv has the choice of each by its validation
perplexity; grid.png is their Figure 1.
Steps, each a `memlm` command to which further flags may be added:
"""

import sys

from memlm_keras.experiments import recipe

STEPS = {
    # Table 2.
    "ptb": ["table", "kong2019/ptb", "--dataset=ptb"],
    "wikitext2": ["table", "kong2019/wikitext2", "--dataset=wikitext-2"],
    # Figure 1: the values of gamma, l2 and learning rate that they tuned.
    "grid": ["table", "kong2019/grid", "--dataset=ptb"],
    # Prediction by the mode and by the mean of samples, too.
    "samples": [
        "train",
        "kong2019/vs_kneser_ney_512",
        "--dataset=ptb",
        "--samples=20",
    ],
    # A memory above the smoothed layers; no model of the paper.
    "memory": [
        "train",
        "kong2019/vs_kneser_ney_512",
        "--dataset=ptb",
        "--memory=key_value_predict",
    ],
}

if __name__ == "__main__":
    sys.exit(recipe.main(STEPS, __doc__))
