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

Between two requests, the state of a recurrent model must be kept somewhere.
Here the state goes out with each answer and comes back with the next request.
The server keeps none, so any of several servers can answer, and a server can be
restarted during a conversation.

We export a model as a SavedModel, which runs without Keras and without this
package. We call its signatures as a server does, and then call a server.

## Setup
"""

import time

import keras
import numpy as np
import tensorflow as tf

import memlm_keras as memlm

EPOCHS = 2
# Address of TensorFlow Serving, such as "http://localhost:8501", or `None`.
ADDRESS = None

keras.utils.set_random_seed(0)

"""
## A model

Any model of the package can be served. This one is small and has learned little
more than the form of sentences. [The first
example](key_value_predict_language_model.md) trains a better one.
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

The export has the layout of TensorFlow Serving. A version appears completely or
not at all. The graph contains the vocabulary and its tokenisation, so clients
send text.
"""

path = memlm.serving.export(lm, "saved_models/kvp")
print(path)
served = tf.saved_model.load(str(path)).signatures
for name, signature in served.items():
    inputs = signature.structured_input_signature[1]
    print(f"{name:16} takes {', '.join(inputs)}")

"""
The rest does not need this package. A server calls the same signatures for
clients in any language.

## Score texts

`score` returns the natural log-probability of each word and of the end, for
several texts of any length in one request.
"""

texts = ["ruth ellis was born in york", "york in born was ellis ruth"]
answer = served["score"](text=tf.constant(texts))
for text, total, length in zip(
    texts, answer["log_probability"].numpy(), answer["length"].numpy()
):
    print(f"{text}: {total:.2f}, perplexity {np.exp(-total / length):.1f}")

"""
The exported model gives the same result as the model in this process:
"""

difference = np.abs(
    answer["log_probabilities"].numpy()[0] - lm.score(texts[0])
).max()
print(f"Log-probabilities differ by {difference:.1e} at most.")

"""
## Stream

`begin` reads a text from an empty context. It returns the most probable next
words and the state. Two people can use one server at the same time, each with
their own state.
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
A word costs the same at the end of a long text as at its beginning, because
only the state is read. Medians over 50 words each:
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

Each text has its own length, sampling and seed.
"""

answer = served["generate"](
    text=tf.constant(["ruth ellis was", "ruth ellis was", "where was"]),
    length=tf.constant([8, 8, 4]),
    top_k=tf.constant([1, 10, 10]),
    temperature=tf.constant([1.0, 5.0, 2.0]),
    seed=tf.constant([0, 7, 8]),
)
for text in answer["text"].numpy():
    print(text.decode())

"""
## From a server

In a shell, with TensorFlow Serving or its container ([compose
file](../how_to/serving.md)):

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
Without any package, send the example requests of the export:

    cd saved_models/kvp/1/assets.extra
    curl -d @requests/score.json http://localhost:8501/v1/models/kvp:predict

## Next

The model card, `assets.extra/model_card.md`, has the inputs and outputs of each
signature. [Serving](../how_to/serving.md) explains what servers do to requests.
[Export formats](../how_to/formats.md) lists the models that can be exported as
ONNX and LiteRT too.
"""
