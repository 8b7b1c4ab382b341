"""Commands of `memlm`: functions, each with its options."""
