"""
Title: Serve a language model, and call it
Author: The memlm_keras authors
Date created: 2026/11/23
Last modified: 2026/11/23
Description: Export a model for TensorFlow Serving, and call its signatures.
Accelerator: None
"""

"""
## Introduction

A recurrent model that is served has a problem that others have not: between two
requests somebody must keep its state. Here the state goes out with each answer,
and comes back with the next request. The server holds none, so any of several
servers can answer, and one can be restarted in the middle of a conversation.

We export a model as a SavedModel, which runs without Keras and without this
package, call its signatures as a server does, and then ask a server.

## Setup
"""

import time

import keras
import numpy as np
import tensorflow as tf

import memlm_keras as memlm

EPOCHS = 2
# Of TensorFlow Serving, such as "http://localhost:8501"; `None` asks no server.
ADDRESS = None

keras.utils.set_random_seed(0)

"""
## A model

Any model of the package does. This one is small, and has learned little more
than what sentences look like; [the first
example](key_value_predict_language_model.md) trains one that knows more.
"""

corpus = memlm.data.load("embedded")
lm = memlm.LanguageModel(
    vocabulary=corpus.vocabulary,
    embedding_dim=32,
    recurrent=[keras.layers.LSTM(48)],
    memory=memlm.memory.KeyValuePredict(window=15),
)
lm.compile(keras.optimizers.Adam(0.01, global_clipnorm=5.0))
lm.fit(
    corpus.batches("train", 32, 35, documents=True), epochs=EPOCHS, verbose=2
)

"""
## Export

A version appears whole or not at all, in the layout that TensorFlow Serving
looks for. The vocabulary and its tokenisation are in the graph, so that clients
send text.
"""

path = memlm.serving.export(lm, "saved_models/kvp")
print(path)
served = tf.saved_model.load(str(path)).signatures
for name, signature in served.items():
    inputs = signature.structured_input_signature[1]
    print(f"{name:16} takes {', '.join(inputs)}")

"""
From here on nothing needs this package: what `served[name]` does here, a server
does for clients in any language.

## Score texts

Of texts in one request, whatever their lengths, each word's natural
log-probability, and the end's.
"""

texts = ["ruth ellis was born in york", "york in born was ellis ruth"]
answer = served["score"](text=tf.constant(texts))
for text, total, length in zip(
    texts, answer["log_probability"].numpy(), answer["length"].numpy()
):
    print(f"{text}: {total:.2f}, perplexity {np.exp(-total / length):.1f}")

"""
The exported model says what the model in this process says:
"""

difference = np.abs(
    answer["log_probabilities"].numpy()[0] - lm.score(texts[0])
).max()
print(f"Log-probabilities differ by {difference:.1e} at most.")

"""
## Stream

`begin` reads a text from an empty context and answers with the most probable
next words, and with the state. Two people may talk to one server at once, each
with a state of their own.
"""


def state_of(answer):
    return {k: v for k, v in answer.items() if not k.startswith("top_k_")}


def best(answer):
    word, score = answer["top_k_words"][0, 0], answer["top_k_log_probabilities"]
    return f"{word.numpy().decode()!r} ({np.exp(score[0, 0].numpy()):.0%})"


first = served["begin"](text=tf.constant(["ruth ellis"]))
second = served["begin"](text=tf.constant(["where was"]))
size = sum(tensor.numpy().nbytes for tensor in state_of(first).values())
print(f"A state has {size:,} bytes, however long the text.")
for word_of_first, word_of_second in zip(
    "was born in".split(), "clara walsh born".split()
):
    first = served["step_words"](
        text=tf.constant([word_of_first]), **state_of(first)
    )
    second = served["step_words"](
        text=tf.constant([word_of_second]), **state_of(second)
    )
    print(f"{word_of_first:8} -> {best(first):20}", end="")
    print(f"{word_of_second:8} -> {best(second)}")

"""
A word costs the same at the end of a long text as at its beginning, as only the
state is read, and not the text. Medians over 50 words each:
"""


def milliseconds(answer):
    times = []
    for _ in range(50):
        start = time.perf_counter()
        answer = served["step_words"](
            text=tf.constant(["york"]), **state_of(answer)
        )
        times.append(1000 * (time.perf_counter() - start))
    return np.median(times)


long = served["begin"](text=tf.constant(["ruth ellis was born in york " * 150]))
print(f"{milliseconds(first):.2f} ms after 5 words")
print(f"{milliseconds(long):.2f} ms after 900 words")

"""
## Generate

Each text with its own length, sampling and seed.
"""

answer = served["generate"](
    text=tf.constant(["ruth ellis was", "ruth ellis was", "where was"]),
    length=tf.constant([8, 8, 4]),
    top_k=tf.constant([1, 10, 10]),
    temperature=tf.constant([1.0, 2.0, 2.0]),
    seed=tf.constant([0, 7, 8]),
)
for text in answer["text"].numpy():
    print(text.decode())

"""
## From a server

In a shell, with TensorFlow Serving or its container (there is a [compose
file](../how_to/serving.md) for it):

    tensorflow_model_server --rest_api_port=8501 --model_name=kvp \\
        --model_base_path="$PWD/saved_models/kvp"

Then set `ADDRESS` above. The client keeps the state of a session.
"""

if ADDRESS is not None:
    client = memlm.serving.Client(ADDRESS, "kvp")
    print(client.score(texts)["log_probability"])
    session = client.session("ruth ellis")
    for word in "was born in".split():
        (word_next, score), *_ = session.step(word)
        print(f"{word:8} -> {word_next!r} ({np.exp(score):.0%})")

"""
Without any package, the requests that the model brings along can be sent as
they are:

    cd saved_models/kvp/1/assets.extra
    curl -d @requests/score.json http://localhost:8501/v1/models/kvp:predict

## Next

The model card, `assets.extra/model_card.md`, says what each signature takes and
gives; [the page on serving](../how_to/serving.md) what servers do to requests,
and [that on formats](../how_to/formats.md) which models leave as ONNX and
LiteRT as well.
"""
