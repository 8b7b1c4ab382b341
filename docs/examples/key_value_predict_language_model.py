"""
Title: A language model with key-value-predict attention
Author: The memlm_keras authors
Date created: 2026/11/23
Last modified: 2026/11/23
Description: Train a model that looks back for what it was told, then stream it.
Accelerator: None
"""

"""
## Introduction

An LSTM has one vector for all that it has read, and forgets who was born where.
[Daniluk et al. (2017)](../papers/daniluk2017.md) let it look back at its last
outputs, and part each of them in three: a *key*, by which it is found, a
*value*, which is read when it is, and a vector that *predicts* the next word.

We train such a model on text that asks for what it said, hold it against an
n-gram model and against the best that any model could do, and read with it
token by token, as a keyboard or a recogniser would.

## Setup
"""

import collections

import keras
import numpy as np

import memlm_keras as memlm

WINDOW = 54  # Steps that the model can look back.
UNITS = 99
BATCH_SIZE = 32
EPOCHS = 8

keras.utils.set_random_seed(0)

"""
## Text

The embedded corpus is generated, so nothing is downloaded. Each document
introduces people and then asks for them. For text of your own, one sentence a
line, it is `memlm.data.load_text("novel.txt")`.
"""

corpus = memlm.data.load("embedded")
vocabulary = corpus.vocabulary
documents = memlm.data.embedded.documents_of(corpus.test, vocabulary)
print(f"{len(corpus.train):,} training tokens, {len(vocabulary)} words.")
print(" ".join(documents[0]).replace(" <eos> ", "\n").removesuffix(" <eos>"))


def batches(split, **kwargs):
    return corpus.batches(split, BATCH_SIZE, WINDOW, documents=True, **kwargs)


"""
## Model

Embed, recur, remember, predict. The memory is a Keras layer; any other of
`memlm.memory` fits in its place. The vocabulary goes into the model, which so
takes strings. From vectors that are all alike no memory learns which one to
read, so they begin far apart.
"""

lm = memlm.LanguageModel(
    vocabulary=vocabulary,
    embedding_dim=64,
    recurrent=[keras.layers.LSTM(UNITS)],
    memory=memlm.memory.KeyValuePredict(window=WINDOW),
    initializer=keras.initializers.RandomUniform(-0.5, 0.5),
)
lm.compile(keras.optimizers.Adam(0.01, global_clipnorm=5.0))
lm.fit(
    batches("train", shuffle=True),
    validation_data=batches("validation"),
    epochs=EPOCHS,
    callbacks=[
        keras.callbacks.LearningRateScheduler(
            memlm.training.halve_after(EPOCHS - 3)
        )
    ],
    verbose=2,
)

"""
## Is it any good?

A 5-gram model with Kneser-Ney smoothing sees four words back, so it knows the
sentences and guesses the names. What a reader who forgets nothing would reach
is known exactly, as we know how the text is made.
"""

kneser_ney = memlm.ngrams.KneserNey(len(vocabulary), discounts=0.5)
kneser_ney.fit(corpus.train, verbose=0)
perplexities = {
    "5-gram": memlm.evaluation.perplexity(
        kneser_ney, batches("test"), verbose=0
    ).perplexity,
    "key-value-predict": memlm.evaluation.perplexity(
        lm, batches("test"), verbose=0
    ).perplexity,
    "best possible": memlm.data.embedded.optimal_perplexity(documents),
}
for name, value in perplexities.items():
    print(f"{name:18} {value:.2f}")

"""
## Word by word

`step` takes tokens and a state, and gives logits and the next state. The state
is all that the model remembers, a dict of tensors whose size does not grow with
the text.
"""

words = list(documents[0])
token_ids = np.array([vocabulary.encode(words)])
state = lm.initial_state(1)
streamed = []
for position in range(token_ids.shape[1]):
    logits, state = lm.step(token_ids[:, position : position + 1], state)
    streamed.append(keras.ops.convert_to_numpy(logits)[:, 0])
size = sum(keras.ops.convert_to_numpy(s).nbytes for s in state.values())
print(f"The state has {size:,} bytes.")

"""
One token at a time gives what reading all at once gives:
"""

at_once = keras.ops.convert_to_numpy(lm(token_ids))
difference = np.abs(np.stack(streamed, axis=1) - at_once).max()
print(f"Logits differ by {difference:.1e} at most.")

"""
## Where does it look?

The last word of each answer in this document: how probable the model thought
it, which word it thought most probable, and at which it looked back most.
"""


def answers(words):
    """Yields the first word of each question, and where its answer ends."""
    start = 0
    for position, word in enumerate(words):
        if word == "<eos>":
            if "?" in words[start:position]:
                yield words[start], position - 1
            start = position + 1


probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(at_once))[0]
attention = lm.attention(token_ids)[0]
for asked, end in answers(words):
    # A step predicts the next word, and its last slot is the step before it.
    step = end - 1
    found = vocabulary.decode([probabilities[step].argmax()])[0]
    back = attention.shape[1] - attention[step].argmax()
    probability = probabilities[step, token_ids[0, end]]
    print(
        f"{asked:5} {words[end]:8} {probability:4.0%}"
        f"  predicted {found:8} looked at {words[step - back]!r}, {back} back "
        f"({attention[step].max():.0%})"
    )

"""
Of all questions in twenty documents, by what they ask for. In so few passes the
memory has learned more of some than of others.
"""

right, count = collections.Counter(), collections.Counter()
for words in documents[:20]:
    token_ids = np.array([vocabulary.encode(words)])
    predicted = keras.ops.convert_to_numpy(lm(token_ids))[0].argmax(axis=-1)
    for asked, end in answers(words):
        count[asked] += 1
        right[asked] += int(predicted[end - 1] == token_ids[0, end])
for asked in sorted(count):
    print(f"{asked:5} {right[asked]:3} of {count[asked]} right")

"""
## Generate, save, load

The saved file has the vocabulary in it, and loads on any backend.
"""

prompt = "ruth ellis was born in york in 1871 <eos> who came from york ?"
print(lm.generate(prompt, max_length=20, sampler="greedy"))
lm.save("key_value_predict.keras")
loaded = keras.saving.load_model("key_value_predict.keras")
difference = np.abs(loaded.score(token_ids) - lm.score(token_ids)).max()
print(f"Log-probabilities of the loaded model differ by {difference:.1e}.")

"""
## Next

[Serve it](serve_and_call.md), look at [all of its
attention](../how_to/pictures.md), or train [the paper's own
sizes](../papers/daniluk2017.md) by `memlm train`.
"""
