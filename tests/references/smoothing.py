"""Statistics, noise and smoothing, written as loops from the papers' equations.

Kong et al. (2019), Xie et al. (2017).
"""

import collections

import numpy as np


def statistics(tokens, vocabulary_size):
    """Computes a dict of c(v), u_v, N1+(v .), N1+(. v) and r_v by brute
    force."""
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
    """Returns gamma_v, `(V,)`, and q, `(V + 1,)`, whose last entry is the
    blank's."""
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


def mean_matrix(matrix, rates, proposal):
    """Computes mean_v = (1 - gamma_v) e_v + gamma_v sum_k q_k e_k by row."""
    means = np.zeros(matrix.shape)
    for v in range(len(matrix)):
        means[v] = (1 - rates[v]) * matrix[v]
        for k in range(len(matrix)):
            means[v] += rates[v] * proposal[k] * matrix[k]
    return means


def coefficients(rates, proposal):
    """Computes c_k, the number of times that row k is read if every word occurs
    once.

    Each word v reads its own row with probability 1 - gamma_v, and the row of
    any word k with probability gamma_v q_k.
    """
    words = range(len(rates))
    found = np.zeros(len(rates))
    for v in words:
        for k in words:
            found[k] += (1 - rates[v]) * (v == k) + rates[v] * proposal[k]
    return found


def divergence(matrix, rates, proposal):
    """sum_k c_k |e_k|^2."""
    weights = coefficients(rates, proposal)
    return sum(c * np.sum(row**2) for c, row in zip(weights, matrix))


def read_rows(matrix, rows):
    """Looks up vectors `(B, T, k)` by rows `(B, T)`, or each element by a
    row."""
    units = matrix.shape[1]
    vectors = np.zeros((*rows.shape[:2], units))
    for b, t, d in np.ndindex(vectors.shape):
        row = rows[b, t] if rows.ndim == 2 else rows[b, t, d]
        vectors[b, t, d] = matrix[row, d]
    return vectors


def kneser_ney_logits(
    matrix, bias, outputs, targets, drawn, rates, proposal, other_words="sample"
):
    """Computes a step's logits; the target's logit uses a drawn row.

    Args:
        matrix: `(V, k)`.
        bias: `(V,)`.
        outputs: `(B, T, k)`.
        targets: `(B, T)`.
        drawn: whether each input was replaced, and the rows drawn for the
            targets, both `(B, T)` or `(B, T, k)`; and the rows drawn for other
            words, `(V,)` or `(V, k)`.
        other_words: whether other words use the drawn rows, their means or
            their own rows.
    """
    replaced, rows, other_rows = drawn
    others = matrix
    if other_words == "mean":
        others = mean_matrix(matrix, rates, proposal)
    elif other_words == "sample":
        (others,) = read_rows(matrix, other_rows[None])
    logits = np.zeros((*targets.shape, len(matrix)))
    for b, t in np.ndindex(targets.shape):
        for v in range(len(matrix)):
            vector = others[v]
            if v == targets[b, t]:
                # One drawn row, or one drawn row for each element.
                drawn_row = np.where(replaced[b, t], rows[b, t], v)
                (vector,) = read_rows(matrix, drawn_row[None, None])[0]
            logits[b, t, v] = outputs[b, t] @ vector + bias[v]
    return logits


def cross_entropy(logits, targets):
    """Mean negative natural-log probability of targets `(B, T)`."""
    total = 0.0
    for b, t in np.ndindex(targets.shape):
        row = logits[b, t]
        normalizer = np.log(np.sum(np.exp(row - row.max()))) + row.max()
        total += normalizer - row[targets[b, t]]
    return total / targets.size
