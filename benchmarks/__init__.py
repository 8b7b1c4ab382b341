"""Benchmarks that compare the speed of this package with other code."""
