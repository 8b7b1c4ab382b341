"""`memlm evaluate --by=recency`: a table, a JSON file and a picture."""

import numpy as np

from memlm_keras.experiments import run_folder
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.process import provenance
from memlm_keras.experiments.process import quiet
from memlm_keras.experiments.report import markdown_table
from memlm_keras.linguistics import perplexity_by_recency
from memlm_keras.linguistics.plots import draw_recency

_NOTE = (
    "Tokens by how many tokens back the same one last stood in its document. "
    "Unknown words and ends of sentences are in no other line."
)


def compare(runs, split, verbose, command, out=None, plot=None):
    """Measures models on the same text, and prints a table.

    `runs` yields the name, model, corpus and a function from a split to batches
    of each; `out` and `plot` are paths of files to write, or `None`."""
    results, first = {}, None
    with quiet(verbose):
        for name, model, corpus, batches in runs:
            first = first or (name, corpus)
            if corpus.fingerprint != first[1].fingerprint:
                raise UsageError(
                    f"{name} and {first[0]} were trained on different texts or "
                    "vocabularies."
                )
            result = perplexity_by_recency(model, batches(split), verbose=0)
            results[name] = result
            print(f"{name}: {result.total}", flush=True)
    print("\n".join(["", *_table(results), "", _NOTE]))
    if out is not None:
        found = {
            "corpus": first[1].name,
            "split": split,
            "bins": result.bins,
            "tokens": result.tokens.tolist(),
            "runs": {name: _values(each) for name, each in results.items()},
            **provenance(command),
        }
        run_folder.write_json(out, found)
    if plot is not None:
        draw_recency(results, plot, f"{first[1].name}, {split}")


def _table(results):
    """Lines of the perplexities, a column for each run."""
    one = next(iter(results.values()))
    rows = [
        [bin, f"{tokens:,}", f"{share:.1%}", *map(_cell, perplexities)]
        for bin, tokens, share, *perplexities in zip(
            one.bins,
            one.tokens,
            one.shares,
            *(each.perplexities for each in results.values()),
        )
    ]
    totals = [each.total for each in results.values()]
    rows.append(
        [
            "all",
            f"{one.tokens.sum():,}",
            "100.0%",
            *(_cell(total.perplexity) for total in totals),
        ]
    )
    return markdown_table(["tokens back", "tokens", "share", *results], rows)


def _cell(perplexity):
    return "" if np.isnan(perplexity) else f"{perplexity:,.2f}"


def _values(result):
    """A `RecencyPerplexity` as plain values; an empty bin has no perplexity."""
    return {
        "perplexity": result.total.perplexity,
        "loss": result.total.loss,
        "protocol": result.total.protocol,
        "losses": result.losses.tolist(),
        "perplexities": [
            None if np.isnan(each) else each for each in result.perplexities
        ],
    }
