"""What Salton et al. (2017) compare with, and others: Zaremba et al. (2014),
Press and Wolf (2017), Gal and Ghahramani (2016), Grave et al. (2017), Merity et
al. (2017), and language models with an associative memory.

    python recipes/baselines.py zaremba --data_dir=path/to/ptb
    python recipes/baselines.py --model=gal2016/medium --dataset=ptb \\
        --monte_carlo=50  # the mean of 50 draws of its dropout masks
    memlm evaluate RUN --cache_size=500  # a cache on top; nothing is retrained
    memlm evaluate RUN RUN RUN  # the mean of what several models predict

With a cache, its theta and weight are chosen on the validation text, and the
perplexities with it are told beside those without.
Steps, each a `memlm` command to which further flags may be added:
"""

import sys

from memlm_keras.experiments import recipe

STEPS = {
    "ptb": ["table", "baselines/ptb", "--dataset=ptb"],
    "wikitext2": ["table", "baselines/wikitext2", "--dataset=wikitext-2"],
    # docs/results/salton2017.md, with the cache of Grave et al.
    "zaremba": [
        "train",
        "zaremba2014/small",
        "--dataset=ptb",
        "--cache_size=500",
    ],
    # Five models to average: `memlm evaluate` of their run folders.
    **{
        f"zaremba_seed{seed}": [
            "train",
            "zaremba2014/small",
            "--dataset=ptb",
            "--scale=0.25",
            "--epochs=4",
            "--halve_after=2",
            f"--seed={seed}",
        ]
        for seed in range(5)
    },
}

if __name__ == "__main__":
    sys.exit(recipe.main(STEPS, __doc__))
