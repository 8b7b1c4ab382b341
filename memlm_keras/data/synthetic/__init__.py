"""Corpora that are generated: their grammar, their words and their limits."""
