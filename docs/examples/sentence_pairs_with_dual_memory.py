"""
Title: Sentence pairs with a dual associative memory
Author: The memlm_keras authors
Date created: 2026/11/23
Last modified: 2026/11/23
Description: Classify sentence pairs that no single word can classify.
Accelerator: None
"""

"""
## Introduction

Does one sentence follow from another? Often single words give the answer:
`nobody` and `sleeping` suggest a contradiction. Here they cannot. A premise
states who likes what, and a hypothesis states that one of these people likes
one of these things. The model must know who is bound to what.

A recurrent layer has one vector for all of it.
[Weissenborn (2016)](../papers/weissenborn2016.md) adds an associative memory to
a GRU. A value written with a key can be read with the same key, and one vector
holds many values. With a *dual* memory, the hypothesis has its own memory and
also reads the memory of the premise.

We train this cell and a GRU with as many parameters on the same pairs. This
takes under two minutes of one core with `KERAS_BACKEND=jax`, and several on
other backends.

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

Three people, three things. Half of the hypotheses are true. The others name a
thing that another person likes, so every word of a hypothesis occurs in its
premise, for both labels. Make your own pairs in the same way;
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

Both models read the premise, then the hypothesis. A second GRU summarises each,
and a layer of rectifiers compares them. The GRU reads the hypothesis from its
state after the premise. The dual cell starts the hypothesis with an empty
memory and also reads that of the premise: `conditioning="source"`. Keys are
computed from embeddings, so embeddings are initialized in a range that gives
long keys.
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

Both models use the same pairs, rate and number of passes.
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

Accuracy on 1,000 new pairs; chance is 50%.
"""

for name, model in models.items():
    logs = model.evaluate(corpus.batches("test"), return_dict=True, verbose=0)
    print(f"{name:12} {logs['accuracy']:.1%}")

model = models["dual AM-GRU"]
premise = "ada likes tea . bert likes opera . clara likes chess ."
for hypothesis in ("bert likes opera .", "bert likes tea ."):
    print(hypothesis, model.classify(premise, hypothesis))

"""
## What was read

At each word of the hypothesis, the cell reads the memory of the premise. Is the
result similar to what the premise wrote at the thing that this person likes, or
to what it wrote at the other things? Mean cosines over 50 pairs:
"""

cosines = np.zeros((4, 2))
for pair in make_pairs(50, seed=3):
    similarity = memlm.analysis.associations(
        model,
        corpus.vocabulary.encode(pair.premise),
        corpus.vocabulary.encode(pair.hypothesis),
    ).similarity
    # The words of a fact are person, likes, thing, and a full stop.
    liked = pair.premise.index(pair.hypothesis[0]) + 2
    others = [place for place in (2, 6, 10) if place != liked]
    cosines[:, 0] += similarity[:, liked] / 50
    cosines[:, 1] += similarity[:, others].mean(axis=1) / 50
print("read at    liked  others")
for word, (liked, others) in zip(("person", "likes", "thing", "."), cosines):
    print(f"{word:9}{liked:7.2f}{others:8.2f}")

"""
## Next

This task is designed for a memory, and one run of each model decides little.
With 4,000 pairs and 14 passes, the two models reach 84.6% and 84.0% (JAX,
seed 0). On real pairs the memory did not help ([our
results](../results/weissenborn2016.md)). [The page on
pairs](../how_to/pairs.md) has the paper's sizes, SNLI, SICK and word vectors.
"""
