"""Salton et al. (2017), Attentive Language Models: attention over all of a
sentence, with a score of each word by itself or combined with the present one.

    python recipes/salton2017.py small --data_dir=path/to/ptb
    python recipes/salton2017.py --model=salton2017/ptb_single --dataset=ptb
    python recipes/baselines.py ptb  # what they compare with

Every sentence is read from an empty context, cut at 35 words in training and
whole in evaluation. Perplexities are told by the standard protocol and by the
paper's, side by side; sentence_attention.png is their Figures 2 and 3.
Steps, each a `memlm` command to which further flags may be added:
"""

import sys

from memlm_keras.experiments import recipe

STEPS = {
    # Tables 1 and 2, at the paper's sizes.
    "ptb": ["table", "salton2017/ptb", "--dataset=ptb"],
    "wikitext2": ["table", "salton2017/wikitext2", "--dataset=wikitext-2"],
    # docs/results/salton2017.md.
    "small": [
        "table",
        "salton2017/ptb",
        "--dataset=ptb",
        "--scale=0.15",
        "--epochs=5",
        "--halve_after=3",
        "--dropout=0.1",
        "--initial_range=0.1",
    ],
}

if __name__ == "__main__":
    sys.exit(recipe.main(STEPS, __doc__))
