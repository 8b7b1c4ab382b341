"""
Title: A language model with key-value-predict attention
Author: The memlm_keras authors
Date created: 2026/11/23
Last modified: 2026/11/23
Description: Train a model that looks up earlier facts, then stream it.
Accelerator: None
"""

"""
## Introduction

An LSTM stores everything it has read in one vector, and soon forgets who was
born where. [Daniluk et al. (2017)](../papers/daniluk2017.md) let it attend to
its last outputs. Each output is split into three parts: a *key* for finding it,
a *value* for reading it, and a vector that *predicts* the next word.

We train such a model on text that asks for facts it stated earlier. We compare
it with an n-gram model and with the best possible model. Then we read text with
it token by token, as a keyboard or a speech recogniser does. This takes under
two minutes of one core with `KERAS_BACKEND=jax`.

## Setup
"""

import collections

import keras
import numpy as np

import memlm_keras as memlm

WINDOW = 54  # Number of steps that the model can look back.
UNITS = 99
BATCH_SIZE = 32
EPOCHS = 8

keras.utils.set_random_seed(0)

"""
## Text

The embedded corpus is generated, so nothing is downloaded. Each document
introduces people and then asks for them. For your own text with one sentence
per line, use `memlm.data.load_text("novel.txt")`.
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

Embed, recur, remember, predict. The memory is a Keras layer, and any other
memory of `memlm.memory` can replace it. The model contains the vocabulary, so
it accepts strings. The initial weights are large: if all vectors are similar, a
memory does not learn which one to read.
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
sentences but has to guess the names. We know how the text is generated, so we
also know the perplexity of a reader that forgets nothing.
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

`step` takes tokens and a state, and returns logits and the next state. The
state is a dict of tensors. Its size does not grow with the text.
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
Reading one token at a time gives the same result as one call:
"""

at_once = keras.ops.convert_to_numpy(lm(token_ids))
difference = np.abs(np.stack(streamed, axis=1) - at_once).max()
print(f"Logits differ by {difference:.1e} at most.")

"""
## Where does it look?

For the last word of each answer in this document, we print its probability, the
most probable word, and the position with the largest attention weight.
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
    # The last slot of the attention at a step is the step before.
    step = end - 1
    predicted = vocabulary.decode([probabilities[step].argmax()])[0]
    back = attention.shape[1] - attention[step].argmax()
    probability = probabilities[step, token_ids[0, end]]
    print(
        f"{asked:5} {words[end]:8} {probability:4.0%}"
        f"  predicted {predicted:8} looked at {words[step - back]!r}, "
        f"{back} back ({attention[step].max():.0%})"
    )

"""
Accuracy on all questions in twenty documents, by kind of question. After so few
epochs, the memory has learned some kinds better than others.
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

The saved file includes the vocabulary, and loads on any backend.
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
attention](../how_to/pictures.md), or train [the paper's
sizes](../papers/daniluk2017.md) with `memlm train`.
"""
