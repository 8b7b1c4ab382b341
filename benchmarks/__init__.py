"""Benchmarks: this package beside what its users would write without it."""
