"""Statistics, noise and smoothing by loops, from the papers' equations.

Kong et al. (2019), Xie et al. (2017).
"""

import collections

import numpy as np


def statistics(tokens, vocabulary_size):
    """c(v), u_v, N1+(v .), N1+(. v) and r_v by brute force, a dict."""
    counts = np.zeros(vocabulary_size)
    after = collections.defaultdict(set)
    before = collections.defaultdict(set)
    previous = None
    for token in tokens:
        counts[token] += 1
        if previous is not None:
            after[previous].add(token)
            before[token].add(previous)
        previous = token
    words = range(vocabulary_size)
    preceders = np.array([max(len(before[v]), 1) for v in words])
    return {
        "counts": counts,
        "unigram": counts / len(tokens),
        "followers": np.array([len(after[v]) for v in words]),
        "preceders": preceders,
        "continuation": preceders / preceders.sum(),
    }


def replacement(scheme, rate, tokens, vocabulary_size, blank_id=None):
    """gamma_v `(V,)` and q `(V + 1,)`, the last place for a blank token."""
    found = statistics(tokens, vocabulary_size)
    rates, proposal = np.zeros(vocabulary_size), np.zeros(vocabulary_size + 1)
    for v in range(vocabulary_size):
        rates[v] = rate
        if scheme in ("absolute_discounting", "kneser_ney"):
            occurs = found["counts"][v]
            rates[v] = rate * found["followers"][v] / occurs if occurs else 0.0
    if blank_id is not None:
        proposal[blank_id] = 1.0
    else:
        name = "continuation" if scheme == "kneser_ney" else "unigram"
        proposal[:vocabulary_size] = found[name]
    return rates, proposal
