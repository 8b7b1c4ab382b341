"""Writes a trained model with what its test text shows, for other recipes."""

import math

import memlm_keras as memlm
from memlm_keras.experiments import process


def save_trained(model, folder, dtype, batches, card):
    """Writes a trained model, with the perplexity on batches that its stored
    weights reach, and returns that `Perplexity`."""
    model.save_to_preset(folder, dtype)
    stored = type(model).from_preset(folder)
    test = memlm.evaluation.perplexity(stored, batches)
    full = memlm.evaluation.perplexity(model, batches)
    characters = model.vocabulary.count_characters(batches.tokens)
    facts = process.provenance(card["command"])
    card = card | {
        "perplexity": round(test.perplexity, 3),
        "perplexity before storing": round(full.perplexity, 3),
        "bits per character": round(test.loss / math.log(2.0) / characters, 3),
        "perplexity of": f"test text, {test.predicted_tokens:,} tokens",
        "protocol": test.protocol,
        "backend": f"{facts['backend']}, Keras {facts['keras']}",
        "commit": facts["memlm_keras"],
        "hardware": facts["hardware"],
        "date": facts["date"],
    }
    if test.words is not None:
        card["perplexity per word"] = round(test.per_word, 3)
        card["words"] = "separated by white space, and ends of lines"
    stored.save_to_preset(folder, dtype, card)
    return test
