"""
Title: Sentence pairs with a dual associative memory
Author: The memlm_keras authors
Date created: 2026/11/23
Last modified: 2026/11/23
Description: Classify sentence pairs whose words alone say nothing.
Accelerator: None
"""

"""
## Introduction

Does one sentence follow from another? Often the words tell: `nobody` and
`sleeping` give a contradiction away. Here they cannot. A premise says who likes
what, and a hypothesis says of one of these people that they like one of these
things; what must be known is who is bound to what.

A recurrent layer has one vector for all of it.
[Weissenborn (2016)](../papers/weissenborn2016.md) gives a GRU an associative
memory: what is written under a key comes back when it is read by that key, and
many things are held in one vector, one upon the other. With a *dual* memory,
the hypothesis is read with a memory of its own and with that which the premise
left behind.

We train this cell and a GRU of as many parameters on the same pairs: under two
minutes of one core with `KERAS_BACKEND=jax`, several on other backends.

## Setup
"""

import keras
import numpy as np

import memlm_keras as memlm

NUM_PAIRS = 10_000
EPOCHS = 5
NAMES = "ada bert clara dan edith frank greta hugo".split()
THINGS = "bread chess cider dancing opera tea".split()

keras.utils.set_random_seed(0)

"""
## Pairs

Three people, three things. Half of the hypotheses are true; the others are of a
thing that somebody else likes, so that every word of a hypothesis is in its
premise, whatever the label. Pairs of your own are made in the same way, and
`memlm.data.load_pairs` reads SNLI and SICK.
"""


def make_pairs(number, seed):
    random = np.random.default_rng(seed)
    pairs = []
    for index in range(number):
        people = random.choice(NAMES, 3, replace=False)
        things = random.choice(THINGS, 3, replace=False)
        premise = [
            word
            for person, thing in zip(people, things)
            for word in (person, "likes", thing, ".")
        ]
        asked, other = random.choice(3, 2, replace=False)
        label = ("true", "false")[index % 2]
        thing = things[asked if label == "true" else other]
        hypothesis = (people[asked], "likes", thing, ".")
        pairs.append(memlm.data.SentencePair(tuple(premise), hypothesis, label))
    return pairs


corpus = memlm.data.encode_pairs(
    "bindings",
    {
        "train": make_pairs(NUM_PAIRS, seed=0),
        "validation": make_pairs(500, seed=1),
        "test": make_pairs(1000, seed=2),
    },
    labels=("true", "false"),
)
for pair in make_pairs(2, seed=2):
    print(" ".join(pair.premise), "|", " ".join(pair.hypothesis), pair.label)

"""
## Models

Both read the premise, then the hypothesis; a second GRU summarises each, and a
rectifier layer compares. The first model goes on from the state in which the
premise left it. The second begins the hypothesis with an empty memory and reads
the premise's beside it: `conditioning="source"`. Keys are learned from random
embeddings, which are large enough to make long keys.
"""


def build(recurrent, conditioning):
    return memlm.EntailmentClassifier(
        vocabulary=corpus.vocabulary,
        labels=corpus.labels,
        embedding_dim=32,
        recurrent=recurrent,
        conditioning=conditioning,
        top=keras.layers.GRU(48),
        classifier_units=(48,),
        embeddings_initializer=keras.initializers.RandomUniform(-0.5, 0.5),
    )


models = {
    "GRU": build(keras.layers.GRU(76), "memory"),
    "dual AM-GRU": build(memlm.cells.DualAssociativeGRUCell(48), "source"),
}

"""
## Training

The same pairs, rate and number of passes for both.
"""

for name, model in models.items():
    print(f"{name}: {model.count_params():,} parameters")
    model.compile(keras.optimizers.Adam(0.003, global_clipnorm=5.0))
    model.fit(
        corpus.batches("train", batch_size=32, shuffle=True),
        validation_data=corpus.batches("validation"),
        epochs=EPOCHS,
        verbose=2,
    )

"""
## Result

Of 1,000 pairs that neither has seen; chance is 50%.
"""

for name, model in models.items():
    found = model.evaluate(corpus.batches("test"), return_dict=True, verbose=0)
    print(f"{name:12} {found['accuracy']:.1%}")

model = models["dual AM-GRU"]
premise = "ada likes tea . bert likes opera . clara likes chess ."
for hypothesis in ("bert likes opera .", "bert likes tea ."):
    print(hypothesis, model.classify(premise, hypothesis))

"""
## What was read

At each word of the hypothesis the cell reads the memory that the premise left
behind. Is what it reads like what the premise wrote at the thing which this
person likes, or at the others? Mean cosines over 50 pairs:
"""

alike = np.zeros((4, 2))
for pair in make_pairs(50, seed=3):
    similarity = memlm.analysis.associations(
        model,
        corpus.vocabulary.encode(pair.premise),
        corpus.vocabulary.encode(pair.hypothesis),
    ).similarity
    # The words of a fact are person, likes, thing, and a full stop.
    liked = pair.premise.index(pair.hypothesis[0]) + 2
    others = [place for place in (2, 6, 10) if place != liked]
    alike[:, 0] += similarity[:, liked] / 50
    alike[:, 1] += similarity[:, others].mean(axis=1) / 50
print("read at    liked  others")
for word, (liked, others) in zip(("person", "likes", "thing", "."), alike):
    print(f"{word:9}{liked:7.2f}{others:8.2f}")

"""
## Next

This task is made to need a memory, and one run each decides little. It also
takes pairs enough: with 4,000 of them and 14 passes, the two came to 84.6% and
84.0% (JAX, seed 0). On real pairs, of which there were few, the memory did not
pay: [what we measured](../results/weissenborn2016.md) says where and why. The
paper's sizes, SNLI, SICK and word vectors are on
[the page on pairs](../how_to/pairs.md).
"""
