"""Benchmarks: this package compared with code that needs no package."""
