"""Benchmarks: this package compared with code written without it."""
