"""Daniluk et al. (2017), Frustratingly Short Attention Spans in Neural
Language Modeling: attention, key-value and key-value-predict memories, N-gram
RNNs, and what they are compared with.

    python recipes/daniluk2017.py ptb --data_dir=path/to/ptb
    python recipes/daniluk2017.py --model=ngram_4 --dataset=my_text.txt
    python recipes/daniluk2017.py --table=daniluk2017/windows --scale=0.2

Their Wikipedia articles are not published: documents of your own are dealt to
training, validation and test as theirs are. At other vocabularies than theirs,
--match_parameters gives all rows the size of the LSTM, as their sizes do.
Steps, each a `memlm` command to which further flags may be added:
"""

import sys

from memlm_keras.experiments import recipe

# Figure 2 at a fifth of the sizes; weights that begin as the paper's do.
SMALL = ["--scale=0.2", "--match_parameters", "--initial_range=0.2236"]

STEPS = {
    # Figure 2 (c), as the paper has it: of documents of your own.
    "models": ["table", "daniluk2017/models"],
    # Figure 2 (a), mean attention, and (b).
    "windows": ["table", "daniluk2017/windows"],
    "ngrams": ["table", "daniluk2017/ngrams"],
    # Figure 2 (d), whose questions are downloaded.
    "cbt": ["table", "daniluk2017/cbt", "--dataset=cbt"],
    # docs/results/daniluk2017.md.
    "ptb": [
        "table",
        "daniluk2017/models",
        "--rows=lstm,attention,key_value_predict,ngram_4",
        "--seeds=0,1,2",
        "--dataset=ptb",
        *SMALL,
        "--learning_rate=0.005",
        "--epochs=4",
        "--patience=4",
    ],
    "wikitext2": [
        "table",
        "daniluk2017/models",
        "--rows=lstm,key_value_predict,ngram_4",
        "--dataset=wikitext-2",
        "--vocabulary_size=10000",
        *SMALL,
        "--epochs=2",
        "--patience=2",
    ],
}

if __name__ == "__main__":
    sys.exit(recipe.main(STEPS, __doc__))
